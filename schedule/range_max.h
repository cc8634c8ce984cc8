#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sectionflow {

/// A row of numbers, none below zero, that only grow, and that knows where its largest is. Numbers lie in blocks, each
/// with its largest: a call looks at the numbers of two blocks at most, and at every block between. For the rows of
/// programs, some hundreds or thousands long, that is several times as fast as a tree.
class RangeMax {
 public:
  explicit RangeMax(std::span<const std::int64_t> values);

  /// Adds to each of the numbers from `first` to `last`, both inclusive. `amount`: at least 0.
  void add(int first, int last, std::int64_t amount);
  std::int64_t max() const { return max_; }
  /// The leftmost of the largest numbers from `first` to `last`, both inclusive.
  int position_of_max(int first, int last) const;

 private:
  static constexpr int kBlock = 32;  // numbers

  void add_within(int block, int first, int last, std::int64_t amount);
  std::int64_t max_within(int first, int last) const;

  std::vector<std::int64_t> values_;  // [blocks * kBlock], without what is added to whole blocks
  std::vector<std::int64_t> added_;   // [blocks], to all numbers of the block
  std::vector<std::int64_t> maxima_;  // [blocks], with what is added
  std::int64_t max_ = 0;
};

}  // namespace sectionflow
