// Constants that kernels of the CPU bring into an order of their own at every run are brought into it once.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "device/device.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "kernels/kernel_registry.h"
#include "kernels/packed_weights.h"
#include "schedule/concrete_graph.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

/// The signature of a run with so many examples.
Signature signature_of_batch(const Graph& graph, const std::vector<bool>& needed, std::int64_t batch) {
  Signature signature;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!needed[static_cast<std::size_t>(id)] || !node.op().is_placeholder()) continue;
    const TensorType& type = node.output_types()[0];
    std::vector<std::int64_t> dims = type.shape.dims();
    if (!dims.empty() && dims[0] == kDynamic) dims[0] = batch;
    const Shape shape(std::move(dims));
    SF_CHECK(shape.is_static(), ArgumentError, "pack_weights: the placeholder '", node.name(), "' is ", type.text(),
             "; wanted a shape that is known, but for the first dimension", Fact{"where", node.place()},
             hint("kernels are told shapes before they say how they read weights: build the graph for the size that "
                  "inputs have"));
    signature.shapes[id] = shape;
    if (type == TensorType{Dtype::boolean, {}}) signature.booleans[id] = false;
  }
  return signature;
}

/// Whether a node is one and the same under every feed, but for its types.
bool is_plain(const Node& node) {
  return may_have_packed_weights(node.op()) && !node.branch().exists() && !node.inputs().empty();
}

/// What may be packed of which nodes, by number.
std::map<NodeId, PackedWeights> packed_weights(const TransformedGraph& given, std::int64_t batch, int threads) {
  const Graph& graph = given.graph;
  const std::vector<bool> needed = needed_nodes(graph, given.outputs);
  const Signature signature = signature_of_batch(graph, needed, batch);
  const ConcreteGraph concrete(graph, signature);
  const auto counts = reader_counts(graph, given.outputs);
  const std::unique_ptr<Device> device = make_device(cpu(), threads);
  const auto in_team = device->enter();
  std::map<NodeId, PackedWeights> all;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!needed[static_cast<std::size_t>(id)] || !is_plain(node)) continue;
    // Of what others read too, the session would have both.
    const auto content = [&](std::size_t input) -> const HostTensor* {
      const Value value = node.inputs()[input];
      const bool is_own =
          counts[static_cast<std::size_t>(value.node().id())][static_cast<std::size_t>(value.output())] == 1;
      return is_own && is_stored(value.node()) ? constant_content(value) : nullptr;
    };
    bool has_own = false;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) has_own = has_own || content(i) != nullptr;
    if (!has_own) continue;
    auto packed = pack_weights({.node = node,
                                .inputs = concrete.input_types(id),
                                .outputs = concrete.types(id),
                                .host_booleans = concrete.booleans(id),
                                .device = *device},
                               content);
    if (packed) all.emplace(id, std::move(*packed));
  }
  return all;
}

}  // namespace

Transform pack_weights_transform() {
  return {
      .parameters = {{.name = "batch", .kind = TransformParameter::Kind::number},
                     {.name = "threads", .kind = TransformParameter::Kind::number}},
      .check =
          [](const TransformArguments& arguments) {
            constexpr std::int64_t kMostThreads = 1024;  // of a CPU device
            for (const auto& [name, most] : {std::pair{"batch", std::int64_t{INT32_MAX}}, {"threads", kMostThreads}}) {
              const std::int64_t number = arguments.number(name, 0);
              SF_CHECK(number <= most, ArgumentError, "pack_weights: ", name, " is ", number, "; wanted at most ",
                       most);
            }
            SF_CHECK(arguments.number("batch", 1) > 0, ArgumentError, "pack_weights: batch is 0; wanted 1 or more");
          },
      .apply =
          [](const TransformedGraph& given, const TransformArguments& arguments) {
            auto all =
                packed_weights(given, arguments.number("batch", 1), static_cast<int>(arguments.number("threads", 0)));
            GraphCopy copy(given);
            copy.copy_all([&](const Node& node, GraphCopy& made) {
              const auto found = all.find(node.id());
              if (found == all.end()) return false;
              auto& [options, content] = found->second;
              const auto index = static_cast<std::size_t>(options.input);
              const Node& weights = node.inputs()[index].node();
              std::vector<Value> inputs;
              for (std::size_t i = 0; i < node.inputs().size(); ++i) {
                inputs.push_back(i == index ? made.add_constant(weights,
                                                                std::make_shared<const HostTensor>(std::move(content)),
                                                                weights.name())
                                            : made.mapped(node.inputs()[i]));
              }
              const Node& added = made.add(node, "with_packed_weights", std::move(inputs), options, node.name());
              Node& before = given.graph.node(node.id());
              for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) {
                made.map(before.output(i), made.graph().node(added.id()).output(i));
              }
              return true;
            });
            return copy.finish(given.outputs);
          }};
}

}  // namespace sectionflow
