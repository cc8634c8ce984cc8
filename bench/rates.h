#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace sectionflow {

/// A number of at least 0 at the beginning of a text, and what stands behind it. Throws: ArgumentError naming `option`.
std::pair<double, std::string> number_and_unit(const std::string& option, const std::string& text);

/// "50GB/s", "500MiB/s", "1000": what so many are a second. Throws: ArgumentError naming `option`, for 0 as well.
double rate_named(const std::string& option, const std::string& text);
/// Checks an option of a command line before anything is done: a rate.
CLI::Validator rate_argument();

}  // namespace sectionflow
