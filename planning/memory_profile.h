#pragma once

#include <cstdint>
#include <vector>

#include "planning/peak_tree.h"

namespace sectionflow::planning {

/// Memory along slots, in some unit, as stretches of them are added to. What has been added since `commit` can be
/// undone.
class MemoryProfile {
 public:
  /// None in any slot. `most`: what no slot has more of. Few units are counted in half as wide numbers.
  MemoryProfile(int num_slots, std::int64_t most);

  /// Adds to first .. last, both included; nothing where `last` is lower.
  void add(int first, int last, std::int64_t units) {
    if (first <= last && units != 0) pending_.push_back({first, last, units});
  }
  /// A number that `peak` is no less than: the most where more has been added than taken away. Leaves the tree as it
  /// is.
  std::int64_t least_peak();
  /// The most in any slot.
  std::int64_t peak();
  /// Of what was there at the last call of the other one, or of `undo`.
  std::int64_t peak() const { return is_narrow_ ? narrow_.peak() : wide_.peak(); }

  /// The first slot with so much. REQUIRES: nothing has been added since `peak()`.
  int peak_slot() const { return is_narrow_ ? narrow_.peak_at() : wide_.peak_at(); }

  void commit() { applied_.clear(); }
  void undo();

 private:
  struct Stretch {
    int first, last;
    std::int64_t units;
  };
  struct Step {
    int slot;
    std::int64_t units;
  };
  void apply(const Stretch& change, std::int64_t sign);
  void join_pending();
  void sort_steps();
  template <int kMost>
  void sort_few_steps();

  int num_slots_;
  bool is_narrow_;
  PeakTree<std::int32_t> narrow_;
  PeakTree<std::int64_t> wide_;
  // What is to be added to the tree, as it was given and where it differs; what has been since `commit`.
  std::vector<Stretch> pending_, joined_, applied_;
  std::vector<Step> steps_;  // where the sum of what is pending changes, and by how much
};

}  // namespace sectionflow::planning
