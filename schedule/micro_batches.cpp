#include "schedule/micro_batches.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

constexpr std::size_t kValuesEach = 3;

MicroBatches checked(const Value& index, const Value& applies, const Value& last) {
  const TensorType counter{Dtype::i64, {}}, flag{Dtype::boolean, {}};
  const HostTensor* content = constant_content(last);
  const bool is_whole = is_variable(index) && index.type() == counter && applies.node().op().is_placeholder() &&
                        applies.type() == flag && content != nullptr && last.type() == counter &&
                        content->item<std::int64_t>() > 0;
  SF_CHECK_CODE(is_whole, ArgumentError, ErrorCode::micro_batches, "the collection '", kMicroBatches, "' has '",
                index.name(), "' ", index.type().text(), ", '", applies.name(), "' ", applies.type().text(), ", '",
                last.name(), "' ", last.type().text(),
                "; wanted a variable i64[], a placeholder bool[] and a constant i64[] above 0",
                hint("leave the collection to minimize() and add_training_ops()"));
  return {index, applies, content->item<std::int64_t>() + 1};
}

}  // namespace

std::vector<MicroBatches> micro_batches_of(const Graph& graph) {
  const std::vector<Value> values = graph.values(kMicroBatches);
  SF_CHECK_CODE(values.size() % kValuesEach == 0, ArgumentError, ErrorCode::micro_batches, "the collection '",
                kMicroBatches, "' has ", values.size(), " values; wanted three for each accumulation",
                hint("leave the collection to minimize() and add_training_ops()"));
  std::vector<MicroBatches> all;
  for (std::size_t i = 0; i < values.size(); i += kValuesEach) {
    all.push_back(checked(values[i], values[i + 1], values[i + 2]));
  }
  return all;
}

Signature with_micro_batches(Signature fed, const std::vector<MicroBatches>& accumulations,
                             const std::function<bool(const MicroBatches&)>& is_last) {
  for (const MicroBatches& each : accumulations) {
    const NodeId flag = each.applies.node().id();
    SF_CHECK_CODE(!fed.shapes.contains(flag), ArgumentError, ErrorCode::micro_batches, "'", each.applies.name(),
                  "' is fed; it says whether a micro-batch is the last of its update, which the session knows by '",
                  each.index.name(), "'", hint("leave it out of the feeds"));
    fed.decided.insert(flag);
    fed.shapes[flag] = {};
    fed.booleans[flag] = is_last(each);
  }
  return fed;
}

std::optional<NodeId> micro_batch_counter(const Schedule& schedule, const Graph& graph) {
  const std::vector<MicroBatches> accumulations = micro_batches_of(graph);
  if (accumulations.empty()) return std::nullopt;
  std::set<NodeId> accumulating;
  for (Operation operation : graph.operations(kAccumulationOperations)) accumulating.insert(operation.node().id());
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::compute || !accumulating.contains(step.node)) continue;
    const Node& node = graph.node(step.node);
    for (const MicroBatches& each : accumulations) {
      if (!node.inputs().empty() && node.inputs()[0] == each.index) return each.index.node().id();
    }
  }
  return std::nullopt;
}

}  // namespace sectionflow
