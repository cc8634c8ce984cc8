#include "base/name_pattern.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace sectionflow {

bool matches_pattern(std::string_view name, std::string_view pattern) {
  // Where a letter does not fit, the last '*' takes one more; those before it need not be tried again.
  std::size_t at = 0, in_pattern = 0, after_star = std::string_view::npos, taken_to = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      after_star = ++in_pattern;
      taken_to = at;
    } else if (in_pattern < pattern.size() && (pattern[in_pattern] == '?' || pattern[in_pattern] == name[at])) {
      ++in_pattern;
      ++at;
    } else if (after_star != std::string_view::npos) {
      in_pattern = after_star;
      at = ++taken_to;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(in_pattern), pattern.end(),
                     [](char each) { return each == '*'; });
}

std::optional<std::string> nearest_pattern(std::string_view pattern, std::span<const std::string> names) {
  const bool is_folder = pattern.ends_with("/*"), is_end = !is_folder && pattern.starts_with("*/");
  if (!is_folder && !is_end) return nearest_spelling(pattern, names);
  // As many parts between '/' as the pattern has.
  const auto parts = std::count(pattern.begin(), pattern.end(), '/');
  std::vector<std::string> candidates;
  for (const std::string& name : names) {
    std::size_t slash = is_folder ? std::string::npos : name.size();
    for (std::ptrdiff_t part = 0; part < parts && (is_folder || slash != std::string::npos); ++part) {
      slash = is_folder ? name.find('/', slash + 1) : slash == 0 ? std::string::npos : name.rfind('/', slash - 1);
      if (slash == std::string::npos) break;
    }
    if (slash == std::string::npos) continue;
    candidates.push_back(is_folder ? text_of(name.substr(0, slash), "/*") : text_of('*', name.substr(slash)));
  }
  const auto nearest = nearest_spelling(pattern, candidates);
  return nearest ? nearest : nearest_spelling(pattern, names);
}

std::optional<std::string> renamed(std::string_view name, std::string_view from, std::string_view to) {
  if (!matches_pattern(name, from)) return std::nullopt;
  const std::size_t star = from.find('*');
  if (star == std::string_view::npos) return std::string(to);
  const std::string_view between = name.substr(star, name.size() - (from.size() - 1));
  std::string result(to);
  return result.replace(result.find('*'), 1, between);
}

void check_renaming(const std::string& call, std::string_view from, std::string_view to) {
  const auto stars = std::count(from.begin(), from.end(), '*');
  const bool has_question = from.find('?') != std::string_view::npos || to.find('?') != std::string_view::npos;
  SF_CHECK(
      !from.empty() && !to.empty() && !has_question && stars <= 1 && stars == std::count(to.begin(), to.end(), '*'),
      ArgumentError, call, ": cannot rename '", from, "' to '", to,
      "'; wanted two names, or two patterns with one '*' and no '?' each",
      hint("rename = {{\"old/*\", \"new/*\"}} puts what is below old/ below new/"));
}

}  // namespace sectionflow
