#pragma once

#include <string>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Options of the op "choice": what tells it from others.
struct ChoiceOptions {};
/// Whether a node is one whose sides are branches.
bool is_choice(const Node& node);

/// Options of the op "assert_that", whose inputs are x, the condition, and what is shown. Its kernels pass x on; the
/// condition is looked at by who executes it (runtime/value_checks.h).
struct AssertionNodeOptions {
  std::string text;
  int first = 8;
};
/// Those of a node that asserts; nullptr for others.
const AssertionNodeOptions* assertion_of(const Node& node);

/// taken where flag is true, other where it is false, itself: what cond gives, and the gradient of what both of its
/// branches read. The value that is not taken is not computed.
Value merge_branches(Value taken, Value other, Value flag, std::string_view name = "merge_branches");
/// contribution itself where flag is `when`, what of a branch comes to a gradient of `like`, which is outside;
/// elsewhere it is not computed, and zeros stand for it.
Value leave_branch(Value contribution, Value like, Value flag, bool when);
/// The value as one of the branch: itself, where it is, or else another name of it that is made there. What goes
/// through merge_branches and leave_branch is so of a branch, and its gradient.
Value value_in(Value value, Branch branch);

}  // namespace sectionflow
