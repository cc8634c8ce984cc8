#include "bench/ops/settings.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace sectionflow::bench {
namespace {

constexpr SettingKind kKinds[] = {
    {"kernel", "size of the window, as in 3 or 1x3"},
    {"stride", "of the window, as in 2 or 2x1"},
    {"padding", "same, valid, or numbers, as in 1 or 1x0"},
    {"filters", "channels of the result"},
    {"groups", "of channels"},
    {"columns", "of the second matrix"},
    {"keys", "of attention, as many as queries if causal"},
    {"causal", "yes or no: whether a query sees only the keys up to its own place"},
    {"indices", "rows that are taken of the table, or added to it"},
    {"segments", "to which rows are added"},
    {"k", "elements that are taken of a row"},
    {"draws", "draws of a row"},
    {"axis", "along which is reduced, joined or cut; negative ones count from the end"},
    {"parts", "that are joined"},
    {"factor", "by which height and width grow"},
};

/// Whole numbers with x between them; nothing for another text.
std::optional<std::vector<std::int64_t>> numbers_with_x(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [stop, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc()) return std::nullopt;
    if (stop == end) return numbers;
    if (*stop != 'x') return std::nullopt;
    at = stop + 1;
  }
}

bool all_from(const std::vector<std::int64_t>& numbers, std::int64_t least) {
  for (std::int64_t number : numbers) {
    if (number < least) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> parse_sizes(const std::string& text, const std::string& what) {
  const auto sizes = numbers_with_x(text);
  SF_CHECK(sizes && all_from(*sizes, 1), ArgumentError, what, " '", text,
           "'; wanted sizes of 1 or more with x between them, as in 32x56x56x64");
  return *sizes;
}

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (std::int64_t size : sizes) text += text_of(text.empty() ? "" : "x", size);
  return text;
}

std::span<const SettingKind> setting_kinds() {
  return kKinds;
}

std::string Settings::summary() const {
  std::string summary;
  for (const auto& [name, value] : texts_) summary += (summary.empty() ? "" : ", ") + name + " " + value;
  return summary;
}

std::int64_t Settings::count(const std::string& name) const {
  const auto numbers = numbers_with_x(text(name));
  if (!numbers || numbers->size() != 1 || !all_from(*numbers, 1)) refuse(name, "a number of 1 or more");
  return numbers->front();
}

int Settings::axis(const std::string& name) const {
  const auto numbers = numbers_with_x(text(name));
  const bool is_axis = numbers && numbers->size() == 1 && std::abs(numbers->front()) <= Shape::kMaxRank;
  if (!is_axis) refuse(name, "an axis, as in 0 or -1");
  return static_cast<int>(numbers->front());
}

bool Settings::yes_or_no(const std::string& name) const {
  if (text(name) != "yes" && text(name) != "no") refuse(name, "yes or no");
  return text(name) == "yes";
}

const std::string& Settings::text(const std::string& name) const {
  for (const auto& [known, value] : texts_) {
    if (known == name) return value;
  }
  throw InternalError(text_of(op_, " asks for the setting '", name, "', which it does not name"));
}

std::vector<std::int64_t> Settings::numbers_of(const std::string& name, std::size_t rank, std::int64_t least) const {
  auto numbers = numbers_with_x(text(name));
  if (numbers && numbers->size() == 1) numbers->resize(rank, numbers->front());
  if (!numbers || numbers->size() != rank || !all_from(*numbers, least)) {
    refuse(name, text_of(least == 0 ? "same, valid, " : "", "one number of ", least, " or more, or ", rank,
                         " with x between them"));
  }
  return *numbers;
}

void Settings::refuse(const std::string& name, const std::string& wanted) const {
  throw ArgumentError(text_of(op_, ": --", name, " ", text(name), "; wanted ", wanted));
}

}  // namespace sectionflow::bench
