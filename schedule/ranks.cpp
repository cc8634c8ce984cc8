#include "schedule/ranks.h"

#include <algorithm>
#include <any>
#include <set>
#include <vector>

#include "base/error.h"
#include "graph/nodes/update.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Moving averages that the steps update, by all ranks' statistics.
std::set<NodeId> moving_averages(const Schedule& schedule, const Graph& graph) {
  std::set<NodeId> averages;
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const Node& node = graph.node(step.node);
    const bool is_average = std::any_cast<MovingAverageOptions>(&node.any_options()) != nullptr;
    if (is_average) averages.insert(node.inputs()[0].node().id());
  }
  return averages;
}

void check_update(const Node& update, const ConcreteGraph& graph, RankDifferences& differences) {
  for (const Value& value : graph.reads(update.id())) {
    SF_CHECK_CODE(is_variable(value) || !differences.differs(value.node()), ArgumentError, ErrorCode::ranks,
                  update.label(), " takes '", value.name(),
                  "', which each rank has for itself: variables would differ "
                  "from rank to rank",
                  Fact{"where", update.place()},
                  hint("keep it by an update_moving_average of kUpdateOperations that is there before the training "
                       "operations are added, and ask for kUpdateOperations behind them; or leave the update out"));
  }
}

}  // namespace

int ranks_of(const Graph& graph) {
  const std::vector<Value> values = graph.values(kRanks);
  if (values.empty()) return 1;
  const auto number_of = [](const Value& value) -> std::int64_t {
    const HostTensor* const content = constant_content(value);
    return content != nullptr && value.type() == TensorType{Dtype::i64, {}} ? content->item<std::int64_t>() : 0;
  };
  const std::int64_t ranks = number_of(values.front());
  const bool is_one = std::all_of(values.begin(), values.end(), [&](const Value& v) { return number_of(v) == ranks; });
  SF_CHECK_CODE(ranks >= 1 && is_one, ArgumentError, ErrorCode::ranks, "the collection '", kRanks, "' has ",
                values.size(), " values, '", values.front().name(), "' ", values.front().type().text(),
                " the first; wanted constants i64[] of one number above 0",
                hint("leave the collection to training_updates() and add_training_ops()"));
  return static_cast<int>(ranks);
}

bool communicates(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return step.lane == Lane::communicate; });
}

void check_equal_updates(const Schedule& schedule, const ConcreteGraph& graph) {
  RankDifferences differences([&](const Node& node) { return graph.reads(node.id()); });
  const std::set<NodeId> averages = moving_averages(schedule, graph.graph());
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const Node& node = graph.graph().node(step.node);
    if (node.op().is_update()) check_update(node, graph, differences);
    for (const Value& value : graph.reads(step.node)) {
      const bool is_own_update = node.op().is_update() && node.inputs()[0] == value;
      SF_CHECK_CODE(is_own_update || !is_variable(value) || !averages.contains(value.node().id()), ArgumentError,
                    ErrorCode::ranks, node.label(), " reads the moving average '", value.name(),
                    "' in a training step: with one process the second micro-batch would read what the first has left, "
                    "which ranks that compute at the same time cannot",
                    Fact{"where", node.place()}, hint("read it in steps that do not train, or train with one rank"));
    }
  }
}

}  // namespace sectionflow
