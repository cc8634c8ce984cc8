#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/placement.h"

namespace sectionflow {

/// Places the blocks one after the other, each at the lowest offset that is free for the whole of its life. Unlike the
/// skyline it uses the room below and between fixed blocks.
class FirstFit {
 public:
  /// Keeps a reference: the problem must outlive it.
  explicit FirstFit(const PlacementProblem& problem);

  /// Places the blocks in the given order. Nothing if the peak would be above `peak_limit`.
  std::optional<BlockOffsets> place(std::span<const int> order, std::int64_t peak_limit);

  /// How much has been done so far, in looks at a block: the same on every machine.
  std::int64_t work() const { return work_; }

 private:
  std::int64_t lowest_free_offset(const Block& block);
  void insert(const FixedBlock& placed);

  const PlacementProblem& problem_;
  std::vector<FixedBlock> placed_;  // by offset
  std::int64_t work_ = 0;
};

}  // namespace sectionflow
