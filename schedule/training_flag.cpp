#include "schedule/training_flag.h"

#include <algorithm>
#include <utility>

#include "schedule/concrete_graph.h"

namespace sectionflow {
namespace {

/// Under a signature by which the flag is true: what it switches off may not train.
bool applies_updates(const ConcreteGraph& graph, const RunRequest& request) {
  std::vector<Operation> training = graph.graph().operations(kTrainingOperations);
  const std::vector<Operation> accumulating = graph.graph().operations(kAccumulationOperations);
  training.insert(training.end(), accumulating.begin(), accumulating.end());
  if (request.gives_initial_values || training.empty()) return false;
  const std::vector<bool> reached = graph.reached(request.fetches, request.targets);
  return std::any_of(training.begin(), training.end(), [&](const Operation& operation) {
    const Node& node = operation.node();
    return reached[node.id()] && node.op().has_kernel && graph.has_effect(node.id());
  });
}

}  // namespace

Signature with_training_flag(const Graph& graph, Signature signature, const RunRequest& request) {
  const Node* flag = graph.training_flag();
  if (flag == nullptr || signature.shapes.contains(flag->id())) return signature;
  signature.decided.insert(flag->id());
  signature.shapes[flag->id()] = {};
  signature.booleans[flag->id()] = true;
  signature.booleans[flag->id()] = applies_updates(ConcreteGraph(graph, signature), request);
  return signature;
}

}  // namespace sectionflow
