#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <string>

#include "base/error.h"

namespace sectionflow::testing_support {

/// Calls `read` with the bytes cut off at every length and with every bit flipped, one at a time. It is to read
/// something or to throw a DataError. Every `step`th bit alone, where all would take long.
template <class Read>
void expect_read_or_refused(const std::string& bytes, const Read& read, std::size_t step = 1) {
  const auto attempt = [&](const std::string& damaged, const std::string& what) {
    try {
      read(damaged);
    } catch (const DataError&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
    }
  };
  for (std::size_t length = 0; length < bytes.size(); ++length)
    attempt(bytes.substr(0, length), text_of("cut off at ", length));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += step) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    attempt(damaged, text_of("bit ", bit));
  }
}

}  // namespace sectionflow::testing_support
