#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sectionflow::planning {

/// Numbers along a line, to which stretches add and of which the largest is asked: each in O(log n). Sixteen numbers,
/// or nodes, hang from one node, and are looked at together.
template <class Number>
class PeakTree {
 public:
  /// All zero.
  explicit PeakTree(int size);
  /// Adds to first .. last, both included.
  void add(int first, int last, Number number);
  Number most(int first, int last) const;
  Number peak() const { return peak_; }
  /// The first place that has it.
  int peak_at() const;

 private:
  static constexpr unsigned kFan = 16;
  struct alignas(kFan * sizeof(Number)) Children {
    Number at[kFan];
  };
  struct Level {
    std::size_t tops = 0, added = 0;  // where its nodes begin in these lists
  };
  std::vector<Level> levels_;  // from the numbers themselves up to one node
  // Of what hangs from each node: the largest of it, all that has been added there or below; and what has been added
  // to all of it. Of the lowest level there are only the numbers.
  std::vector<Children> tops_, added_;
  Number peak_ = 0;
};

extern template class PeakTree<std::int32_t>;
extern template class PeakTree<std::int64_t>;

}  // namespace sectionflow::planning
