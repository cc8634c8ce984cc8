#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/graph_file.h"
#include "graph/graph_file_format.h"
#include "graph/json_elements.h"
#include "graph/json_item.h"
#include "graph/json_members.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

using nlohmann::ordered_json;

std::size_t num_values(const ordered_json& json) {
  std::size_t count = 1;
  if (json.is_structured()) {
    for (const ordered_json& value : json) count += num_values(value);
  }
  return count;
}

/// The longest text of a name: all strings but the content of a tensor.
std::size_t longest_name(const ordered_json& json) {
  if (json.is_string()) return json.get_ref<const std::string&>().size();
  std::size_t longest = 0;
  if (json.is_structured()) {
    for (auto value = json.begin(); value != json.end(); ++value) {
      if (!json.is_object() || value.key() != "bytes") longest = std::max(longest, longest_name(*value));
    }
  }
  return longest;
}

/// What the reader would refuse is not written.
std::string checked_text(const ordered_json& element, const std::string& label) {
  SF_CHECK(longest_name(element) <= kMostNameBytes, ArgumentError, "graph_text: ", label, ": a name is longer than ",
           kMostNameBytes, " bytes; try a shorter one");
  SF_CHECK(num_values(element) <= kMostJsonValues, ArgumentError, "graph_text: ", label, ": inputs and options are ",
           num_values(element), " values; a file holds at most ", kMostJsonValues, " of one operation");
  try {
    return element.dump();
  } catch (const nlohmann::json::type_error&) {
    throw ArgumentError(text_of("graph_text: ", label, ": a name is not UTF-8"));
  }
}

ordered_json json_of_value(const Value& value) {
  return {value.node().id(), value.output()};
}

using FirstInputs = std::map<std::pair<NodeId, int>, Value>;

/// The inputs that were replaced since, as they were when the node was made.
FirstInputs first_inputs(const Graph& graph) {
  FirstInputs first;
  for (const Graph::InputEdit& edit : graph.input_edits()) first.try_emplace({edit.node, edit.input}, edit.before);
  return first;
}

ordered_json json_of_node(const Node& node, const FirstInputs& first) {
  ordered_json json = {{"name", node.name()}, {"op", node.op().name}};
  if (node.op().options.write) {
    JsonMembers options;
    OptionWriter fields(options);
    node.op().options.write(node.any_options(), fields);
    json["options"] = std::move(options.members);
  }
  for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
    const auto replaced = first.find({node.id(), i});
    const Value now = node.inputs()[static_cast<std::size_t>(i)];
    json["inputs"].push_back(json_of_value(replaced != first.end() ? replaced->second : now));
  }
  for (const Node* before : node.control_inputs()) json["control"].push_back(before->id());
  if (node.group() != kNoGroup) json["group"] = node.group();
  if (node.branch().exists()) json["branch"] = {node.branch().choice->id(), node.branch().when ? 1 : 0};
  if (node.phase() != Phase::model) json["phase"] = kPhases[static_cast<std::size_t>(node.phase())];
  if (node.op().recompute == Recompute::seeded) json["random"] = node.random_ordinal();
  json["types"] = ordered_json::array();
  for (const TensorType& type : node.output_types()) json["types"].push_back(json_of_type(type));
  return json;
}

ordered_json json_of_entry(const CollectedItem& item) {
  ordered_json json = {{"name", item.collection}};
  if (item.value.valid()) {
    json["value"] = json_of_value(item.value);
  } else {
    json["operation"] = item.operation.node().id();
  }
  if (item.group != kNoGroup) json["group"] = item.group;
  return json;
}

/// A file of lines: one a node.
class GraphText {
 public:
  GraphText() { text_ = text_of("{\"format\":\"", kGraphFormat, "\",\n\"version\":", kGraphFormatVersion); }

  void begin_array(const char* member) {
    text_ += text_of(",\n\"", member, "\":[");
    separator_ = "\n";
  }
  void add(const ordered_json& element, const std::string& label) {
    const std::string text = checked_text(element, label);
    SF_CHECK(text_.size() + text.size() + kEnd.size() <= kMostGraphFileBytes, ArgumentError, "graph_text: ", label,
             ": the text exceeds ", kMostGraphFileBytes, " bytes, the most of a file; feed large constants instead");
    text_ += separator_;
    text_ += text;
    separator_ = ",\n";
  }
  void end_array() { text_ += "]"; }
  std::string finished() && { return std::move(text_) + "}\n"; }

 private:
  // More than all that follows the last element.
  static constexpr std::string_view kEnd =
      "]\n\"groups\":[]\n\"scopes\":[]\n\"nodes\":[]\n\"edits\":[]\n\"order\":[]\n\"collections\":[]\n}\n";
  std::string text_;
  const char* separator_ = "";
};

/// FNV-1a of all that is added.
class Digest {
 public:
  void add(const ordered_json& json) {
    const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    for (const char letter : text) value_ = (value_ ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

namespace {

void add_node(Digest& digest, const Node& node) {
  digest.add(json_of_node(node, FirstInputs()));
  for (const Node* before : node.order_inputs()) digest.add(before->id());
}

}  // namespace

std::uint64_t graph_digest(const Graph& graph, const std::set<NodeId>& nodes) {
  Digest digest;
  for (const NodeId id : nodes) add_node(digest, graph.node(id));
  return digest.value();
}

std::uint64_t graph_digest(const Graph& graph) {
  Digest digest;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) add_node(digest, graph.node(id));
  for (const CollectedItem& item : graph.collected_items()) digest.add(json_of_entry(item));
  return digest.value();
}

std::string graph_text(const Graph& graph) {
  GraphText text;
  text.begin_array("groups");
  for (GroupId group = 0; group < graph.num_groups(); ++group) {
    text.add(graph.group_name(group), text_of("group ", group));
  }
  text.end_array();
  text.begin_array("scopes");
  for (const std::string& scope : graph.scope_names()) text.add(scope, "a scope");
  text.end_array();
  text.begin_array("nodes");
  const FirstInputs first = first_inputs(graph);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    text.add(json_of_node(graph.node(id), first), graph.node(id).label());
  }
  text.end_array();
  text.begin_array("edits");
  for (const Graph::InputEdit& edit : graph.input_edits()) {
    text.add({{"node", edit.node}, {"input", edit.input}, {"value", json_of_value(edit.after)}}, "an edit");
  }
  text.end_array();
  text.begin_array("order");
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const Node* before : graph.node(id).order_inputs()) text.add({before->id(), id}, "an order edge");
  }
  text.end_array();
  text.begin_array("collections");
  for (const CollectedItem& item : graph.collected_items()) text.add(json_of_entry(item), "a collection");
  text.end_array();
  return std::move(text).finished();
}

}  // namespace sectionflow
