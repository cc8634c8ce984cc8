#include "bench/rates.h"

#include <charconv>
#include <cmath>
#include <map>
#include <system_error>

#include "base/error.h"

namespace sectionflow {

std::pair<double, std::string> number_and_unit(const std::string& option, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  SF_CHECK(error == std::errc() && std::isfinite(number) && number >= 0, ArgumentError, option, " ", text,
           " does not begin with a number of at least 0");
  return {number, std::string(end, text.data() + text.size())};
}

double rate_named(const std::string& option, const std::string& text) {
  static const std::map<std::string, double> units = {{"", 1},           {"B/s", 1},       {"kB/s", 1e3},
                                                      {"MB/s", 1e6},     {"GB/s", 1e9},    {"KiB/s", 0x1p10},
                                                      {"MiB/s", 0x1p20}, {"GiB/s", 0x1p30}};
  const auto [number, unit] = number_and_unit(option, text);
  const auto said = units.find(unit), found = said != units.end() ? said : units.find(unit + "/s");
  SF_CHECK(found != units.end() && number > 0, ArgumentError, option, " ", text,
           ": wanted a rate as in 50GB/s, 500MiB/s or 1000 (B/s)");
  return number * found->second;
}

CLI::Validator rate_argument() {
  const auto check = [](const std::string& text) -> std::string {
    try {
      (void)rate_named("a rate:", text);
    } catch (const ArgumentError& error) {
      return error.message();
    }
    return {};
  };
  return CLI::Validator(check, "RATE");
}

}  // namespace sectionflow
