#include "schedule/skyline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace sectionflow {
namespace {

constexpr std::int64_t kNoStretch = -1;
constexpr int kPlaced = std::numeric_limits<int>::max();
constexpr int kNone = std::numeric_limits<int>::max();

// What a stretch costs beside the looks at blocks: the heap and the reaches. Measured, roughly.
constexpr std::int64_t kStretchWork = 256;

std::vector<std::int64_t> fixed_floor(const PlacementProblem& problem) {
  std::vector<std::int64_t> floor(problem.num_columns, 0);
  for (const auto& [block, offset] : problem.fixed) {
    for (int column = block.first; column <= block.last; ++column) {
      floor[column] = std::max(floor[column], offset + block.size);
    }
  }
  return floor;
}

std::vector<std::int64_t> floor_plus_load(const PlacementProblem& problem, std::vector<std::int64_t> floor) {
  std::vector<std::int64_t> change(problem.num_columns + 1, 0);
  for (const Block& block : problem.blocks) {
    change[block.first] += block.size;
    change[block.last + 1] -= block.size;
  }
  std::int64_t load = 0;
  for (int column = 0; column < problem.num_columns; ++column) {
    load += change[column];
    floor[column] += load;
  }
  return floor;
}

}  // namespace

Skyline::Skyline(const PlacementProblem& problem)
    : problem_(problem),
      floor_(fixed_floor(problem)),
      initial_reach_(floor_plus_load(problem, floor_)),
      reach_(initial_reach_),
      by_first_(problem.blocks.size()),
      slot_(problem.blocks.size()),
      slots_end_(problem.num_columns + 1, 0) {
  std::iota(by_first_.begin(), by_first_.end(), 0);
  std::stable_sort(by_first_.begin(), by_first_.end(),
                   [&](int a, int b) { return problem_.blocks[a].first < problem_.blocks[b].first; });
  for (int slot = 0; slot < static_cast<int>(by_first_.size()); ++slot) {
    slot_[by_first_[slot]] = slot;
    ++slots_end_[problem_.blocks[by_first_[slot]].first + 1];
  }
  std::partial_sum(slots_end_.begin(), slots_end_.end(), slots_end_.begin());
}

void Skyline::reset(std::span<const int> order) {
  order_ = order;
  last_.resize(order.size());
  rank_.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int slot = slot_[order[i]];
    last_[slot] = problem_.blocks[order[i]].last;
    rank_[slot] = static_cast<int>(i);
  }
  reach_ = initial_reach_;
  heap_.clear();
  height_.assign(problem_.num_columns, kNoStretch);
  end_.assign(problem_.num_columns, 0);
  begin_.assign(problem_.num_columns, 0);
  for (int begin = 0, end = 0; begin < problem_.num_columns; begin = end) {
    while (end < problem_.num_columns && floor_[end] == floor_[begin]) {
      ++end;
    }
    set_stretch({begin, end, floor_[begin]});
  }
  work_ += problem_.num_columns + static_cast<std::int64_t>(order.size());
}

std::optional<BlockOffsets> Skyline::place(std::span<const int> order, std::int64_t peak_limit) {
  reset(order);
  BlockOffsets placement;
  placement.offsets.resize(order.size());
  for (std::size_t num_placed = 0; num_placed < order.size();) {
    if (reach_.max() > peak_limit) {
      return std::nullopt;
    }
    work_ += kStretchWork;
    const Stretch stretch = pop_lowest();
    const int block = choose_block(stretch);
    if (block == kNone) {
      raise(stretch);
      continue;
    }
    put(block, stretch);
    placement.offsets[block] = stretch.height;
    placement.peak = std::max(placement.peak, stretch.height + problem_.blocks[block].size);
    ++num_placed;
  }
  for (const auto& [block, offset] : problem_.fixed) {
    placement.peak = std::max(placement.peak, offset + block.size);
  }
  return placement;
}

Skyline::Stretch Skyline::pop_lowest() {
  for (;;) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [height, begin] = heap_.back();
    heap_.pop_back();
    if (height_[begin] == height) {
      return {begin, end_[begin], height};
    }
  }
}

int Skyline::choose_block(const Stretch& stretch) {
  const int tightest = reach_.position_of_max(stretch.begin, stretch.end - 1);
  int rank = first_in_order(stretch.begin, tightest + 1, tightest, stretch.end - 1);
  if (rank == kNone) {
    rank = first_in_order(stretch.begin, stretch.end, 0, stretch.end - 1);
  }
  return rank == kNone ? kNone : order_[rank];
}

// The least rank of the blocks that begin in [begin_column, end_column) and end in [least_last, most_last].
int Skyline::first_in_order(int begin_column, int end_column, int least_last, int most_last) {
  const int begin = slots_end_[begin_column];
  const int end = slots_end_[end_column];
  int least_rank = kNone;
  for (int slot = begin; slot < end; ++slot) {
    const bool fits = least_last <= last_[slot] && last_[slot] <= most_last;
    least_rank = std::min(least_rank, fits ? rank_[slot] : kNone);
  }
  work_ += end - begin;
  return least_rank;
}

void Skyline::put(int block, const Stretch& stretch) {
  const auto& [size, first, last] = problem_.blocks[block];
  last_[slot_[block]] = kPlaced;
  if (stretch.begin < first) {
    set_stretch({stretch.begin, first, stretch.height});
  }
  if (last + 1 < stretch.end) {
    set_stretch({last + 1, stretch.end, stretch.height});
  }
  set_and_merge({first, last + 1, stretch.height + size});
}

void Skyline::raise(const Stretch& stretch) {
  std::int64_t height = std::numeric_limits<std::int64_t>::max();
  if (stretch.begin > 0) {
    height = std::min(height, height_[begin_[stretch.begin - 1]]);
  }
  if (stretch.end < problem_.num_columns) {
    height = std::min(height, height_[stretch.end]);
  }
  reach_.add(stretch.begin, stretch.end - 1, height - stretch.height);
  set_and_merge({stretch.begin, stretch.end, height});
}

void Skyline::set_stretch(const Stretch& stretch) {
  height_[stretch.begin] = stretch.height;
  end_[stretch.begin] = stretch.end;
  begin_[stretch.end - 1] = stretch.begin;
  heap_.push_back({stretch.height, stretch.begin});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

// Neighbours of the same height become one stretch, so that longer blocks fit.
void Skyline::set_and_merge(Stretch stretch) {
  if (stretch.end < problem_.num_columns && height_[stretch.end] == stretch.height) {
    const int next = stretch.end;
    stretch.end = end_[next];
    height_[next] = kNoStretch;
  }
  if (stretch.begin > 0 && height_[begin_[stretch.begin - 1]] == stretch.height) {
    height_[stretch.begin] = kNoStretch;
    stretch.begin = begin_[stretch.begin - 1];
  }
  set_stretch(stretch);
}

}  // namespace sectionflow
