#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/utf8.h"

namespace sectionflow {
namespace {

/// Edits between two words; neighbours that changed places are one. Source: the optimal string alignment of Damerau
/// 1964, by rows (Wagner and Fischer 1974).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Distances of a's first i bytes to each beginning of b, and of its first i - 1 and i - 2.
  std::vector<std::size_t> row(b.size() + 1), above(b.size() + 1), two_above(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool crossed = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (crossed) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest_spelling(std::string_view word, std::span<const std::string> candidates) {
  const std::string* nearest = nullptr;
  std::size_t nearest_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t shorter = std::min(word.size(), candidate.size());
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t allowed = (longer + 1) / 3;
    // The difference in length is a lower bound that spares the table.
    if (longer - shorter > allowed) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > allowed || (nearest != nullptr && distance >= nearest_distance)) continue;
    nearest = &candidate;
    nearest_distance = distance;
  }
  return nearest == nullptr ? std::nullopt : std::optional<std::string>(*nearest);
}

NamesInFile names_in_file(std::string_view wanted, std::span<const std::string> names, const std::string& otherwise) {
  constexpr std::size_t kMostShown = 8, kMostBytes = 60, kMostSought = 1000;
  const auto shown = [](const std::string& name) {
    std::string text = valid_utf8(name.substr(0, kMostBytes));
    for (char& letter : text) letter = static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
    return text_of("'", text, name.size() > kMostBytes ? "...'" : "'");
  };
  NamesInFile known;
  std::vector<std::string> sought;
  for (std::size_t i = 0; i < names.size() && i < kMostSought; ++i) {
    if (i < kMostShown) known.list += (i == 0 ? "" : ", ") + shown(names[i]);
    if (names[i].size() <= kMostBytes) sought.push_back(names[i]);
  }
  if (names.empty()) known.list = "none";
  if (names.size() > kMostShown) known.list += text_of(" and ", names.size() - kMostShown, " more");
  const bool is_short = wanted.size() <= kMostBytes;
  const auto nearest = is_short ? nearest_spelling(wanted, sought) : std::nullopt;
  known.hint = hint(nearest ? text_of("is ", shown(*nearest), " the one that is meant?") : otherwise);
  return known;
}

}  // namespace sectionflow
