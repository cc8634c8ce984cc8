#pragma once

#include <cstddef>
#include <vector>

#include "base/export.h"
#include "schedule/planning_tools.h"

namespace SF_API sectionflow {

/// A variable, and the bytes that its place takes.
struct SizedVariable {
  NodeId id = 0;
  std::size_t bytes = 0;
};

/// The tiers that may be the home of variables.
enum class HomeTiers { device, host, host_and_disk };

/// Where a session's variables may lie between runs, and where they do: layouts by number. The first has nothing on
/// disk. Where the disk may be a home each other has a quarter more of the variables' bytes there, the last one all but
/// those below a page, which a disk carries no quicker than a page. The variables made last go first: optimiser slots
/// are made behind what they belong to, and a cycle uses them once, and parameters twice or more. A variable has one
/// place in host memory and one on disk in all layouts, so that going from one to another moves nothing else.
///
/// The layouts depend on the variables alone, and on no budget: whatever less memory may choose, more may choose too.
class VariableHomes {
 public:
  /// No variables.
  VariableHomes() : layouts_(1) {}
  /// `variables`: in the order in which they were made. `num_nodes`: of their graph.
  VariableHomes(const std::vector<SizedVariable>& variables, std::size_t num_nodes, HomeTiers tiers);

  int count() const { return static_cast<int>(layouts_.size()); }
  const VariableLayout& at(int number) const { return layouts_[static_cast<std::size_t>(number)]; }
  /// Where they lie.
  int number() const { return number_; }
  const VariableLayout& now() const { return at(number_); }
  /// They lie there from here on, for a program that does more than give them their first values if `is_settled`.
  void set(int number, bool is_settled) {
    number_ = number;
    is_settled_ = is_settled;
  }
  /// Whether some such program has been executed.
  bool is_settled() const { return is_settled_; }

  /// What was known of nodes from number `num_known` on is forgotten; there are `num_nodes`.
  void meet_graph(std::size_t num_known, std::size_t num_nodes);

 private:
  void add_disk_layouts(const std::vector<SizedVariable>& order, std::size_t num_staying);

  std::vector<VariableLayout> layouts_;
  int number_ = 0;
  bool is_settled_ = false;
};

}  // namespace sectionflow
