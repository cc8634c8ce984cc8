#include "schedule/max_tree.h"

#include <algorithm>
#include <bit>

namespace sectionflow {

MaxTree::MaxTree(std::span<const std::int64_t> values)
    : num_leaves_(static_cast<int>(std::bit_ceil(std::max<std::size_t>(values.size(), 1)))), nodes_(2 * num_leaves_) {
  for (int leaf = 0; leaf < num_leaves_; ++leaf) {
    // Leaves beyond the row never win: no number of the row is below zero.
    const bool inside = static_cast<std::size_t>(leaf) < values.size();
    nodes_[num_leaves_ + leaf] = {.max = inside ? values[leaf] : -1, .added = 0, .position = leaf};
  }
  for (int node = num_leaves_ - 1; node >= 1; --node) {
    gather(node);
  }
}

void MaxTree::gather(int node) {
  const Node& left = nodes_[2 * node];
  const Node& right = nodes_[2 * node + 1];
  const Node& larger = left.max >= right.max ? left : right;
  nodes_[node].max = larger.max + nodes_[node].added;
  nodes_[node].position = larger.position;
}

void MaxTree::add(int node, int node_first, int node_last, int first, int last, std::int64_t amount) {
  if (last < node_first || node_last < first) {
    return;
  }
  if (first <= node_first && node_last <= last) {
    nodes_[node].max += amount;
    nodes_[node].added += amount;
    return;
  }
  const int middle = node_first + (node_last - node_first) / 2;
  add(2 * node, node_first, middle, first, last, amount);
  add(2 * node + 1, middle + 1, node_last, first, last, amount);
  gather(node);
}

MaxTree::Node MaxTree::find_max(int node, int node_first, int node_last, int first, int last) const {
  if (first <= node_first && node_last <= last) {
    return nodes_[node];
  }
  const int middle = node_first + (node_last - node_first) / 2;
  Node found;
  if (last <= middle) {
    found = find_max(2 * node, node_first, middle, first, last);
  } else if (first > middle) {
    found = find_max(2 * node + 1, middle + 1, node_last, first, last);
  } else {
    const Node left = find_max(2 * node, node_first, middle, first, last);
    const Node right = find_max(2 * node + 1, middle + 1, node_last, first, last);
    found = left.max >= right.max ? left : right;
  }
  found.max += nodes_[node].added;
  return found;
}

}  // namespace sectionflow
