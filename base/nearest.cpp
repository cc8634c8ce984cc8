#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

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

}  // namespace sectionflow
