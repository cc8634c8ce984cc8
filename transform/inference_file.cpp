// Inference graphs in files: a safetensors file of the constants, with the graph among its metadata.

#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "data/safetensors.h"
#include "graph/graph_file.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "transform/graph_copy.h"
#include "transform/inference_graph.h"
#include "transform/ranges_text.h"

namespace sectionflow {
namespace {

const std::string kGraphKey(kInferenceGraphKey);
constexpr const char* kRangesKey = "sectionflow_ranges";

/// Constants with a place of their own go to the tensors; in the graph of the file a placeholder stands for each.
InferenceGraph without_constants(const InferenceGraph& graph, std::vector<NamedView>& tensors) {
  GraphCopy copy(*graph.graph);
  copy.copy_all([&](const Node& node, GraphCopy& made) {
    if (!is_stored(node)) return false;
    const Value value = graph.graph->node(node.id()).output();
    tensors.push_back({node.name(), constant_content(value)->view()});
    made.map(value, made.add(node, "placeholder", {}, PlaceholderOptions{.type = value.type()}, node.name()).output());
    return true;
  });
  return copy.finish(graph.outputs);
}

void check_is_portable(const Graph& graph) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    SF_CHECK(!is_op(node, "with_packed_weights"), ArgumentError, "save_inference_graph: the weights of '", node.name(),
             "' are packed for this machine, and other machines read them in another order",
             hint("save the graph before the transform pack_weights, and pack what load_inference_graph gives"));
  }
}

/// The graph of a file with its constants in the places of their placeholders.
InferenceGraph with_constants(const Graph& graph, std::vector<NamedTensor> tensors) {
  std::map<std::string, std::shared_ptr<const HostTensor>> contents;
  for (NamedTensor& each : tensors) {
    contents.emplace(each.name, std::make_shared<const HostTensor>(std::move(each.tensor)));
  }
  GraphCopy copy(graph);
  copy.copy_all([&](const Node& node, GraphCopy& made) {
    const auto found = contents.find(node.name());
    if (found == contents.end()) return false;
    const bool is_place = node.op().is_placeholder() && !is_training_flag(node);
    SF_CHECK_CODE(is_place, DataError, ErrorCode::graph_file, "the file has a tensor '", node.name(), "', which is ",
                  node.label(), " in its graph; wanted a placeholder");
    const Value value = graph.node(node.id()).output();
    SF_CHECK_CODE(found->second->type() == value.type(), DataError, ErrorCode::graph_file, "the tensor '", node.name(),
                  "' is ", found->second->type().text(), ", in the graph ", value.type().text());
    made.map(value, made.add(node, "stored_constant", {}, ConstantOptions{found->second}, node.name()).output());
    contents.erase(found);
    return true;
  });
  SF_CHECK_CODE(contents.empty(), DataError, ErrorCode::graph_file, "the file has a tensor '", contents.begin()->first,
                "', which its graph does not read");
  const std::vector<Value> outputs = graph.values(kOutputs);
  SF_CHECK_CODE(!outputs.empty(), DataError, ErrorCode::graph_file, "the graph of the file has no outputs");
  return copy.finish(outputs);
}

InferenceGraph loaded(const std::string& path) {
  SafetensorsFile file = read_safetensors(path);
  const auto text = file.metadata.find(kGraphKey);
  SF_CHECK_CODE(text != file.metadata.end(), DataError, ErrorCode::graph_file, "'", path, "' has no graph",
                hint("save_inference_graph writes such files; files of variables are for load_variables"));
  Graph graph;
  load_graph_text(graph, text->second);
  check_is_for_inference(graph, nullptr, "load_inference_graph");
  InferenceGraph result = with_constants(graph, std::move(file.tensors));
  const auto ranges = file.metadata.find(kRangesKey);
  if (ranges != file.metadata.end()) {
    result.ranges = ranges_of_text(ranges->second);
    (void)values_of_ranges(*result.graph, result.ranges, "load_inference_graph");
  }
  return result;
}

}  // namespace

void save_inference_graph(const InferenceGraph& graph, const std::string& path, Where where) {
  call_at(where, [&] {
    SF_CHECK(graph.graph != nullptr, ArgumentError,
             "save_inference_graph: the graph is none; wanted what freeze gives");
    check_outputs(*graph.graph, graph.outputs, "save_inference_graph");
    check_is_for_inference(*graph.graph, nullptr, "save_inference_graph");
    (void)values_of_ranges(*graph.graph, graph.ranges, "save_inference_graph");
    check_is_portable(*graph.graph);
    std::vector<NamedView> tensors;
    const InferenceGraph written = without_constants(graph, tensors);
    Metadata metadata = {{kGraphKey, graph_text(*written.graph)}};
    if (!graph.ranges.empty()) metadata.emplace(kRangesKey, ranges_text(graph.ranges));
    write_safetensors(path, tensors, metadata);
  });
}

InferenceGraph load_inference_graph(const std::string& path, Where where) {
  return call_at(where, [&] {
    try {
      return loaded(path);
    } catch (DataError& error) {
      error.add_fact("file", path);
      throw;
    } catch (const ArgumentError& error) {
      // The graph's own rules refuse what is in the file.
      throw DataError(error_text_of("load_inference_graph: ", error.message(), Fact{"file", path}),
                      ErrorCode::graph_file);
    }
  });
}

}  // namespace sectionflow
