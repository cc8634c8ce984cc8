#pragma once

#include <cstdint>
#include <vector>

namespace sectionflow {

/// Something to place: `size` units high, from column `first` to column `last`, both inclusive.
struct Block {
  std::int64_t size = 0;
  int first = 0;
  int last = 0;

  bool overlaps(const Block& other) const { return first <= other.last && other.first <= last; }
};

/// A block whose place is decided: others go around it.
struct FixedBlock {
  Block block;
  std::int64_t offset = 0;
};

/// Memory planning with time reduced to columns (the steps at which something begins) and bytes to whole units. Blocks
/// have a size above zero; the sum of all sizes and the highest end of a fixed block together are below 2^62.
struct PlacementProblem {
  int num_columns = 0;
  std::vector<Block> blocks;
  std::vector<FixedBlock> fixed;
};

/// One offset a block, and the highest end of any block, fixed ones included.
struct BlockOffsets {
  std::vector<std::int64_t> offsets;
  std::int64_t peak = 0;
};

/// A placement with as low a peak as can be found with bounded effort; it ends as soon as `lower_bound` is reached,
/// or the highest end of a fixed block.
/// The effort is counted, not timed: the result depends on the arguments alone. Results that took long are kept for
/// the next one who asks (schedule/placement_memory.h). Any thread may call.
BlockOffsets search_placement(const PlacementProblem& problem, std::int64_t lower_bound);

}  // namespace sectionflow
