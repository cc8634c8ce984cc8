#include "bench/session_arguments.h"

#include "base/error.h"
#include "bench/rates.h"
#include "examples/models/command_line.h"

namespace sectionflow {
namespace {

std::size_t bytes_or_none(const std::string& text) {
  return text.empty() ? 0 : parse_bytes(text);
}

/// A rate as a size: "1GiB/s" as "1GiB", "50GB/s", by whose units links are sold, as "50000000000B".
std::string without_per_second(std::string& text) {
  if (text.ends_with("/s")) text.resize(text.size() - 2);
  const bool is_decimal = text.ends_with("kB") || text.ends_with("MB") || text.ends_with("GB");
  if (!is_decimal) return {};
  try {
    const double rate = rate_named("a rate of", text);
    if (rate < 1 || rate >= 0x1p63) return "'" + text + "' is no rate of a link";
    text = std::to_string(static_cast<std::size_t>(rate)) + "B";
  } catch (const ArgumentError& error) {
    return error.message();
  }
  return {};
}

}  // namespace

void add_session_arguments(CLI::App& app, SessionArguments& arguments, const std::string& device_memory) {
  add_device_arguments(app, arguments.device);
  app.add_option("--device-memory", arguments.device_memory,
                 device_memory +
                     ": a size, as in 512MiB, or a share, as in 50%, of the whole graph's transient peak, with the "
                     "variables that stay there on top; all of the device if absent")
      ->check(budget_argument());
  app.add_option("--host-memory", arguments.host_memory,
                 "budget of host memory for what is offloaded, as in 1GiB; all of it if absent or 0")
      ->check(size_argument());
  app.add_option("--disk", arguments.disk, "size of the swap file, as in 1GiB; nothing is offloaded to disk if absent")
      ->check(size_argument());
  app.add_option("--swap-directory", arguments.swap_directory, "where the swap file is made")->check(not_empty());
  app.add_flag("--swap-variables", arguments.swap_variables, "variables and optimiser slots live in host memory");
  app.add_option("--link", arguments.link,
                 "holds copies down to so much a second and direction, as in 50GB/s or 1GiB/s")
      ->transform(CLI::Validator(without_per_second, ""))
      ->check(size_argument());
  app.add_flag("--copy-threads", arguments.copy_threads, "copies by threads of their own, beside the compute team");
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")
      ->check(number_argument(0, 1024))
      ->capture_default_str();
  app.add_option(
         "--effort", arguments.effort,
         "changes of a plan that the search of auto tries, of which fewer take less time and give slower plans; "
         "0: as many as are worth their time")
      ->check(number_argument<std::int64_t>(0))
      ->capture_default_str();
}

SessionOptions session_options(const SessionArguments& arguments) {
  return {.device = device_of(arguments.device),
          .host_memory = bytes_or_none(arguments.host_memory),
          .disk = bytes_or_none(arguments.disk),
          .swap_directory = arguments.swap_directory,
          .swap_variables = arguments.swap_variables,
          .copy_threads = arguments.copy_threads,
          .link_bandwidth = static_cast<double>(bytes_or_none(arguments.link)),
          .threads = arguments.threads};
}

}  // namespace sectionflow
