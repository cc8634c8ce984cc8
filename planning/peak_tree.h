#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sectionflow::planning {

/// Numbers along a line, to which stretches add and of which the largest is asked: each in O(log n).
class PeakTree {
 public:
  /// All zero. `size` is a power of two.
  explicit PeakTree(int size) : size_(size), nodes_(2 * static_cast<std::size_t>(size)) {}
  /// Adds to first .. last, both included.
  void add(int first, int last, std::int64_t bytes);
  std::int64_t peak() const { return nodes_[1].top; }
  /// The first place that has it.
  int peak_at() const {
    auto node = std::size_t{1};
    while (node < nodes_.size() / 2) node = 2 * node + (nodes_[2 * node + 1].top > nodes_[2 * node].top ? 1 : 0);
    return static_cast<int>(node - nodes_.size() / 2);
  }

 private:
  struct Node {
    std::int64_t top = 0, added = 0;
  };
  void rebuild(std::size_t node) {
    nodes_[node].top = std::max(nodes_[2 * node].top, nodes_[2 * node + 1].top) + nodes_[node].added;
  }
  int size_;
  std::vector<Node> nodes_;
};

}  // namespace sectionflow::planning
