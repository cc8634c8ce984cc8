// Branches: which nodes are executed under one value of a flag alone, and who may read them.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/nodes/control.h"
#include "graph/op_def.h"

namespace sectionflow {
namespace {

/// Whether a node leaves its input `index` alone wherever the branch is not taken, by the flag of that branch, whatever
/// other flags are.
bool is_left_where_not_taken(const OpDef& op, const std::vector<Value>& inputs, std::size_t index, Branch branch) {
  std::vector<std::optional<bool>> booleans(inputs.size());
  const std::vector<InputUse> declared = op.input_uses(inputs.size(), booleans);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (declared[i] != InputUse::host_boolean) continue;
    booleans[i] = !branch.when;
    if (inputs[i] != branch.flag()) others.push_back(i);
  }
  constexpr std::size_t kMostFlags = 8;
  if (others.size() > kMostFlags) return false;
  for (unsigned choice = 0; choice < 1U << others.size(); ++choice) {
    for (std::size_t bit = 0; bit < others.size(); ++bit) booleans[others[bit]] = (choice >> bit & 1U) != 0;
    if (op.input_uses(inputs.size(), booleans)[index] != InputUse::unused) return false;
  }
  return true;
}

}  // namespace

Branch Branch::around() const {
  return choice->branch();
}

Value Branch::flag() const {
  return choice->inputs().front();
}

bool Branch::is_within(Branch outer) const {
  Branch inner = *this;
  while (inner.exists() && inner != outer) inner = inner.around();
  return inner == outer;
}

bool is_choice(const Node& node) {
  return std::any_cast<ChoiceOptions>(&node.any_options()) != nullptr;
}

/// Of a branch, a node outside reads only what it does not ask for where the branch is not taken.
void Graph::check_branches(const Node& node, const std::vector<Value>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Branch branch = inputs[i].node().branch();
    if (node.branch_.is_within(branch)) continue;
    const bool is_left =
        node.branch_.is_within(branch.around()) && is_left_where_not_taken(*node.op_, inputs, i, branch);
    const bool is_sibling = node.branch_.is_within({branch.choice, !branch.when});
    SF_CHECK_CODE(is_left, ArgumentError, ErrorCode::branch_value, node.label(), " reads '", inputs[i].name(),
                  "', which is computed only where '", branch.flag().name(), "' is ", branch.when ? "true" : "false",
                  is_sibling ? ", in the other branch of that cond" : "", Fact{"made", inputs[i].node().place()},
                  hint(is_sibling ? "compute it before the cond, where both branches need it"
                                  : "return it from its branch, and read what cond gives"));
  }
}

GraphScope Graph::enter_branch(Branch branch) {
  SF_CHECK(!branch.exists() || (&branch.choice->graph() == this && is_choice(*branch.choice)), ArgumentError,
           "enter_branch: '", branch.exists() ? branch.choice->name() : "", "' is no choice of this graph");
  GraphScope scope([this, previous = current_branch_] { current_branch_ = previous; });
  current_branch_ = branch;
  return scope;
}

void Graph::take_out_of_branches(Value value) {
  if (!value.node().branch_.exists()) return;
  // Known to be taken back before anything is changed.
  const auto taken = std::make_shared<std::vector<std::pair<Node*, Branch>>>();
  on_roll_back([taken] {
    for (const auto& [node, branch] : *taken) node->branch_ = branch;
  });
  std::vector<Node*> pending = {&value.node()};
  while (!pending.empty()) {
    Node& node = *pending.back();
    pending.pop_back();
    if (!node.branch_.exists()) continue;
    taken->emplace_back(&node, node.branch_);
    node.branch_ = {};
    for (const Value& input : node.inputs_) pending.push_back(&input.node());
  }
}

}  // namespace sectionflow
