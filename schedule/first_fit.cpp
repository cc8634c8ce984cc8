#include "schedule/first_fit.h"

#include <algorithm>

namespace sectionflow {

FirstFit::FirstFit(const PlacementProblem& problem) : problem_(problem) {}

std::optional<BlockOffsets> FirstFit::place(std::span<const int> order, std::int64_t peak_limit) {
  BlockOffsets placement;
  placement.offsets.resize(order.size());
  placed_.clear();
  for (const FixedBlock& fixed : problem_.fixed) {
    insert(fixed);
    placement.peak = std::max(placement.peak, fixed.offset + fixed.block.size);
  }
  for (const int index : order) {
    const Block& block = problem_.blocks[index];
    const std::int64_t offset = lowest_free_offset(block);
    insert({block, offset});
    placement.offsets[index] = offset;
    placement.peak = std::max(placement.peak, offset + block.size);
    if (placement.peak > peak_limit) {
      return std::nullopt;
    }
  }
  return placement;
}

std::int64_t FirstFit::lowest_free_offset(const Block& block) {
  std::int64_t offset = 0;
  for (const FixedBlock& other : placed_) {
    ++work_;
    if (!other.block.overlaps(block)) {
      continue;
    }
    if (other.offset - offset >= block.size) {
      break;
    }
    offset = std::max(offset, other.offset + other.block.size);
  }
  return offset;
}

void FirstFit::insert(const FixedBlock& placed) {
  const auto above = std::upper_bound(placed_.begin(), placed_.end(), placed,
                                      [](const FixedBlock& a, const FixedBlock& b) { return a.offset < b.offset; });
  work_ += 8 + (placed_.end() - above) / 8;
  placed_.insert(above, placed);
}

}  // namespace sectionflow
