#include "schedule/ranks.h"

#include <algorithm>
#include <any>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/nodes/shards.h"
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

/// What training_updates has made: it happens once an update, however many micro-batches that takes.
std::set<NodeId> once_an_update(const Graph& graph) {
  std::set<NodeId> nodes;
  for (const std::string_view collection : {kTrainingOperations, kAccumulationOperations}) {
    for (const Operation& operation : graph.operations(collection)) nodes.insert(operation.node().id());
  }
  return nodes;
}

void check_kind(const Node& update, const std::set<NodeId>& once, int ranks) {
  SF_CHECK_CODE(
      once.contains(update.id()) || is_moving_average_of_ranks(update, ranks), ArgumentError, ErrorCode::ranks,
      update.label(), " updates '", update.inputs()[0].name(), "' in a training step of ", ranks,
      " ranks, which execute it once, and one process ", ranks,
      " times, once a micro-batch: variables would differ from those of one process", Fact{"where", update.place()},
      hint("count updates by UpdateOptions::global_step (TrainingOptions::global_step); keep an average by an "
           "update_moving_average of kUpdateOperations that is there before the training operations are "
           "added; or execute the update by a run of its own"));
}

void check_update(const Node& update, const ConcreteGraph& graph, RankDifferences& differences) {
  for (const Value& value : graph.reads(update.id())) {
    SF_CHECK_CODE(
        is_variable(value) || !differences.differs(value.node()), ArgumentError, ErrorCode::ranks, update.label(),
        " takes '", value.name(),
        "', which each rank has for itself: variables would differ "
        "from rank to rank",
        Fact{"where", update.place()},
        hint("keep it by an update_moving_average of kUpdateOperations that is there before the training "
             "operations are added, and ask for kUpdateOperations behind them; have what follows it by a control edge "
             "follow the operation of kUpdateOperations that is there then; or leave the update out"));
  }
}

std::int64_t ranks_of_operation(const Node& node) {
  if (const ShardHolders* const holders = holders_of(node)) return holders->ranks;
  return node.options<RanksOptions>().ranks;
}

}  // namespace

bool communicates(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return step.lane == Lane::communicate; });
}

std::set<NodeId> held_elsewhere(Graph& graph, int rank) {
  std::set<NodeId> elsewhere;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (node.op().is_variable() && is_held_elsewhere(node.output(), rank)) elsewhere.insert(id);
  }
  return elsewhere;
}

std::size_t exchanged_bytes(const ConcreteGraph& graph, NodeId node) {
  const auto bytes_of = [](const std::vector<TensorType>& types) {
    std::size_t bytes = 0;
    for (const TensorType& type : types) bytes += type.bytes();
    return bytes;
  };
  if (refreshes_copy(graph.graph().node(node))) return graph.input_types(node)[0].bytes();
  const bool has_shards = exchange_of(graph.graph().node(node)) == Exchange::shards_of_sum;
  if (!has_shards) return bytes_of(graph.types(node));
  // Behind a shard comes what is summed.
  return graph.input_types(node)[1].bytes();
}

void check_communications(const Schedule& schedule, const Graph& graph) {
  const int ranks = ranks_of(graph);
  for (const Step& step : schedule.steps) {
    if (step.lane != Lane::communicate) continue;
    const Node& node = graph.node(step.node);
    const std::int64_t own = ranks_of_operation(node);
    SF_CHECK_CODE(
        own == ranks, ArgumentError, ErrorCode::ranks, node.label(), " is of ", own, own == 1 ? " rank" : " ranks",
        ", and the graph's updates are of ", ranks, Fact{"where", node.place()},
        hint("leave such operations, and the collection '", kRanks, "', to training_updates() and add_training_ops()"));
  }
}

void check_equal_updates(const Schedule& schedule, const ConcreteGraph& graph) {
  RankDifferences differences([&](const Node& node) { return graph.reads(node.id()); });
  const std::set<NodeId> averages = moving_averages(schedule, graph.graph()), once = once_an_update(graph.graph());
  const int ranks = ranks_of(graph.graph());
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const Node& node = graph.graph().node(step.node);
    if (node.op().is_update()) {
      check_update(node, graph, differences);
      check_kind(node, once, ranks);
    }
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
