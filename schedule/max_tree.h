#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sectionflow {

/// A row of numbers, none below zero, that knows where its largest is. Each call costs the logarithm of its length.
class MaxTree {
 public:
  explicit MaxTree(std::span<const std::int64_t> values);

  /// Adds to each of the numbers from `first` to `last`, both inclusive.
  void add(int first, int last, std::int64_t amount) { add(1, 0, num_leaves_ - 1, first, last, amount); }
  std::int64_t max() const { return nodes_[1].max; }
  /// The leftmost of the largest numbers from `first` to `last`, both inclusive.
  int position_of_max(int first, int last) const { return find_max(1, 0, num_leaves_ - 1, first, last).position; }

 private:
  struct Node {
    std::int64_t max = 0;    // of the numbers below, this node's own `added` included
    std::int64_t added = 0;  // to all numbers below; the children do not know of it
    int position = 0;
  };

  void gather(int node);
  void add(int node, int node_first, int node_last, int first, int last, std::int64_t amount);
  Node find_max(int node, int node_first, int node_last, int first, int last) const;

  int num_leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace sectionflow
