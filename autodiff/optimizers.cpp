#include "autodiff/optimizers.h"

#include "autodiff/optimizer_updates.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"

namespace sectionflow {

std::vector<GradientAndVariable> compute_gradients(Value loss, std::vector<Value> variables, Where where) {
  return call_at(where, [&] {
    if (variables.empty()) variables = loss.graph().values(kTrainableVariables);
    SF_CHECK(!variables.empty(), ArgumentError, "compute_gradients of '", loss.name(),
             "': the graph has no trainable variable; make one with variable() or a layer");
    const std::vector<Value> gradient_values = gradients(loss, variables);
    std::vector<GradientAndVariable> pairs;
    for (std::size_t i = 0; i < variables.size(); ++i) pairs.push_back({gradient_values[i], variables[i]});
    return pairs;
  });
}

std::vector<Operation> apply_gradients(const Optimizer& optimizer, const std::vector<GradientAndVariable>& gradients,
                                       Where where) {
  return call_at(where, [&] {
    check_pairs(gradients, "apply_gradients");
    check_optimizer(optimizer, gradients.front().variable.graph(), "apply_gradients");
    Graph& graph = gradients.front().variable.graph();
    return graph.build_at(where, [&] {
      const auto outside = graph.enter_group(kNoGroup);
      const auto operations = optimizer_updates(optimizer, gradients, {});
      for (Operation operation : operations) graph.add_to_collection(kTrainingOperations, operation);
      return operations;
    });
  });
}

std::vector<Operation> minimize(const Optimizer& optimizer, Value loss, std::vector<Value> variables, Where where) {
  return loss.graph().all_or_nothing(
      [&] { return apply_gradients(optimizer, compute_gradients(loss, std::move(variables), where), where); });
}

ClippedGradients clip_by_global_norm(const std::vector<GradientAndVariable>& gradients, float max_norm, Where where) {
  check_pairs(gradients, "clip_by_global_norm");
  Graph& graph = gradients.front().variable.graph();
  const auto phase = graph.enter_phase(Phase::training);
  return graph.build_at(where, [&] {
    const auto outside = graph.enter_group(kNoGroup);
    std::vector<Value> all;
    for (const GradientAndVariable& pair : gradients) all.push_back(pair.gradient);
    check_max_norm(max_norm, "clip_by_global_norm");
    const Value norm = global_norm(all);
    return ClippedGradients{clipped_to(gradients, norm, max_norm), norm};
  });
}

std::vector<GradientAndVariable> clipped_to(const std::vector<GradientAndVariable>& pairs, Value norm, float max_norm) {
  const Value scale = clip_scale(norm, max_norm);
  std::vector<GradientAndVariable> clipped;
  for (const auto& [gradient, variable] : pairs) {
    const auto group = norm.graph().enter_group(variable.node().group());
    clipped.push_back({gradient * scale, variable});
  }
  return clipped;
}

}  // namespace sectionflow
