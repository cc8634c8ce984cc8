#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "graph/node.h"
#include "graph/value.h"

namespace sectionflow {

/// What a program is found by, part by part: nodes by their numbers, each behind a mark that says what it is there for.
/// Written anew for every run, so without streams.
class ProgramKey {
 public:
  explicit ProgramKey(std::string_view kind) {
    text_.reserve(kUsualLength);
    text_ += kind;
  }

  ProgramKey& add(std::string_view text) {
    text_ += text;
    return *this;
  }
  ProgramKey& add(std::string_view mark, std::uint64_t number) {
    std::array<char, std::numeric_limits<std::uint64_t>::digits10 + 1> digits;
    const char* end = std::to_chars(digits.begin(), digits.end(), number).ptr;
    text_ += mark;
    text_.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
    return *this;
  }
  ProgramKey& add(std::string_view mark, Value value) {
    return add(mark, static_cast<std::uint64_t>(value.node().id()))
        .add(":", static_cast<std::uint64_t>(value.output()));
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kUsualLength = 200;
  std::string text_;
};

}  // namespace sectionflow
