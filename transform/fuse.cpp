// A convolution takes over what stands behind it and is read by nobody else: its bias, a residual sum, a relu.

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/fused_convolution.h"
#include "graph/traversal.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

/// A convolution and what it takes over, in their order; the last one's name and value stay.
struct Chain {
  const Node* convolution = nullptr;
  const Node* bias = nullptr;  ///< a bias_add
  const Node* sum = nullptr;   ///< an add of the chain's value and the residual
  Value residual{};
  const Node* relu = nullptr;
  const Node* last = nullptr;
};

/// Operations whose result has as many rows, entries along the first dimension, as their first input.
constexpr std::string_view kKeepRows[] = {"conv2d",     "conv3d",     "fused_conv2d",   "fused_conv3d",
                                          "bias_add",   "batch_norm", "relu",           "leaky_relu",
                                          "max_pool2d", "max_pool3d", "average_pool2d", "average_pool3d",
                                          "sigmoid",    "silu",       "hard_swish",     "clip"};
/// Those whose result has as many rows as each input whose number of rows is open, where that is one and the same.
constexpr std::string_view kJoinRows[] = {"add", "sub", "mul"};

/// By number of each node whose first output has an open number of rows: a node that has as many. What has the same is
/// of equal size in every run; of others a run may have one row, which a sum broadcasts.
std::vector<const Node*> sources_of_rows(const Graph& graph) {
  const auto are_open = [](const Shape& shape) { return shape.rank() > 0 && shape[0] == kDynamic; };
  const auto is_among = [](const Node& node, const auto& names) {
    return std::find(std::begin(names), std::end(names), node.op().name) != std::end(names);
  };
  std::vector<const Node*> sources(static_cast<std::size_t>(graph.num_nodes()), nullptr);
  for (NodeId id : topological_order(DependencyGraph(graph))) {
    const Node& node = graph.node(id);
    const Node*& source = sources[static_cast<std::size_t>(id)];
    source = &node;
    const std::size_t read = is_among(node, kKeepRows) ? 1 : is_among(node, kJoinRows) ? node.inputs().size() : 0;
    std::set<const Node*> of_inputs;
    for (std::size_t i = 0; i < read; ++i) {
      const Value& input = node.inputs()[i];
      if (!are_open(input.shape())) continue;
      const bool is_known = input.output() == 0 && input.shape().rank() == node.output_types()[0].shape.rank();
      of_inputs.insert(is_known ? sources[static_cast<std::size_t>(input.node().id())] : &node);
    }
    if (of_inputs.size() == 1) source = *of_inputs.begin();
  }
  return sources;
}

/// Finds chains: who alone reads a value.
class Chains {
 public:
  explicit Chains(const TransformedGraph& given)
      : given_(given),
        counts_(reader_counts(given.graph, given.outputs)),
        sources_of_rows_(sources_of_rows(given.graph)) {
    for (NodeId id = 0; id < given.graph.num_nodes(); ++id) {
      const Node& node = given.graph.node(id);
      for (const Value& input : node.inputs()) readers_[&input.node()] = &node;
    }
  }

  std::vector<Chain> all() {
    std::vector<Chain> chains;
    for (NodeId id = 0; id < given_.graph.num_nodes(); ++id) {
      const Node& node = given_.graph.node(id);
      if (!is_op(node, "conv2d") && !is_op(node, "conv3d")) continue;
      if (node.output_types()[0].dtype != Dtype::f32 || !is_plain(node)) continue;
      if (!node.inputs()[1].shape().is_static()) continue;
      const Chain chain = from(node);
      if (chain.last != &node) chains.push_back(chain);
    }
    return chains;
  }

 private:
  static bool is_plain(const Node& node) {
    return !node.branch().exists() && node.control_inputs().empty() && node.order_inputs().empty();
  }

  /// The only reader of a node's only output, of that op and not taken yet; nullptr where there is none.
  const Node* follower(const Node& node, const char* op) const {
    if (counts_[static_cast<std::size_t>(node.id())][0] != 1) return nullptr;
    const auto reader = readers_.find(&node);
    if (reader == readers_.end() || !is_op(*reader->second, op) || !is_plain(*reader->second)) return nullptr;
    return taken_.contains(reader->second) ? nullptr : reader->second;
  }

  /// Whether a node's only output, of that type, and the value are of equal size in every run.
  bool are_equal(const TensorType& type, const Node& node, const Value& other) const {
    const auto& dims = type.shape.dims();
    if (type != other.type()) return false;
    if (std::find(dims.begin() + 1, dims.end(), kDynamic) != dims.end()) return false;
    const auto source = [&](const Node& each) { return sources_of_rows_[static_cast<std::size_t>(each.id())]; };
    return dims[0] != kDynamic || (other.output() == 0 && source(node) == source(other.node()));
  }

  Chain from(const Node& convolution) {
    Chain chain{.convolution = &convolution, .last = &convolution};
    const DataFormat format = convolution.options<ConvolutionOptions>().steps.format;
    const Node* bias = follower(*chain.last, "bias_add");
    if (bias != nullptr && &bias->inputs()[0].node() == chain.last &&
        bias->options<BiasAddOptions>().format == format) {
      chain.bias = chain.last = bias;
    }
    const Node* sum = follower(*chain.last, "add");
    if (sum != nullptr) {
      const bool is_first = &sum->inputs()[0].node() == chain.last;
      const Value other = sum->inputs()[is_first ? 1 : 0];
      if (other.type() == sum->output_types()[0] && are_equal(chain.last->output_types()[0], *chain.last, other)) {
        chain.residual = other;
        chain.sum = chain.last = sum;
      }
    }
    const Node* relu = follower(*chain.last, "relu");
    if (relu != nullptr) chain.relu = chain.last = relu;
    for (const Node* node : {chain.bias, chain.sum, chain.relu}) taken_.insert(node);
    return chain;
  }

  const TransformedGraph& given_;
  std::vector<std::vector<int>> counts_;
  std::vector<const Node*> sources_of_rows_;
  std::map<const Node*, const Node*> readers_;  // of each node the last
  std::set<const Node*> taken_;
};

void make(const Chain& chain, const Graph& graph, GraphCopy& copy) {
  const Node& node = *chain.convolution;
  Value bias;
  if (chain.bias != nullptr) {
    bias = copy.mapped(chain.bias->inputs()[1]);
  } else {
    auto zeros = std::make_shared<const HostTensor>(Dtype::f32, Shape{node.inputs()[1].shape()[-1]});
    bias = copy.add_constant(node, std::move(zeros), copy.free_name(node.name() + "/bias"));
  }
  std::vector<Value> inputs = {copy.mapped(node.inputs()[0]), copy.mapped(node.inputs()[1]), bias};
  if (chain.residual.valid()) inputs.push_back(copy.mapped(chain.residual));
  const FusedConvolutionOptions options{.convolution = node.options<ConvolutionOptions>(),
                                        .relu = chain.relu != nullptr};
  const std::string op = "fused_" + node.op().name;
  const Value fused = copy.add(*chain.last, op, std::move(inputs), options, chain.last->name()).output();
  copy.map(graph.node(chain.last->id()).output(), fused);
}

}  // namespace

Transform fuse_transform() {
  return {.apply = [](const TransformedGraph& given, const TransformArguments&) {
    std::map<const Node*, Chain> by_last;
    std::set<const Node*> gone;
    for (const Chain& chain : Chains(given).all()) {
      by_last.emplace(chain.last, chain);
      for (const Node* node : {chain.convolution, chain.bias, chain.sum, chain.relu}) gone.insert(node);
    }
    GraphCopy copy(given);
    copy.copy_all([&](const Node& node, GraphCopy& made) {
      const auto chain = by_last.find(&node);
      if (chain != by_last.end()) make(chain->second, given.graph, made);
      return gone.contains(&node);
    });
    return copy.finish(given.outputs);
  }};
}

}  // namespace sectionflow
