#include <algorithm>
#include <cstdint>

#include "planning/search.h"

namespace sectionflow::planning {

std::int64_t round_of_moves(const Problem& problem) {
  return std::max<std::int64_t>(200 * static_cast<std::int64_t>(problem.operations.size()), 10'000);
}

std::int64_t effort_of_one_in_many(const Problem& problem) {
  // A move takes longer where there are more operations; beyond a thousand each of them still wants its share.
  constexpr std::int64_t kEach = 100'000, kFew = 400, kMany = 1000, kEachOfMany = 4'000;
  const auto count = std::max<std::int64_t>(static_cast<std::int64_t>(problem.operations.size()), 1);
  return kEach * std::min(count, kFew * kFew / count) + kEachOfMany * std::max<std::int64_t>(count - kMany, 0);
}

std::int64_t default_effort(const Problem& problem, bool has_link) {
  // Small graphs are searched for longer than their operations' share, up to some ten seconds, and those of several
  // hundred, too, where no link is: each long round comes to another plan. With a link half is for copies.
  constexpr std::int64_t kFew = 450, kMost = 3, kMostOfFew = 26'000'000, kSeveral = 40'000'000, kMany = 1000;
  const auto count = std::max<std::int64_t>(static_cast<std::int64_t>(problem.operations.size()), 1);
  const std::int64_t of_one = effort_of_one_in_many(problem);
  if (has_link) return 2 * of_one;
  if (count >= kFew) return std::max(of_one, kSeveral * std::min(count, kMany) / count);
  return std::max(of_one, std::min(std::min(kFew / count, kMost) * of_one, kMostOfFew));
}

}  // namespace sectionflow::planning
