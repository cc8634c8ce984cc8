// What is computed of constants alone is computed once and for all.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

/// Results larger than this, and larger than what they are made of, stay computed.
constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;

std::size_t bytes_of(const std::vector<TensorType>& types) {
  std::size_t bytes = 0;
  for (const TensorType& type : types) bytes += type.bytes();
  return bytes;
}

/// Which nodes are computed of constants alone, by number.
std::vector<bool> folded_nodes(const TransformedGraph& given, std::size_t most_bytes) {
  const std::vector<bool> needed = needed_nodes(given.graph, given.outputs);
  std::vector<bool> is_known(needed.size(), false), folded(needed.size(), false);
  // A constant has one output, so that outputs of the graph which are a node's second would get another name.
  std::set<const Node*> renamed;
  for (const Value& output : given.outputs) {
    if (output.output() > 0) renamed.insert(&output.node());
  }
  for (NodeId id = 0; id < given.graph.num_nodes(); ++id) {
    const auto index = static_cast<std::size_t>(id);
    Node& node = given.graph.node(id);
    const OpDef& op = node.op();
    if (op.is_given()) {
      is_known[index] = op.is_constant() || constant_content(node.output()) != nullptr;
      continue;
    }
    const bool is_plain = needed[index] && op.has_kernel && op.recompute == Recompute::pure && !op.is_update() &&
                          !op.communicates && !op.prints && op.movement == Movement::none && !node.branch().exists() &&
                          node.control_inputs().empty() && node.order_inputs().empty();
    // Weights of 8 bits stay such: a quarter of their numbers' bytes.
    if (!is_plain || node.inputs().empty() || is_op(node, "dequantize") || renamed.contains(&node)) continue;
    // Inputs that were replaced may stand behind their reader, and then are not known here: sort_by_execution_order
    // first.
    std::vector<TensorType> inputs;
    bool all_known = true;
    for (const Value& input : node.inputs()) {
      all_known = all_known && is_known[static_cast<std::size_t>(input.node().id())];
      inputs.push_back(input.type());
    }
    const auto& types = node.output_types();
    const bool is_static = std::all_of(types.begin(), types.end(), [](const auto& t) { return t.shape.is_static(); });
    if (!all_known || !is_static) continue;
    folded[index] = is_known[index] = bytes_of(types) <= std::max(most_bytes, bytes_of(inputs));
  }
  return folded;
}

/// The values of folded nodes that others read.
std::vector<Value> read_by_others(const TransformedGraph& given, const std::vector<bool>& folded) {
  std::vector<Value> values = given.outputs;
  for (NodeId id = 0; id < given.graph.num_nodes(); ++id) {
    if (folded[static_cast<std::size_t>(id)]) continue;
    for (const Value& input : given.graph.node(id).inputs()) values.push_back(input);
  }
  std::erase_if(values, [&](const Value& value) { return !folded[static_cast<std::size_t>(value.node().id())]; });
  std::sort(values.begin(), values.end(), is_before);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// What they hold, by a session of them alone.
std::map<Value, std::shared_ptr<const HostTensor>> computed(const Graph& graph, const std::vector<Value>& values,
                                                            const std::vector<bool>& folded) {
  std::map<Value, std::shared_ptr<const HostTensor>> contents;
  if (values.empty()) return contents;
  GraphCopy copy(graph);
  copy.copy_all({}, &folded);
  const InferenceGraph part = copy.finish(values);
  Session session(*part.graph);
  session.initialize();
  std::vector<HostTensor> results = session.run(part.outputs);
  for (std::size_t i = 0; i < values.size(); ++i) {
    contents[values[i]] = std::make_shared<const HostTensor>(std::move(results[i]));
  }
  return contents;
}

}  // namespace

Transform fold_constants_transform() {
  return {.parameters = {{.name = "max_bytes", .kind = TransformParameter::Kind::number}},
          .apply = [](const TransformedGraph& given, const TransformArguments& arguments) {
            const auto most_bytes = static_cast<std::size_t>(arguments.number("max_bytes", kMostBytes));
            const std::vector<bool> folded = folded_nodes(given, most_bytes);
            auto contents = computed(given.graph, read_by_others(given, folded), folded);
            GraphCopy copy(given);
            copy.copy_all([&](const Node& node, GraphCopy& made) {
              if (!folded[static_cast<std::size_t>(node.id())]) return false;
              for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) {
                const Value value = given.graph.node(node.id()).output(i);
                const auto content = contents.find(value);
                if (content == contents.end()) continue;
                const std::string name = i == 0 ? node.name() : made.free_name(text_of(node.name(), "_", i));
                made.map(value, made.add_constant(node, content->second, name));
              }
              return true;
            });
            return copy.finish(given.outputs);
          }};
}

}  // namespace sectionflow
