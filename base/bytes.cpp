#include "base/bytes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/error.h"

namespace sectionflow {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 5> kUnits = {
    {{"tib", 0x1p40}, {"gib", 0x1p30}, {"mib", 0x1p20}, {"kib", 0x1p10}, {"b", 1.0}}};

[[noreturn]] void refuse(const std::string& text) {
  throw ArgumentError("'" + text +
                      "' is not a number of bytes; wanted a number and B, KiB, MiB, GiB or TiB, as in 512MiB");
}

}  // namespace

std::string bytes_text(std::size_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  static constexpr std::array<const char*, 4> names = {"KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  // What would print as 1024 is 1 of the next unit.
  while (amount >= 1023.5 && unit + 1 < names.size()) {
    amount /= 1024.0;
    ++unit;
  }
  const int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f %s", decimals, amount, names[unit]);
  return buffer.data();
}

std::size_t parse_bytes(const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.'))
    ++digits;
  const std::string number = text.substr(0, digits);
  if (number.empty() || number.size() > 20 || std::count(number.begin(), number.end(), '.') > 1 || number == ".")
    refuse(text);
  // Spaces stand between the number and its unit, and behind both.
  std::string unit = text.substr(digits);
  unit.erase(0, unit.find_first_not_of(' '));
  unit.erase(unit.find_last_not_of(' ') + 1);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_bare = unit.empty();
  if (is_bare) unit.push_back('b');
  const auto* known = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
  if (known == kUnits.end()) refuse(text);
  const auto checked = [&](std::size_t bytes) {
    SF_CHECK(!is_bare || bytes == 0 || bytes >= 1_KiB, ArgumentError, "'", text, "' would be ", bytes,
             bytes == 1 ? " byte" : " bytes", "; wanted a unit with so small a number",
             hint("did you mean ", text, "MiB or ", text, "GiB? ", text, "B says that it is bytes"));
    return bytes;
  };
  // Whole numbers go through integers: a double would lose bytes above 2^53.
  if (number.find('.') == std::string::npos) {
    std::size_t product = 0;
    const auto whole = std::stoull(number.size() > 19 ? "0" : number);
    if (number.size() > 19 || __builtin_mul_overflow(whole, static_cast<std::size_t>(known->bytes), &product))
      refuse(text);
    return checked(product);
  }
  const double bytes = std::floor(std::stod(number) * known->bytes);
  if (!(bytes < 0x1p63) || (bytes == 0 && std::stod(number) != 0)) refuse(text);
  return checked(static_cast<std::size_t>(bytes));
}

}  // namespace sectionflow
