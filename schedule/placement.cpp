#include "schedule/placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "schedule/ejection.h"
#include "schedule/first_fit.h"
#include "schedule/placement_memory.h"
#include "schedule/skyline.h"

namespace sectionflow {
namespace {

// In looks at a block, each a nanosecond to three. Once this much has been done, no further order is begun and ejection
// ends.
constexpr std::int64_t kWorkLimit = 300'000'000;

// Changed orders tried in a row without a lower peak before the search goes on to ejection, and work at which it does.
constexpr int kPatience = 2000;
constexpr std::int64_t kWorkOfOrders = 50'000'000;

// By what share of the gap above the bound a placement is to come lower at once, and by what part of that after a
// failure.
constexpr double kShareOfGap = 0.2;
constexpr double kLessAfterFailure = 0.7;

// Failures in a row before the search gives up, and moves of a block before one is a failure, for each block: the n-th
// in a row is one after n times as many.
constexpr int kMostFailures = 6;
constexpr std::int64_t kMovesOfBlock = 20;

// What is found sooner is not worth keeping.
constexpr std::int64_t kWorkWorthKeeping = 100'000;

// Some hundred results for programs of a thousand steps.
constexpr std::size_t kMemoryBytes = std::size_t{4} << 20;

using Order = std::vector<int>;

double width(const Block& block) {
  return static_cast<double>(block.last - block.first + 1);
}
double size(const Block& block) {
  return static_cast<double>(block.size);
}

// The largest key first, equal keys in the order of the blocks.
template <class Key>
Order ordered_by(const std::vector<Block>& blocks, Key key) {
  std::vector<double> keys(blocks.size());
  std::transform(blocks.begin(), blocks.end(), keys.begin(), key);
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] > keys[b]; });
  return order;
}

// Long lives first leaves the wide stretches whole; large sizes first leaves the small blocks for the gaps. Which
// exponent of the width balances best differs between schedules.
std::vector<Order> skyline_orders(const std::vector<Block>& blocks) {
  return {
      ordered_by(blocks, [](const Block& block) { return width(block); }),
      ordered_by(blocks, [](const Block& block) { return size(block) * width(block) * width(block) * width(block); }),
      ordered_by(blocks, [](const Block& block) { return size(block) * width(block); }),
      ordered_by(blocks, [](const Block& block) { return size(block) * width(block) * std::sqrt(width(block)); }),
      ordered_by(blocks, [](const Block& block) { return size(block) * std::sqrt(width(block)); }),
      ordered_by(blocks, [](const Block& block) { return size(block); }),
  };
}

Order ordered_by_offset(const BlockOffsets& placement) {
  Order order(placement.offsets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return placement.offsets[a] < placement.offsets[b]; });
  return order;
}

std::int64_t highest_fixed_end(const PlacementProblem& problem) {
  std::int64_t highest = 0;
  for (const auto& [block, offset] : problem.fixed) highest = std::max(highest, offset + block.size);
  return highest;
}

class Search {
 public:
  Search(const PlacementProblem& problem, std::int64_t lower_bound)
      : problem_(problem),
        lower_bound_(std::max(lower_bound, highest_fixed_end(problem))),
        skyline_(problem),
        first_fit_(problem),
        ejection_(problem) {}

  BlockOffsets run();
  std::int64_t work() const { return skyline_.work() + first_fit_.work() + ejection_.work() + own_work_; }

 private:
  enum class Method { skyline, first_fit };

  bool finished() const { return best_.peak <= lower_bound_ || work() > kWorkLimit; }
  std::optional<BlockOffsets> place(Method method, const Order& order, std::int64_t peak_limit);
  void try_order(Method method, const Order& order);
  void try_equal_sizes();
  void try_skylines();
  void try_around_fixed();
  void change_order();
  Order changed(const Order& order);
  void eject();

  const PlacementProblem& problem_;
  const std::int64_t lower_bound_;
  Skyline skyline_;
  FirstFit first_fit_;
  Ejection ejection_;
  SplitMix random_{0};
  std::int64_t own_work_ = 0;

  BlockOffsets best_ = {.offsets = {}, .peak = std::numeric_limits<std::int64_t>::max()};
  Order best_order_;
  Method best_method_ = Method::skyline;
};

BlockOffsets Search::run() {
  if (problem_.blocks.empty()) return {.offsets = {}, .peak = highest_fixed_end(problem_)};
  try_equal_sizes();
  if (problem_.fixed.empty()) {
    try_skylines();
  } else {
    try_around_fixed();
  }
  change_order();
  eject();
  return std::move(best_);
}

std::optional<BlockOffsets> Search::place(Method method, const Order& order, std::int64_t peak_limit) {
  return method == Method::skyline ? skyline_.place(order, peak_limit) : first_fit_.place(order, peak_limit);
}

void Search::try_order(Method method, const Order& order) {
  if (finished()) {
    return;
  }
  if (auto placement = place(method, order, best_.peak - 1)) {
    best_ = *std::move(placement);
    best_order_ = order;
    best_method_ = method;
  }
}

// By begin, first fit is exact for equal sizes: each begin finds a place among those that the bound counts.
void Search::try_equal_sizes() {
  const auto& blocks = problem_.blocks;
  if (std::all_of(blocks.begin(), blocks.end(), [&](const Block& block) { return block.size == blocks[0].size; })) {
    try_order(Method::first_fit, ordered_by(blocks, [](const Block& block) { return -block.first; }));
  }
}

void Search::try_skylines() {
  for (const Order& order : skyline_orders(problem_.blocks)) {
    try_order(Method::skyline, order);
  }
}

// The skyline leaves the room below fixed blocks empty. First fit in the order of its offsets moves no block up, and
// fills that room.
void Search::try_around_fixed() {
  for (const Order& order : skyline_orders(problem_.blocks)) {
    if (!finished()) {
      const auto above_fixed = skyline_.place(order, std::numeric_limits<std::int64_t>::max());
      try_order(Method::first_fit, ordered_by_offset(*above_fixed));
    }
  }
  const auto& blocks = problem_.blocks;
  try_order(Method::first_fit, ordered_by(blocks, size));
  try_order(Method::first_fit, ordered_by(blocks, width));
  try_order(Method::first_fit, ordered_by(blocks, [](const Block& block) { return size(block) * width(block); }));
}

// Local search: small changes of the best order, kept when the peak does not grow.
void Search::change_order() {
  for (int patience = kPatience; patience > 0 && !finished() && work() <= kWorkOfOrders; --patience) {
    const Order order = changed(best_order_);
    auto placement = place(best_method_, order, best_.peak);
    if (!placement) {
      continue;
    }
    if (placement->peak < best_.peak) {
      patience = kPatience;
    }
    best_ = *std::move(placement);
    best_order_ = order;
  }
}

// One of the blocks that reach the peak comes earlier, and up to two pairs of others change places.
Order Search::changed(const Order& order) {
  const int num_blocks = static_cast<int>(order.size());
  own_work_ += num_blocks;
  std::vector<int> highest;
  for (int i = 0; i < num_blocks; ++i) {
    if (best_.offsets[order[i]] + problem_.blocks[order[i]].size == best_.peak) {
      highest.push_back(i);
    }
  }
  Order result = order;
  if (!highest.empty()) {
    const int from = highest[random_.below(static_cast<int>(highest.size()))];
    const int to = random_.below(from + 1);
    std::rotate(result.begin() + to, result.begin() + from, result.begin() + from + 1);
  }
  for (int swaps = random_.below(3); swaps > 0; --swaps) {
    const int a = random_.below(num_blocks);
    const int b = random_.below(num_blocks);
    std::swap(result[a], result[b]);
  }
  return result;
}

// Ejection, by which blocks come lower together.
void Search::eject() {
  double share = kShareOfGap;
  for (int failures = 0; failures < kMostFailures && !finished();) {
    const double step = share * static_cast<double>(best_.peak - lower_bound_);
    const std::int64_t limit = best_.peak - std::max<std::int64_t>(1, static_cast<std::int64_t>(step));
    const std::int64_t moves = kMovesOfBlock * std::ssize(problem_.blocks) * (1 + failures);
    if (auto lower = ejection_.lower(best_, limit, moves, ejection_.work() + kWorkLimit - work())) {
      best_ = *std::move(lower);
      failures = 0;
      share = kShareOfGap;
    } else {
      ++failures;
      share *= kLessAfterFailure;
    }
  }
}

}  // namespace

BlockOffsets search_placement(const PlacementProblem& problem, std::int64_t lower_bound) {
  // Never destroyed: a session that lives until the program's end may still ask.
  static PlacementMemory& memory = *new PlacementMemory(kMemoryBytes);
  if (auto known = memory.find(problem, lower_bound)) return *std::move(known);
  Search search(problem, lower_bound);
  BlockOffsets placement = search.run();
  if (search.work() >= kWorkWorthKeeping) memory.keep(problem, lower_bound, placement);
  return placement;
}

}  // namespace sectionflow
