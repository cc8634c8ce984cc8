#include "planning/starts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "planning/chain_starts.h"
#include "planning/evaluate.h"
#include "planning/evict.h"
#include "planning/lower_bound.h"

namespace sectionflow::planning {
namespace {

using Offer = std::function<void(std::vector<int>, int, const std::string&)>;

class Starts {
 public:
  Starts(const Problem& problem, const FlatProblem& flat, const StartOptions& options, const Offer& offer)
      : problem_(problem), flat_(flat), options_(options), offer_(offer) {
    // A walk looks at most values at each operation.
    looks_of_walk_ = std::max<std::int64_t>(
        static_cast<std::int64_t>(flat.inputs.size()) * static_cast<std::int64_t>(flat.num_values()), 1);
  }

  /// At this budget and at smaller ones, whose levels do not depend on it.
  void evict() {
    constexpr std::int64_t kLevels = 32;
    std::vector<std::int64_t> budgets = {options_.budget};
    const std::int64_t peak = default_peak(problem_), least = largest_working_set(problem_).bytes;
    for (std::int64_t level = kLevels; level-- > 1 && budgets.size() < 4;) {
      const std::int64_t smaller = peak / kLevels * level;
      if (smaller < options_.budget && smaller >= least) budgets.push_back(smaller);
    }
    std::vector<EvictWeights> variants = evict_variants();
    const auto most = options_.looks / looks_of_walk_ / static_cast<std::int64_t>(budgets.size());
    variants.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(most, 3, std::ssize(variants))));
    for (const std::int64_t budget : budgets) {
      ++way_;
      for (const EvictWeights& weights : variants) walk(budget, weights, {}, "");
    }
  }

  /// What bounds say of this budget leaves nothing for what is made again on the way back, so that those of smaller
  /// ones are taken too.
  void keep_cheapest() {
    constexpr int kPercents[] = {100, 98, 95, 92, 88, 80, 70};
    constexpr std::size_t kVariants = 16;
    if (options_.looks / looks_of_walk_ < static_cast<std::int64_t>(kVariants)) return;
    std::vector<std::int64_t> budgets;
    for (const int percent : kPercents) budgets.push_back(share(percent));
    std::vector<std::vector<int>> known;
    for (LowerBound& bound : lower_bounds(problem_, budgets, {.check = options_.check})) {
      if (bound.kept.empty() || std::ranges::find(known, bound.kept) != known.end()) continue;
      std::vector<std::uint8_t> kept(pos(flat_.num_values()), 0);
      for (const int value : bound.kept) kept[pos(value)] = 1;
      known.push_back(std::move(bound.kept));
      ++way_;
      const std::vector<EvictWeights> variants = evict_variants();
      for (std::size_t i = 0; i < kVariants; ++i) walk(options_.budget, variants[i], kept, "smallest cut, ");
    }
  }

  void plan_chains() {
    constexpr int kPercents[] = {110, 100, 90, 80, 65, 50};
    const ChainStarts chain(flat_);
    for (const int percent : kPercents) {
      if (options_.check) options_.check();
      std::vector<int> order = chain.order(share(percent));
      ++way_;
      if (!order.empty()) offer_(std::move(order), way_, text_of("chain within ", percent, " %"));
    }
  }

 private:
  std::int64_t share(int percent) const {
    return options_.budget / 100 * percent + options_.budget % 100 * percent / 100;
  }
  void walk(std::int64_t budget, const EvictWeights& weights, std::span<const std::uint8_t> kept, const char* how) {
    if (options_.check) options_.check();
    std::optional<std::vector<int>> order = evict_order(flat_, budget, weights, kept);
    if (order) offer_(*std::move(order), way_, how + weights.text());
  }

  const Problem& problem_;
  const FlatProblem& flat_;
  const StartOptions& options_;
  const Offer& offer_;
  std::int64_t looks_of_walk_ = 1;
  int way_ = 0;
};

}  // namespace

void offer_starts(const Problem& problem, const FlatProblem& flat, const StartOptions& options, const Offer& offer) {
  Starts starts(problem, flat, options, offer);
  starts.evict();
  starts.keep_cheapest();
  starts.plan_chains();
}

}  // namespace sectionflow::planning
