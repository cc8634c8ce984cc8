#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

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
