#pragma once

#include <exception>
#include <string>

namespace sectionflow::testing_support {

/// The text of what a call throws.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace sectionflow::testing_support
