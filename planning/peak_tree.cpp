#include "planning/peak_tree.h"

#include "planning/flat_problem.h"

namespace sectionflow::planning {

void PeakTree::add(int first, int last, std::int64_t bytes) {
  std::size_t left = pos(first + size_), right = pos(last + size_);
  nodes_[left].top += bytes;
  nodes_[left].added += bytes;
  if (left != right) {
    nodes_[right].top += bytes;
    nodes_[right].added += bytes;
  }
  // Between two paths to the root: what hangs inside of them is covered whole.
  while (left / 2 != right / 2) {
    if (left % 2 == 0) {
      nodes_[left + 1].top += bytes;
      nodes_[left + 1].added += bytes;
    }
    if (right % 2 == 1) {
      nodes_[right - 1].top += bytes;
      nodes_[right - 1].added += bytes;
    }
    left /= 2;
    right /= 2;
    rebuild(left);
    rebuild(right);
  }
  for (left /= 2; left >= 1; left /= 2) {
    const std::int64_t before = nodes_[left].top;
    rebuild(left);
    if (nodes_[left].top == before) break;
  }
}

}  // namespace sectionflow::planning
