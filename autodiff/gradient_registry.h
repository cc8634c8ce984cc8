#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {

/// What a gradient rule sees: one node, the gradients of its outputs, and which input gradients are wanted.
struct GradientRequest {
  Node& node;
  std::vector<Value> output_gradients;  ///< one an output; invalid where the loss does not depend on it
  std::vector<bool> wanted;             ///< one an input

  Value input(int index) const { return node.inputs()[static_cast<std::size_t>(index)]; }
  Value dy() const { return output_gradients[0]; }
};

/// Adds nodes that compute the gradients of the inputs; returns one value an input, invalid for none.
/// Graph in, graph out: knows no devices and no memory.
using GradientRule = std::vector<Value> (*)(const GradientRequest&);

class GradientRegistry {
 public:
  void add(const std::string& op, GradientRule rule) { rules_[op] = rule; }
  /// nullptr when the op has no gradient: nothing flows through it.
  GradientRule find(const std::string& op) const {
    const auto found = rules_.find(op);
    return found == rules_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, GradientRule> rules_;
};

const GradientRegistry& gradient_registry();

// One function a family, in autodiff/gradients/<family>.cpp.
#define SF_OP_FAMILY(family) void add_##family##_gradients(GradientRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

}  // namespace sectionflow
