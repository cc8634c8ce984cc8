#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "train/memory_share.h"

namespace sectionflow {

/// Checks an option of a command line before anything is done: a number of bytes, as in 512MiB, or with `or_share` a
/// share too, as in 50%.
inline CLI::Validator size_argument(bool or_share = false) {
  const auto check = [or_share](const std::string& text) -> std::string {
    if (or_share && is_share(text)) return {};
    try {
      (void)parse_bytes(text);
    } catch (const ArgumentError& error) {
      const std::string advice = error.fact("hint");
      return text_of(error.message(), advice.empty() ? "" : "; ", advice,
                     or_share ? "; a share is written as in 50%" : "");
    }
    return {};
  };
  return CLI::Validator(check, or_share ? "SIZE or SHARE" : "SIZE");
}

/// The same of a budget, of which 0 would be taken for none at all, which is what leaving it out means.
inline CLI::Validator budget_argument() {
  const auto check = [size = size_argument(true)](std::string& text) -> std::string {
    const std::string wrong = size(text);
    if (!wrong.empty() || is_share(text) || parse_bytes(text) > 0) return wrong;
    return "'" + text + "' would be no budget; leave it out where there is to be none";
  };
  return CLI::Validator(check, "SIZE or SHARE");
}

/// Checks an option of a command line before anything is done: a whole number from `least` to `most`. The parser by
/// itself takes "-1" for the largest unsigned number, as it does what is larger than that, and tells no range.
template <class Number>
CLI::Validator number_argument(Number least, Number most = std::numeric_limits<Number>::max()) {
  const bool is_any = most == std::numeric_limits<Number>::max();
  const std::string range =
      text_of(least, " to ", is_any ? text_of("2^", std::numeric_limits<Number>::digits, "-1") : text_of(most));
  const auto check = [=](const std::string& text) -> std::string {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, number);
    const bool fits = failed == std::errc() && stop == end && number >= least && number <= most;
    return fits ? "" : "'" + text + "'; wanted a whole number from " + range;
  };
  return CLI::Validator(check, range);
}

/// Reads the command line. Nothing: run the program; else its exit status: 0 where --help has been answered, 2 where
/// something is not understood.
inline std::optional<int> read_arguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace sectionflow
