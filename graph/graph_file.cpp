#include "graph/graph_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/whole_file.h"
#include "graph/graph_file_format.h"
#include "graph/json_elements.h"
#include "graph/json_item.h"
#include "graph/nodes/control.h"
#include "graph/nodes/shards.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

/// Makes a graph of the elements of a file. Every name and number in them may be wrong.
class GraphReader {
 public:
  explicit GraphReader(Graph& graph) : graph_(graph) {
    for (const auto& [name, definition] : op_registry().all()) ops_.push_back(name);
  }

  void begin(const std::string& member) {
    finish_member();
    const std::string wanted = next_ < kGraphMembers.size() ? kGraphMembers[next_] : "the end";
    if (member != wanted) refuse_at("", text_of("got the member '", member, "'; wanted ", wanted, " here"));
    ++next_;
    num_taken_ = 0;
  }

  void take(const std::string& member, std::optional<std::size_t> index, const JsonItem& element) {
    ++num_taken_;
    if (index.has_value() == is_single()) element.refuse_kind(is_single() ? "no array" : "an array");
    if (member == "format") return check_format(element);
    if (member == "version") return check_version(element);
    if (member == "groups") return (void)graph_.new_group(element.text());
    if (member == "scopes") return add_scope(element);
    if (member == "nodes") return add_node(element);
    if (member == "edits") return edit_input(element);
    if (member == "order") return add_order_edge(element);
    add_entry(element);
  }

  void finish() {
    finish_member();
    if (next_ < kGraphMembers.size()) refuse_at("", text_of("has no '", kGraphMembers[next_], "'"));
    connect();
    check_initializers();
    try {
      (void)topological_order(DependencyGraph(graph_));
    } catch (const ArgumentError& error) {
      refuse_at("nodes", error.message());
    }
  }

 private:
  struct ControlEdge {
    NodeId before, after;
    std::size_t index;  // among those of `after`
  };

  /// Whether the member is one value instead of an array of them.
  bool is_single() const { return next_ <= 2; }
  void finish_member() const {
    if (next_ > 0 && is_single() && num_taken_ != 1) refuse_at(kGraphMembers[next_ - 1], "got no value; wanted one");
  }

  static void check_format(const JsonItem& element) {
    if (element.text() != kGraphFormat) element.refuse_kind(text_of("'", kGraphFormat, "'; is it a file of a graph?"));
  }
  static void check_version(const JsonItem& element) {
    const std::int64_t version = element.integer();
    if (version == kGraphFormatVersion) return;
    element.refuse(text_of("got version ", version, "; this SectionFlow reads version ", kGraphFormatVersion,
                           version > kGraphFormatVersion ? "; try a newer one" : ""));
  }

  void add_scope(const JsonItem& element) {
    const std::string& name = element.text();
    if (!scopes_.insert(name).second) element.refuse("the scope is there twice");
    (void)graph_.scope(name);
  }

  NodeId node_id(const JsonItem& item) const {
    if (graph_.num_nodes() == 0) item.refuse("there are no nodes above");
    return static_cast<NodeId>(item.integer(0, graph_.num_nodes() - 1));
  }
  Value value(const JsonItem& item) const {
    if (item.size() != 2) item.refuse_kind("a node and one of its outputs");
    Node& node = graph_.node(node_id(item[0]));
    const auto outputs = static_cast<std::int64_t>(node.output_types().size());
    if (outputs == 0) item.refuse(text_of(node.label(), " has no outputs"));
    return node.output(static_cast<int>(item[1].integer(0, outputs - 1)));
  }
  GroupId group(const JsonItem& item) const {
    if (!item.has("group")) return kNoGroup;
    return static_cast<GroupId>(item.member("group").integer(kNoGroup, graph_.num_groups() - 1));
  }

  Branch branch(const JsonItem& item) const {
    if (!item.has("branch")) return {};
    const JsonItem side = item.member("branch");
    if (side.size() != 2) side.refuse_kind("a choice and 0 or 1");
    const Node& choice = graph_.node(node_id(side[0]));
    if (!is_choice(choice)) side[0].refuse(text_of(choice.label(), " is no choice"));
    return {&choice, side[1].integer(0, 1) == 1};
  }

  std::any options(const JsonItem& item, const OpDef& op) {
    if (!op.options.read) {
      if (item.has("options")) item.member("options").refuse(text_of("op '", op.name, "' has no options"));
      return {};
    }
    const JsonItem object = item.member("options");
    OptionReader fields(object, later_);
    std::any read = op.options.read(fields);
    fields.check_all_read();
    return read;
  }

  std::vector<Value> inputs(const JsonItem& item) const {
    std::vector<Value> values;
    if (!item.has("inputs")) return values;
    const JsonItem list = item.member("inputs");
    const std::size_t size = list.size();
    for (std::size_t i = 0; i < size; ++i) values.push_back(value(list[i]));
    return values;
  }

  const OpDef& known_op(const JsonItem& item) const {
    const std::string& name = item.text();
    const bool is_from_outside = name.find('.') != std::string::npos;
    if (is_from_outside && !op_registry().all().contains(name)) {
      item.refuse(
          error_text_of("got the op '", name, "', which this program has not registered",
                        hint("call register_family with the family of '", name, "' before the graph is loaded")));
    }
    return op_registry().at(ops_[item.one_of(ops_, "op")]);
  }

  void add_node(const JsonItem& item) {
    item.check_members(kNodeMembers);
    const std::string name = item.member("name").text();
    const std::string root_name = "/" + name;
    if (graph_.unique_name(root_name) != name) item.member("name").refuse("another node has this name");
    const OpDef& op = known_op(item.member("op"));
    const auto phase =
        item.has("phase") ? static_cast<Phase>(item.member("phase").one_of(kPhases, "phase")) : Phase::model;
    const auto in_group = graph_.enter_group(group(item));
    const auto in_branch = graph_.enter_branch(branch(item));
    const auto in_phase = graph_.enter_phase(phase);
    std::any read_options = options(item, op);
    std::vector<Value> read_inputs = inputs(item);
    try {
      graph_.add_node(op.name, std::move(read_inputs), std::move(read_options), root_name);
    } catch (const Error& error) {
      item.refuse(error.message());
    }
    check_added(item);
    add_control_edges(item);
  }

  /// Compares what the shape rule and the numbering of random nodes gave with what is in the file.
  void check_added(const JsonItem& item) const {
    const Node& node = graph_.node(graph_.num_nodes() - 1);
    const JsonItem types = item.member("types");
    const std::size_t wanted = node.output_types().size();
    if (types.size() != wanted) types.refuse(text_of("got ", types.size(), " types; wanted ", wanted));
    for (std::size_t i = 0; i < wanted; ++i) {
      const TensorType type = types[i].type();
      if (type == node.output_types()[i]) continue;
      types[i].refuse(text_of("got ", type.text(), "; wanted ", node.output_types()[i].text()));
    }
    if (item.has("branch") && !node.branch().exists()) item.member("branch").refuse("what is given belongs to none");
    const bool is_seeded = node.op().recompute == Recompute::seeded;
    if (!is_seeded && item.has("random")) item.member("random").refuse("the op is not random");
    if (is_seeded && item.member("random").integer() != node.random_ordinal()) {
      item.member("random").refuse_kind(text_of(node.random_ordinal()));
    }
  }

  void add_control_edges(const JsonItem& item) {
    if (!item.has("control")) return;
    const JsonItem list = item.member("control");
    const std::size_t size = list.size();
    for (std::size_t i = 0; i < size; ++i) {
      const JsonItem before = list[i];
      control_edges_.push_back({static_cast<NodeId>(before.integer(0, INT32_MAX)), graph_.num_nodes() - 1, i});
    }
  }

  void edit_input(const JsonItem& item) {
    item.check_members(kEditMembers);
    Node& node = graph_.node(node_id(item.member("node")));
    const auto index = static_cast<int>(item.member("input").integer(0, INT32_MAX));
    try {
      graph_.replace_input(node, index, value(item.member("value")));
    } catch (const ArgumentError& error) {
      item.refuse(error.message());
    }
  }

  void add_order_edge(const JsonItem& item) {
    if (item.size() != 2) item.refuse_kind("two nodes, the earlier first");
    graph_.add_order_edge(Operation(graph_.node(node_id(item[0]))), Operation(graph_.node(node_id(item[1]))));
  }

  void add_entry(const JsonItem& item) {
    item.check_members(kEntryMembers);
    const std::string name = item.member("name").text();
    const auto in_group = graph_.enter_group(group(item));
    if (item.has("value") == item.has("operation")) item.refuse_kind("either 'value' or 'operation'");
    if (item.has("value")) return graph_.add_to_collection(name, value(item.member("value")));
    graph_.add_to_collection(name, Operation(graph_.node(node_id(item.member("operation")))));
  }

  /// What names nodes that may stand below it.
  void connect() {
    for (const auto& [before, after, index] : control_edges_) {
      if (before >= graph_.num_nodes()) {
        refuse_at(text_of("nodes[", after, "].control[", index, "]"), text_of("there is no node ", before));
      }
      graph_.add_control_edge(Operation(graph_.node(before)), Operation(graph_.node(after)));
    }
    for (const LaterOperation& later : later_) {
      if (later.node >= graph_.num_nodes()) refuse_at(later.path, text_of("there is no node ", later.node));
      *later.operation = Operation(graph_.node(later.node));
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (gives_variable(graph_.node(id))) note_shard(graph_.node(id));
      if (refreshes_copy(graph_.node(id))) note_master(graph_.node(id));
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) check_shard_operation(graph_.node(id));
  }

  /// What assigns or sums a shard is given the place of one, with the holders that the operation tells.
  static void check_shard_operation(const Node& node) {
    const auto* const holders = std::any_cast<ShardHolders>(&node.any_options());
    if (holders == nullptr || refreshes_copy(node)) return;
    const Value place = node.inputs()[0], whole = node.inputs()[1];
    const bool is_place = is_variable(place) && ranks_of_shard(place) > 0 && holders_of_shard(place) == *holders &&
                          whole_type(place).shape.num_elements() == whole.shape().num_elements();
    if (is_place) return;
    refuse_at(text_of("nodes[", node.id(), "].inputs"),
              text_of(node.label(), " has '", place.name(), "' ", place.type().text(), " as a shard of '", whole.name(),
                      "' ", whole.type().text(), "; wanted a variable that is a shard of as much, held by ",
                      text_of_holders(*holders)));
  }

  void note_shard(Node& gathered) const {
    const Value shard = gathered.inputs()[0], variable = gathered.inputs()[1];
    check_pair(gathered, shard, variable, gathered.options<GatheredVariableOptions>());
    if (updated_for(variable) != variable || variable_of_shard(shard).valid()) refuse_pair(gathered, shard, variable);
    note_gathered(gathered);
  }

  /// A variable may be refreshed several times, from one master copy.
  void note_master(Node& refresh) const {
    const Value variable = refresh.inputs()[0], master = refresh.inputs()[1];
    check_pair(refresh, master, variable, refresh.options<ShardHolders>());
    const Value known = updated_for(variable), of_master = variable_of_shard(master);
    const bool is_known = known == master && of_master == variable;
    if (!is_known && (known != variable || of_master.valid())) refuse_pair(refresh, master, variable);
    if (!is_known) note_gathered(refresh);
  }

  [[noreturn]] static void refuse_pair(const Node& node, Value shard, Value variable) {
    refuse_at(text_of("nodes[", node.id(), "].inputs"),
              text_of(node.label(), " has '", shard.name(), "' and '", variable.name(),
                      "'; wanted the shard of a variable, and that variable, each once"));
  }

  static void check_pair(const Node& node, Value shard, Value variable, const ShardHolders& holders) {
    const bool are_variables = is_variable(shard) && is_variable(variable) && constant_content(variable) == nullptr;
    if (!are_variables || ranks_of_shard(shard) == 0 || ranks_of_shard(variable) > 0)
      refuse_pair(node, shard, variable);
    if (whole_type(shard) == variable.type() && holders_of_shard(shard) == holders) return;
    refuse_at(text_of("nodes[", node.id(), "].inputs"),
              text_of(node.label(), " gathers ", variable.type().text(), " from ", text_of_holders(holders), ", and '",
                      shard.name(), "' is a shard of ", whole_type(shard).text(), " for ",
                      text_of_holders(holders_of_shard(shard)), "; wanted the same"));
  }

  /// A variable gets its initial value by an assignment of its own, which reads no variable.
  void check_initializers() const {
    std::vector<bool> reads_variable(static_cast<std::size_t>(graph_.num_nodes()), false);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      bool reads = node.op().is_variable();
      for (const Value& input : node.inputs())
        reads = reads || reads_variable[static_cast<std::size_t>(input.node().id())];
      reads_variable[static_cast<std::size_t>(id)] = reads;
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      if (!node.op().is_variable() || constant_content(node.output()) != nullptr) continue;
      const Node& assign = initializer_of(node.output()).node();
      if (is_initializer_of(assign, node.output()) &&
          !reads_variable[static_cast<std::size_t>(assign.inputs()[1].node().id())])
        continue;
      refuse_at(text_of("nodes[", id, "].options.initializer"),
                text_of(node.label(), " gets its initial value by ", assign.label(),
                        "; wanted an assign to it of what reads no variable"));
    }
  }

  /// Of a shard: an assign_shard of as many ranks, from what it is a shard of.
  static bool is_initializer_of(const Node& assign, Value variable) {
    const std::int64_t ranks = ranks_of_shard(variable);
    if (assign.op().name != (ranks > 0 ? "assign_shard" : "assign") || assign.inputs()[0] != variable) return false;
    return ranks == 0 || (assign.options<ShardHolders>() == holders_of_shard(variable) &&
                          assign.inputs()[1].type() == whole_type(variable));
  }

  Graph& graph_;
  std::vector<std::string> ops_;
  std::size_t next_ = 0;  // of kGraphMembers
  std::size_t num_taken_ = 0;
  std::set<std::string> scopes_;
  std::vector<ControlEdge> control_edges_;
  std::vector<LaterOperation> later_;
};

void check_empty(const Graph& graph) {
  const bool is_empty = graph.num_nodes() == 0 && graph.num_groups() == 0 && graph.scope_names().empty();
  SF_CHECK(is_empty, ArgumentError, "load_graph: the graph has nodes, groups or scopes already; wanted an empty one");
}

void load(Graph& graph, std::string_view text, Where where) {
  graph.build_at(where, [&] {
    check_empty(graph);
    GraphReader reader(graph);
    read_json_elements(text, {.begin = [&](const std::string& member) { reader.begin(member); },
                              .take = [&](const std::string& member, std::optional<std::size_t> index,
                                          const JsonItem& element) { reader.take(member, index, element); }});
    reader.finish();
  });
}

}  // namespace

void save_graph(const Graph& graph, const std::string& path, Where where) {
  call_at(where, [&] { write_whole_file(path, graph_text(graph), "save_graph"); });
}

void load_graph_text(Graph& graph, std::string_view text, Where where) {
  load(graph, text, where);
}

void load_graph(Graph& graph, const std::string& path, Where where) {
  const std::string text = call_at(where, [&] { return read_whole_file(path, kMostGraphFileBytes, "load_graph"); });
  try {
    load(graph, text, where);
  } catch (DataError& error) {
    error.add_fact("file", path);
    throw;
  }
}

}  // namespace sectionflow
