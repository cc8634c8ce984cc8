#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What a gradient rule sees: one node, the gradients of its outputs, and which input gradients are wanted.
struct GradientRequest {
  Node& node;
  std::vector<Value> output_gradients;  ///< one an output; invalid where the loss does not depend on it
  std::vector<bool> wanted;             ///< one an input

  Value input(int index) const { return node.inputs()[static_cast<std::size_t>(index)]; }
  Value dy() const { return output_gradients[0]; }
};

/// Adds nodes that compute the gradients of the inputs; returns one value an input, of its type, invalid for those that
/// are not wanted. Throws ArgumentError (SF-E031) for what it cannot differentiate.
/// Graph in, graph out: knows no devices and no memory.
using GradientRule = std::function<std::vector<Value>(const GradientRequest&)>;

/// Adds a node that computes `sum` plus the gradient of one input, at less cost than both apart; returns a value of the
/// type of `sum`, or an invalid one where there is no such node.
using SumRule = std::function<Value(const GradientRequest&, int input, Value sum)>;

/// What is known of an op's derivatives without asking its rule.
struct GradientTraits {
  /// Inputs of floats whose derivative is zero, or is counted in that of another input: they are never wanted.
  std::vector<int> zero_inputs{};
  /// Inputs for which the rule may give none although they are wanted: only some of the outputs depend on them.
  std::vector<int> perhaps_none{};
  /// Asked for f32 inputs to whose gradient others have contributed before; the rule is then not asked for these.
  SumRule added_to_sum{};
};

/// What the registry says of an op: its rule, or that its derivative is zero, or that it has none and why.
struct GradientEntry {
  GradientRule rule{};  ///< none: the derivative is zero
  GradientTraits traits{};
  bool is_refused = false;  ///< the rule refuses whatever it is asked
  bool is_outside = false;  ///< the rule is not the library's: it came by register_family

  bool is_zero() const { return rule == nullptr; }
};

/// What is known of the derivatives of ops, by name.
class GradientRegistry {
 public:
  /// Throws: ArgumentError (SF-E013) for a rule that is none.
  void add(const std::string& op, GradientRule rule, GradientTraits traits = {});
  /// The op's outputs do not change with its inputs, or only in steps: its derivative is zero by nature.
  void add_zero(const std::string& op) { entries_[op] = {}; }
  /// The op is never differentiated: "gradients through `op` 'name': `why`".
  void add_refused(const std::string& op, const std::string& why, const std::string& what_to_do);
  /// nullptr for an op of which nothing is said: where a gradient reaches it, it is refused.
  const GradientEntry* find(const std::string& op) const {
    const auto found = entries_.find(op);
    return found == entries_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, GradientEntry>& all() const { return entries_; }
  /// Moves all entries of `family`, which are from outside, here, where there are none of these names.
  void take(GradientRegistry& family) noexcept {
    for (auto& named : family.entries_) named.second.is_outside = true;
    entries_.merge(family.entries_);
  }

 private:
  std::map<std::string, GradientEntry> entries_;
};

/// The rules of every family of the library, and of those that were registered (extend/register_family.h).
const GradientRegistry& gradient_registry();

/// gradients() (autodiff/gradients.h) by other rules than those of gradient_registry().
std::vector<Value> gradients_by(const GradientRegistry& registry, Value loss, const std::vector<Value>& variables);

}  // namespace sectionflow
