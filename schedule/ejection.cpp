#include "schedule/ejection.h"

#include <algorithm>
#include <limits>

namespace sectionflow {
namespace {

constexpr int kFixed = -1;

// Of a block of the mean area, and of a place that was not found. Measured on 21 schedules of training steps that
// fill their memory: half and twice as much for the area does about as well, eight times as much worse.
constexpr double kAreaWeight = 2048;
constexpr std::int64_t kFailureWeight = 1024;
// What a block around the one in hand costs when ends are sorted and places listed. Measured, roughly.
constexpr std::int64_t kPlaceWork = 24;

double area(const Block& block) {
  return static_cast<double>(block.size) * static_cast<double>(block.last - block.first + 1);
}

std::vector<std::int64_t> area_weights(const std::vector<Block>& blocks) {
  double sum = 0;
  for (const Block& block : blocks) sum += area(block);
  std::vector<std::int64_t> weights;
  for (const Block& block : blocks) {
    weights.push_back(1 +
                      static_cast<std::int64_t>(kAreaWeight * area(block) * static_cast<double>(blocks.size()) / sum));
  }
  return weights;
}

}  // namespace

Ejection::Ejection(const PlacementProblem& problem) : problem_(problem), area_weight_(area_weights(problem.blocks)) {}

std::optional<BlockOffsets> Ejection::lower(const BlockOffsets& from, std::int64_t limit, std::int64_t most_moves,
                                            std::int64_t most_work) {
  start(from, limit);
  for (std::int64_t moves = 0; !pool_.empty(); ++moves) {
    if (moves == most_moves || work_ > most_work) return std::nullopt;
    const int block = take_largest();
    collect_around(block);
    std::optional<std::int64_t> offset = lowest_free(block, limit);
    if (!offset) {
      ++failures_[block];
      offset = cheapest(block, limit);
      if (!offset) return std::nullopt;
      eject(block, *offset);
    }
    insert(block, *offset);
  }
  return settled(most_work);
}

void Ejection::start(const BlockOffsets& from, std::int64_t limit) {
  const auto& blocks = problem_.blocks;
  failures_.assign(blocks.size(), 0);
  pool_.clear();
  placed_.clear();
  for (const auto& [block, offset] : problem_.fixed) {
    placed_.push_back({offset, offset + block.size, block.first, block.last, kFixed});
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t offset = from.offsets[i], end = offset + blocks[i].size;
    if (end > limit) {
      pool_.push_back(static_cast<int>(i));
    } else {
      placed_.push_back({offset, end, blocks[i].first, blocks[i].last, static_cast<int>(i)});
    }
  }
  std::stable_sort(placed_.begin(), placed_.end(),
                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  work_ += 16 * static_cast<std::int64_t>(placed_.size());
}

int Ejection::take_largest() {
  const auto largest =
      std::max_element(pool_.begin(), pool_.end(), [&](int a, int b) { return area_weight_[a] < area_weight_[b]; });
  work_ += static_cast<std::int64_t>(pool_.size());
  const int block = *largest;
  *largest = pool_.back();
  pool_.pop_back();
  return block;
}

void Ejection::collect_around(int block) {
  const auto& [size, first, last] = problem_.blocks[block];
  around_.resize(placed_.size());
  std::size_t count = 0;
  for (const Placed& other : placed_) {
    // Without a branch: which of them live at the same time, nobody can foretell.
    around_[count] = other;
    count += static_cast<std::size_t>((other.first <= last) & (first <= other.last));
  }
  around_.resize(count);
  work_ += static_cast<std::int64_t>(placed_.size());
}

std::optional<std::int64_t> Ejection::lowest_free(int block, std::int64_t limit) const {
  const std::int64_t size = problem_.blocks[block].size;
  std::int64_t offset = 0;
  for (const Placed& other : around_) {
    if (other.offset - offset >= size) return offset;
    offset = std::max(offset, other.end);
  }
  if (limit - offset >= size) return offset;
  return std::nullopt;
}

Ejection::Loss Ejection::loss_of(const Placed& placed) const {
  if (placed.block == kFixed) return {.fixed = 1, .weight = 0};
  return {.fixed = 0, .weight = area_weight_[placed.block] + kFailureWeight * failures_[placed.block]};
}

// Of the places that weigh least one by chance. Nothing where fixed blocks leave no place.
std::optional<std::int64_t> Ejection::cheapest(int block, std::int64_t limit) {
  const std::int64_t size = problem_.blocks[block].size;
  ends_.clear();
  for (const Placed& other : around_) ends_.push_back({other.end, loss_of(other)});
  std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) { return a.end < b.end; });
  list_places(size, limit);
  work_ += kPlaceWork * static_cast<std::int64_t>(around_.size());

  // What begins below the end of a place, less what ends below its begin, is what lies in it.
  std::size_t begun = 0, ended = 0;
  Loss lying;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  cheapest_.clear();
  for (const std::int64_t place : places_) {
    for (; begun < around_.size() && around_[begun].offset < place + size; ++begun) lying += loss_of(around_[begun]);
    for (; ended < ends_.size() && ends_[ended].end <= place; ++ended) lying -= ends_[ended].loss;
    if (lying.fixed > 0 || lying.weight > least) continue;
    if (lying.weight < least) cheapest_.clear();
    least = lying.weight;
    cheapest_.push_back(place);
  }
  if (cheapest_.empty()) return std::nullopt;
  return cheapest_[random_.below(static_cast<int>(cheapest_.size()))];
}

// On the floor, below the limit, above or below one of the blocks around: in ascending order, as are those around by
// their offset, and the ends.
void Ejection::list_places(std::int64_t size, std::int64_t limit) {
  places_.clear();
  if (size > limit) return;
  const auto add = [&](std::int64_t place) {
    if (places_.back() != place) places_.push_back(place);
  };
  places_.push_back(0);
  std::size_t above = 0;
  for (const Placed& other : around_) {
    if (other.offset < size) continue;
    if (other.offset > limit) break;
    const std::int64_t below = other.offset - size;
    for (; above < ends_.size() && ends_[above].end < below; ++above) add(ends_[above].end);
    add(below);
  }
  for (; above < ends_.size() && ends_[above].end < limit - size; ++above) add(ends_[above].end);
  add(limit - size);
}

void Ejection::eject(int block, std::int64_t offset) {
  const Block& taking = problem_.blocks[block];
  std::erase_if(placed_, [&](const Placed& other) {
    const bool lives = other.first <= taking.last && taking.first <= other.last;
    const bool is_hit = lives && other.offset < offset + taking.size && offset < other.end;
    if (is_hit) pool_.push_back(other.block);
    return is_hit;
  });
  work_ += static_cast<std::int64_t>(placed_.size());
}

void Ejection::insert(int block, std::int64_t offset) {
  const auto& [size, first, last] = problem_.blocks[block];
  const auto above = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                      [](std::int64_t o, const Placed& other) { return o < other.offset; });
  work_ += 8 + (placed_.end() - above) / 4;
  placed_.insert(above, {offset, offset + size, first, last, block});
}

// Each block falls as far as those below it let it; once the work is done, it stays where it is.
BlockOffsets Ejection::settled(std::int64_t most_work) {
  std::vector<Placed> by_offset = placed_;
  std::erase_if(placed_, [](const Placed& placed) { return placed.block != kFixed; });
  BlockOffsets placement{.offsets = std::vector<std::int64_t>(problem_.blocks.size()), .peak = 0};
  for (const Placed& placed : by_offset) {
    if (placed.block != kFixed) {
      std::int64_t offset = placed.offset;
      if (work_ <= most_work) {
        collect_around(placed.block);
        offset = *lowest_free(placed.block, placed.end);
      }
      insert(placed.block, offset);
      placement.offsets[placed.block] = offset;
      placement.peak = std::max(placement.peak, offset + problem_.blocks[placed.block].size);
    } else {
      placement.peak = std::max(placement.peak, placed.end);
    }
  }
  return placement;
}

}  // namespace sectionflow
