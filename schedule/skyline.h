#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/placement.h"
#include "schedule/range_max.h"

namespace sectionflow {

/// Fills the plane from below. The skyline is the height up to which each column is filled; its lowest stretch is
/// filled next, with a block that fits between the ends of the stretch, and raised to its lower neighbour when no block
/// fits, which wastes the bytes between.
///
/// The reach of a column is its height plus what is still to be placed there: the height at which it will end if no
/// more is wasted. Placing a block leaves it as it is, raising adds the waste. So the peak is the largest reach at the
/// end, columns below the largest reach may waste for free, and a block over the column of the largest reach in the
/// stretch is preferred to all others.
///
/// Source: the lowest-first rule is from Burke, Kendall and Whitwell 2004, "A new placement heuristic for the
/// orthogonal stock-cutting problem", used for memory of neural networks by Sekiyama et al. 2018, arXiv 1804.10001.
class Skyline {
 public:
  /// Keeps a reference: the problem must outlive the skyline. The room below a fixed block counts as filled.
  explicit Skyline(const PlacementProblem& problem);

  /// Places the blocks; where several would do, the one that comes first in `order`. Nothing if the peak would be above
  /// `peak_limit`, given up as soon as that is certain.
  std::optional<BlockOffsets> place(std::span<const int> order, std::int64_t peak_limit);

  /// How much has been done so far, in looks at a block: the same on every machine.
  std::int64_t work() const { return work_; }

 private:
  struct Stretch {
    int begin, end;  // columns, `end` exclusive
    std::int64_t height;
  };
  struct HeapEntry {
    std::int64_t height;
    int begin;
    // Without a branch: which of two is higher, nobody can foretell.
    friend bool operator>(const HeapEntry& a, const HeapEntry& b) {
      return (a.height > b.height) | ((a.height == b.height) & (a.begin > b.begin));
    }
  };

  void reset(std::span<const int> order);
  Stretch pop_lowest();
  int choose_block(const Stretch& stretch);
  int first_in_order(int begin_column, int end_column, int least_last, int most_last);
  void put(int block, const Stretch& stretch);
  void raise(const Stretch& stretch);
  void set_stretch(const Stretch& stretch);
  void set_and_merge(Stretch stretch);

  const PlacementProblem& problem_;
  std::vector<std::int64_t> floor_;  // [columns], the highest end of the fixed blocks
  RangeMax initial_reach_, reach_;

  // The stretches: a column that begins one has its height, all others kNoStretch.
  std::vector<std::int64_t> height_;  // [columns]
  std::vector<int> end_;              // [columns], valid where a stretch begins
  std::vector<int> begin_;            // [columns], valid where a stretch ends: at its last column
  std::vector<HeapEntry> heap_;       // lowest first; entries of former stretches remain

  // The blocks by first column, so that a stretch looks only at those that begin in it.
  std::vector<int> by_first_;   // [blocks]
  std::vector<int> slot_;       // [blocks], the inverse of by_first_
  std::vector<int> slots_end_;  // [columns + 1], slots of blocks that begin before the column
  std::vector<int> last_;       // [slots], kPlaced once placed
  std::vector<int> rank_;       // [slots], position in the order
  std::span<const int> order_;

  std::int64_t work_ = 0;
};

}  // namespace sectionflow
