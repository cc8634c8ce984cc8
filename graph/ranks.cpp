// Graphs whose updates are of several ranks.

#include <algorithm>
#include <any>
#include <utility>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/nodes/update.h"
#include "graph/ops/basic.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

const MovingAverageOptions* moving_average(const Node& node) {
  return std::any_cast<MovingAverageOptions>(&node.any_options());
}

/// 0 where it is no number of ranks.
std::int64_t number_of_ranks(const Value& value) {
  const HostTensor* const content = constant_content(value);
  if (content == nullptr || value.type() != TensorType{Dtype::i64, {}}) return 0;
  const std::int64_t ranks = content->item<std::int64_t>();
  return ranks <= kMostRanks ? ranks : 0;
}

/// What follows `before` by order edges follows `after`, too, which follows what `before` does.
void copy_edges(Operation before, Operation after) {
  Graph& graph = before.node().graph();
  for (Node* const first : before.node().control_inputs()) graph.add_control_edge(Operation(*first), after);
  for (Node* const first : before.node().order_inputs()) graph.add_order_edge(Operation(*first), after);
  if (graph.num_edits() == 0) return;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto& earlier = graph.node(id).order_inputs();
    if (std::find(earlier.begin(), earlier.end(), &before.node()) == earlier.end()) continue;
    graph.add_order_edge(after, Operation(graph.node(id)));
  }
}

}  // namespace

int ranks_of(const Graph& graph) {
  const std::vector<Value> values = graph.values(kRanks);
  if (values.empty()) return 1;
  const std::int64_t ranks = number_of_ranks(values.front());
  const bool is_one =
      std::all_of(values.begin(), values.end(), [&](const Value& value) { return number_of_ranks(value) == ranks; });
  SF_CHECK_CODE(ranks >= 1 && is_one, ArgumentError, ErrorCode::ranks, "the collection '", kRanks, "' has ",
                values.size(), " values, '", values.front().name(), "' ", values.front().type().text(),
                " the first; wanted constants i64[] of one number, 1 to ", kMostRanks,
                hint("leave the collection to training_updates() and add_training_ops()"));
  return static_cast<int>(ranks);
}

Exchange exchange_of(const Node& node) {
  if (std::any_cast<ShardHolders>(&node.any_options()) != nullptr && !node.output_types().empty())
    return Exchange::shards_of_sum;
  const auto* const options = std::any_cast<RanksOptions>(&node.any_options());
  if (options == nullptr) return Exchange::gather;
  // What is summed stands behind the accumulators.
  const std::size_t outputs = node.output_types().size(), inputs = node.inputs().size();
  const Shape &x = node.inputs()[inputs > outputs ? outputs : 0].shape(), &y = node.output_types()[0].shape;
  return x == y ? Exchange::sum : Exchange::gather;
}

Operation moving_average_of_ranks(Operation update, int ranks) {
  const Node& node = update.node();
  const MovingAverageOptions* const options = moving_average(node);
  if (options == nullptr || node.inputs()[1].node().op().communicates) return {};
  Graph& graph = node.graph();
  const Value variable = node.inputs()[0], x = node.inputs()[1], is_training = node.inputs()[2];
  const auto group = graph.enter_group(node.group());
  const auto branch = graph.enter_branch(node.branch());
  const Operation of_ranks =
      add_update("update_moving_average", {variable, all_gathered(x, ranks), is_training}, 1, *options, {});
  copy_edges(update, of_ranks);
  return of_ranks;
}

bool is_moving_average_of_ranks(const Node& node, int ranks) {
  if (moving_average(node) == nullptr) return false;
  const Node& rows = node.inputs()[1].node();
  const auto* const gathered = std::any_cast<RanksOptions>(&rows.any_options());
  return rows.op().communicates && gathered != nullptr && gathered->ranks == ranks;
}

/// A node that is being looked at: which of the values that it reads are still to be.
struct RankDifferences::Visit {
  const Node* node;
  std::vector<Value> reads;
  bool differs;
  std::size_t next = 0;
};

RankDifferences::Visit RankDifferences::visit_of(const Node& node) const {
  const OpDef& op = node.op();
  const bool is_flag = op.is_placeholder() && node.output_types()[0] == TensorType{Dtype::boolean, {}};
  const bool differs = (op.is_placeholder() && !is_flag) || op.recompute == Recompute::seeded;
  const bool is_same = op.is_given() || op.communicates;
  return {&node, differs || is_same ? std::vector<Value>() : reads_(node), differs};
}

bool RankDifferences::differs(const Node& node) {
  if (const auto found = known_.find(&node); found != known_.end()) return found->second;
  // Not by recursion: graphs are deeper than stacks.
  std::vector<Visit> path = {visit_of(node)};
  known_[&node] = false;
  while (!path.empty()) {
    Visit& visit = path.back();
    const Node* below = nullptr;
    for (; !visit.differs && below == nullptr && visit.next < visit.reads.size(); ++visit.next) {
      const Node& read = visit.reads[visit.next].node();
      const auto [known, is_new] = known_.try_emplace(&read, false);
      if (is_new) {
        below = &read;
        break;  // it is looked at again when it is known
      }
      visit.differs = known->second;
    }
    if (below != nullptr) {
      path.push_back(visit_of(*below));
      continue;
    }
    known_[visit.node] = visit.differs;
    path.pop_back();
  }
  return known_[&node];
}

}  // namespace sectionflow
