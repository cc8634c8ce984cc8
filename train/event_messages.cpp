#include "train/event_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/utf8.h"
#include "graph/op_def.h"
#include "train/event_writer.h"

namespace sectionflow {
namespace {

bool is_plain(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         letter == '.' || letter == '_' || letter == '-';
}

/// One part of a name, between slashes.
std::string plain_part(std::string_view part) {
  std::string plain;
  for (const char letter : part) plain += is_plain(letter) ? letter : '_';
  return plain.empty() ? "." : plain;
}

std::string plain_name(std::string_view name) {
  std::string plain;
  while (true) {
    const std::size_t slash = name.find('/');
    plain += plain_part(name.substr(0, slash));
    if (slash == std::string_view::npos) return plain;
    plain += '/';
    name.remove_prefix(slash + 1);
  }
}

/// "section 2 'head'" as "section_2_head".
std::string scope_of(const Graph& graph, GroupId group) {
  const std::string& name = graph.group_name(group);
  std::string scope;
  for (const char letter : name.empty() ? text_of("group ", group) : name) {
    if (letter != '\'') scope += is_plain(letter) ? letter : '_';
  }
  return scope;
}

int type_number(Dtype dtype) {
  // Source: tensorflow/core/framework/types.proto.
  switch (dtype) {
    case Dtype::f32:
      return 1;
    case Dtype::f64:
      return 2;
    case Dtype::i32:
      return 3;
    case Dtype::u8:
      return 4;
    case Dtype::i8:
      return 6;
    case Dtype::i64:
      return 9;
    case Dtype::boolean:
      return 10;
    case Dtype::bf16:
      return 14;
  }
  return 0;
}

void add_attributes(const Node& node, wire::NodeDef& out) {
  if (!node.output_types().empty()) {
    auto& shapes = *(*out.mutable_attr())["_output_shapes"].mutable_list();
    for (const TensorType& type : node.output_types()) {
      wire::TensorShapeProto& shape = *shapes.add_shape();
      for (const std::int64_t dim : type.shape.dims()) shape.add_dim()->set_size(dim);  // -1 where a feed decides
    }
    (*out.mutable_attr())["T"].set_type(type_number(node.output_types()[0].dtype));
  }
  if (node.where().known()) (*out.mutable_attr())["source"].set_s(valid_utf8(node.where().text()));
}

std::int64_t signed_bytes(std::size_t bytes) {
  return static_cast<std::int64_t>(bytes);
}

/// The executions of one node in one cycle.
struct Executions {
  double start_us = 0, duration_us = 0;
  int count = 0;
  std::size_t output_bytes = 0, workspace_bytes = 0, bytes_in_use = 0;
  std::string passes;
};

std::map<NodeId, Executions> executions_of(const Trace& trace) {
  std::map<NodeId, Executions> nodes;
  for (const Trace::Event& event : trace.last_execution()) {
    if (event.kind != StepKind::compute && event.kind != StepKind::feed) continue;
    Executions& node = nodes[event.node];
    node.start_us = node.count == 0 ? event.start_us : std::min(node.start_us, event.start_us);
    node.duration_us += event.duration_us;
    node.output_bytes = std::max(node.output_bytes, event.output_bytes);
    node.workspace_bytes = std::max(node.workspace_bytes, event.workspace_bytes);
    node.bytes_in_use = std::max(node.bytes_in_use, event.live_bytes + event.variable_bytes);
    node.passes += (node.count++ == 0 ? "" : ", ") + event.pass.text();
  }
  return nodes;
}

}  // namespace

std::vector<std::string> event_names(const Graph& graph) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    std::string name = plain_name(node.name());
    if (node.group() != kNoGroup) name = text_of(scope_of(graph, node.group()), "/", name);
    // Names begin with none of these.
    if (name.front() == '-' || name.front() == '_' || name.front() == '/') name.insert(name.begin(), '.');
    std::string free = name;
    for (int number = 1; !taken.insert(free).second; ++number) free = text_of(name, "_", number);
    names.push_back(free);
  }
  return names;
}

wire::GraphDef graph_message(const Graph& graph) {
  const std::vector<std::string> names = event_names(graph);
  const auto name_of = [&](const Node& node) { return names[static_cast<std::size_t>(node.id())]; };
  wire::GraphDef message;
  message.mutable_versions()->set_producer(1);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    wire::NodeDef& out = *message.add_node();
    out.set_name(name_of(node));
    out.set_op(valid_utf8(node.op().name));
    for (const Value& input : node.inputs()) {
      out.add_input(name_of(input.node()) + (input.output() == 0 ? "" : text_of(":", input.output())));
    }
    for (const Node* before : node.control_inputs()) out.add_input(text_of("^", name_of(*before)));
    add_attributes(node, out);
  }
  return message;
}

wire::RunMetadata run_message(const Trace& trace, const Graph& graph, const std::string& what) {
  const std::vector<std::string> names = event_names(graph);
  wire::RunMetadata message;
  wire::DeviceStepStats& device = *message.mutable_step_stats()->add_dev_stats();
  device.set_device(text_of("/device:", trace.machine().device.starts_with("cuda") ? "GPU" : "CPU", ":0"));
  for (const auto& [id, node] : executions_of(trace)) {
    SF_CHECK_CODE(id >= 0 && id < graph.num_nodes(), ArgumentError, ErrorCode::other_trace, what,
                  ": the trace has a node of number ", id, "; the graph has ", graph.num_nodes(),
                  hint("give the graph that was traced"));
    wire::NodeExecStats& out = *device.add_node_stats();
    out.set_node_name(names[static_cast<std::size_t>(id)]);
    out.set_all_start_micros(std::llround(node.start_us));
    // Whole microseconds: what ran at all took one.
    const auto micros = static_cast<std::int64_t>(std::ceil(std::max(node.duration_us, 1.0)));
    out.set_op_end_rel_micros(micros);
    out.set_all_end_rel_micros(micros);
    out.set_timeline_label(text_of(graph.node(id).op().name, ": ", node.passes));
    wire::AllocatorMemoryUsed& memory = *out.add_memory();
    memory.set_allocator_name("arena");
    memory.set_total_bytes(signed_bytes(node.output_bytes));
    memory.set_peak_bytes(signed_bytes(node.output_bytes + node.workspace_bytes));
    memory.set_live_bytes(signed_bytes(node.output_bytes));
    memory.set_allocator_bytes_in_use(signed_bytes(node.bytes_in_use));
  }
  return message;
}

std::string message_bytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    SF_CHECK(message.SerializeToCodedStream(&coded), InternalError, "message_bytes: a message cannot be written");
  }
  return bytes;
}

}  // namespace sectionflow
