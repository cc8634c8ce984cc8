#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/one_at_a_time.h"
#include "graph/node.h"
#include "graph/value.h"

namespace SF_API sectionflow {

// Names of the collections that SectionFlow itself fills; users may add to these and to their own.
inline constexpr std::string_view kVariables = "variables";
inline constexpr std::string_view kTrainableVariables = "trainable_variables";
inline constexpr std::string_view kUpdateOperations = "update_operations";
/// Operations that apply gradients: executing one makes a run a training cycle.
inline constexpr std::string_view kTrainingOperations = "training_operations";
/// Operations that take a micro-batch's gradients into the sums: executing one makes a run train, and no cycle of it.
inline constexpr std::string_view kAccumulationOperations = "accumulation_operations";
/// Three values an accumulation of gradients: the variable i64 [] that counts the micro-batches taken, the boolean
/// placeholder that a session decides, true for the last one, and the number of that one, a constant i64 [].
inline constexpr std::string_view kMicroBatches = "micro_batches";
/// Where several ranks train together: how many, a constant i64 [].
inline constexpr std::string_view kRanks = "ranks";

/// One entry of a collection, with the group that was open when it was added.
template <class Item>
struct CollectionEntry {
  Item item;
  GroupId group = kNoGroup;
  int number = 0;  ///< among all entries of the graph, in the order of their adding
};

/// One entry of any collection: a value or an operation, the other of which is invalid.
struct CollectedItem {
  std::string collection;
  Value value{};
  Operation operation{};
  GroupId group = kNoGroup;
};

/// Restores what it changed when it ends; move-only.
class GraphScope {
 public:
  GraphScope(GraphScope&& other) noexcept : restore_(std::exchange(other.restore_, nullptr)) {}
  GraphScope& operator=(GraphScope&&) = delete;
  ~GraphScope() {
    if (restore_) restore_();
  }

 private:
  friend class Graph;
  explicit GraphScope(std::function<void()> restore) : restore_(std::move(restore)) {}
  std::function<void()> restore_;
};

class SharedEntry;
struct FakeQuantizationOptions;

/// What is computed: nodes, their names, groups, branches and collections. No devices, no addresses. Not copyable:
/// values point into it. Every call that throws, for whatever reason, has left it as it was. Threads: build and compile
/// from one thread at a time; a second that builds while a first does is refused.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Adds a node at the end. The shape rule of the op runs here.
  /// Throws: what the shape rule throws, and ArgumentError for inputs of another graph; the graph is then unchanged.
  /// What is thrown also says where: the open group, and `where` or, below build_at, the place of the outermost call.
  Node& add_node(std::string_view op, std::vector<Value> inputs, std::any options, std::string_view name,
                 Where where = {});
  /// Calls `build` for a user's call at `where`: the nodes that it adds are of that place, and what it throws says so.
  template <class Build>
  auto build_at(Where where, Build&& build) {
    const auto inside = one_at_a_time_.enter("the graph");
    const GraphScope scope = enter_place(where);
    try {
      return all_or_nothing(build);
    } catch (Error& error) {
      error.add_fact("where", place(current_group_, place_));
      throw;
    }
  }
  /// The same for a layer, or what else checks `inputs` before it makes a node of them: what it throws names them, as
  /// what a node's shape rule throws does. Throws, before `build` is called: ArgumentError for inputs of another graph.
  template <class Build>
  auto build_at(Where where, const std::vector<Value>& inputs, Build&& build) {
    return build_at(where, [&] {
      check_own(inputs);
      try {
        return build();
      } catch (Error& error) {
        error.add_fact("inputs", inputs_text(inputs));
        throw;
      }
    });
  }
  /// Calls `change`; when it throws, what it has added to the graph is taken out again: nodes, names, control edges,
  /// groups, entries of collections. Values of nodes that were taken out must not be used.
  template <class Change>
  auto all_or_nothing(Change&& change) {
    const Mark before = mark();
    const OpenChange open(*this);
    try {
      return change();
    } catch (...) {
      roll_back(before);
      throw;
    }
  }
  /// Calls `change`, gives what it returns, and takes out again what it has added, as if it had thrown.
  template <class Change>
  auto tried(Change&& change) {
    const Mark before = mark();
    const OpenChange open(*this);
    try {
      auto result = change();
      roll_back(before);
      return result;
    } catch (...) {
      roll_back(before);
      throw;
    }
  }
  /// For those that keep values and groups of the graph: `undo` is called when the all_or_nothing that is open now, or
  /// one around it, throws; the last first, and before anything is taken out. Outside of all_or_nothing it is dropped.
  /// It must not throw.
  void on_roll_back(std::function<void()> undo);
  /// Grows with every change that a compiled program may rely on not to happen: a control or order edge, a replaced
  /// input, an entry of collections that train, and what is taken out, whose numbers are given again. What is kept by
  /// the numbers of nodes is therefore kept by this number too. Mere additions leave it as it is.
  std::uint64_t generation() const { return generation_; }
  /// `before` is executed before `after` in every run that contains both; a run of `after` brings `before` along.
  /// Throws: ArgumentError for operations of another graph. A cycle is found when an order is asked for.
  void add_control_edge(Operation before, Operation after);
  /// `before` is executed before `after` in every run that contains both; neither brings the other along.
  /// Throws: as add_control_edge.
  void add_order_edge(Operation before, Operation after);
  /// From here on `node` reads `value` as its input `index`. A node may so come to depend on one that was made later; a
  /// cycle is found when an order is asked for. Programs that a session has compiled are compiled again.
  /// Throws: ArgumentError for a value or node of another graph, an index that is none, or a value of another type.
  void replace_input(Node& node, int index, Value value);

  /// How often nodes have been changed since they were made, control edges aside: order edges and replaced inputs.
  int num_edits() const { return static_cast<int>(order_edges_.edges.size() + replaced_inputs_.size()); }
  /// An input of a node that was replaced: what it reads instead from then on.
  struct InputEdit {
    NodeId node;
    int input;
    Value before, after;
  };
  /// All replaced inputs, in the order of their replacing.
  std::vector<InputEdit> input_edits() const;
  int num_control_edges() const { return static_cast<int>(control_edges_.edges.size()); }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  Node& node(NodeId id) const { return *nodes_.at(static_cast<std::size_t>(id)); }
  /// The node of that name. Throws: ArgumentError with the nearest spelling.
  Node& find(std::string_view name) const;

  /// Whether a run trains, as a value: a boolean [] placeholder called 'training', outside of all groups, which is made
  /// when it is first asked for. No run has to feed it: it is true in a run that applies or sums gradients (a cycle,
  /// its halves, any of the two collections) and false in any other, gradients alone included. A feed says otherwise.
  /// Layers that are not told `is_training` go by it.
  Value training(Where where = Where::here());
  /// The same where it has been made; nullptr where nobody has asked for it.
  const Node* training_flag() const { return training_flag_; }

  /// Opens a name scope below the current one; a name that is taken gets a number: "block", "block_1", ...
  [[nodiscard]] GraphScope scope(std::string_view name);
  /// The same, but that a name counts as taken, too, when others begin with it, as a layer called "block/dense" does:
  /// what is made within is then numbered as in any other scope that is opened so.
  [[nodiscard]] GraphScope empty_scope(std::string_view name);
  /// What the names of nodes made here begin with: "" or "block/".
  const std::string& scope_prefix() const { return scope_prefix_; }
  /// The full names of all scopes that were opened, in that order.
  std::vector<std::string> scope_names() const;
  /// The full name that a node called `name` would get here: below the open scope, or, where `name` begins with '/',
  /// below none.
  std::string unique_name(std::string_view name);

  /// A new group; nodes belong to it that are made while `enter_group` holds. `name` is for messages: "section 'head'".
  GroupId new_group(std::string name = {});
  int num_groups() const { return static_cast<int>(group_names_.size()); }
  const std::string& group_name(GroupId group) const { return group_names_.at(static_cast<std::size_t>(group)); }
  GroupId current_group() const { return current_group_; }
  [[nodiscard]] GraphScope enter_group(GroupId group);
  /// For those that find groups when the graph is there: gives each node the group of its number, and each entry of a
  /// collection that of its node, as if they had been made in it. Compiled programs are compiled again.
  /// Throws: ArgumentError for another number of groups than of nodes, and for a group that is none.
  void set_groups(const std::vector<GroupId>& groups);
  /// Nodes are made in this branch until the scope ends; Branch{}: in none. Throws: ArgumentError for a branch of
  /// another graph, and for a `choice` that is none.
  [[nodiscard]] GraphScope enter_branch(Branch branch);
  Branch current_branch() const { return current_branch_; }
  /// Takes what `value` is computed from, itself included, out of all branches: it then is executed wherever it is
  /// asked for. For initial values of variables, which all runs have in common.
  void take_out_of_branches(Value value);
  /// What the nodes made from here on are for, until the scope ends.
  [[nodiscard]] GraphScope enter_phase(Phase phase);
  /// The dtype in which layers made from here on compute, until the scope ends: see MixedPrecision.
  [[nodiscard]] GraphScope enter_layer_dtype(Dtype dtype);
  /// That dtype; none where layers compute in that of their input.
  std::optional<Dtype> layer_dtype() const { return layer_dtype_; }
  /// How layers made from here on round what they multiply, until the scope ends: see FakeQuantization.
  [[nodiscard]] GraphScope enter_layer_rounding(std::shared_ptr<const FakeQuantizationOptions> rounding);
  /// nullptr where they round nothing.
  const std::shared_ptr<const FakeQuantizationOptions>& layer_rounding() const { return layer_rounding_; }
  /// Variables made from here on are those of `entry`, an open scope of SharedVariables; nullptr: of their own.
  [[nodiscard]] GraphScope enter_shared(std::shared_ptr<SharedEntry> entry);
  const std::shared_ptr<SharedEntry>& shared_entry() const { return shared_entry_; }
  /// The place in the user's source that nodes made from here on come from; within another place it changes nothing.
  [[nodiscard]] GraphScope enter_place(Where where);

  /// Claims the graph for the sections of one manager, made at `where`, until the scope ends.
  /// Throws: ArgumentError (SF-E200) while another has it, naming both places.
  [[nodiscard]] GraphScope claim_sections(Where where);
  /// Whether a manager has it now.
  bool has_section_manager() const { return sections_claimed_; }

  /// Throws: ArgumentError for what does not belong to this graph.
  void add_to_collection(std::string_view collection, Value value);
  void add_to_collection(std::string_view collection, Operation operation);
  /// Puts `after` in the place of `before`, an entry of the collection. Throws: ArgumentError where that is none, or
  /// either does not belong to this graph.
  void replace_in_collection(std::string_view collection, Operation before, Operation after);
  /// The values of a collection in the order of their adding; empty for an unknown name.
  std::vector<Value> values(std::string_view collection) const;
  std::vector<Operation> operations(std::string_view collection) const;
  /// The entries that were added while `group` was entered.
  std::vector<Value> values(std::string_view collection, GroupId group) const;
  std::vector<Operation> operations(std::string_view collection, GroupId group) const;
  /// The entries of all collections in the order of their adding.
  std::vector<CollectedItem> collected_items() const;

 private:
  friend class Node;

  /// How much the graph held at some time: what came later has higher numbers.
  struct Mark {
    std::size_t num_nodes, num_control_edges, num_order_edges, num_replaced_inputs, num_groups;
    std::size_t num_undos;
    int num_scope_names, num_collection_entries;
    std::uint32_t model_ordinal, training_ordinal;

    friend bool operator==(const Mark&, const Mark&) = default;
  };
  /// While one of these lives, what is added may be taken out again.
  class OpenChange {
   public:
    explicit OpenChange(Graph& graph) : graph_(graph) { ++graph_.open_changes_; }
    OpenChange(const OpenChange&) = delete;
    OpenChange& operator=(const OpenChange&) = delete;
    ~OpenChange() {
      if (--graph_.open_changes_ == 0) graph_.undos_.clear();
    }

   private:
    Graph& graph_;
  };
  using InputList = std::vector<Node*> Node::*;
  /// Edges in the order of their adding, from the earlier node to the later, each once.
  struct EdgeList {
    std::vector<std::pair<Node*, Node*>> edges;
    std::set<std::pair<const Node*, const Node*>> known;
    InputList inputs;  // where the later node keeps the earlier ones
  };
  struct ReplacedInput {
    Node* node;
    std::size_t index;
    Value before;
  };
  Mark mark() const;
  void roll_back(const Mark& before) noexcept;
  std::string place(GroupId group, Where where) const;
  static std::string inputs_text(const std::vector<Value>& inputs);
  void check_own(const std::vector<Value>& inputs) const;
  static void check_branches(const Node& node, const std::vector<Value>& inputs);
  void add_edge(const char* kind, Operation before, Operation after, EdgeList& list);
  void call_undos(std::size_t keep) noexcept;
  GraphScope open_scope(std::string full);
  static void drop_edges(EdgeList& list, std::size_t keep) noexcept;
  std::unique_ptr<Node> make_node(std::string_view op, std::vector<Value>& inputs, std::any& options,
                                  std::string_view name, Where where);

  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, NodeId, std::less<>> by_name_;
  std::map<std::string, int, std::less<>> scope_names_;  // and the number of each
  // The least number that may still be free behind a name, from which the search goes on. Emptied when names are given
  // back.
  std::map<std::string, int, std::less<>> free_name_number_, free_scope_number_, free_empty_number_;
  std::string scope_prefix_;
  EdgeList control_edges_{{}, {}, &Node::control_inputs_}, order_edges_{{}, {}, &Node::order_inputs_};
  std::vector<ReplacedInput> replaced_inputs_;
  std::vector<std::string> group_names_;
  GroupId current_group_ = kNoGroup;
  Branch current_branch_{};
  Where place_{};
  Phase phase_ = Phase::model;
  std::optional<Dtype> layer_dtype_;
  std::shared_ptr<const FakeQuantizationOptions> layer_rounding_;
  std::uint32_t next_model_ordinal_ = 0;
  std::uint32_t next_training_ordinal_ = 0;
  std::uint64_t next_serial_ = 0;
  std::uint64_t generation_ = 0;
  int open_changes_ = 0;
  std::vector<std::function<void()>> undos_;
  std::map<std::string, std::vector<CollectionEntry<Value>>, std::less<>> value_collections_;
  std::map<std::string, std::vector<CollectionEntry<Operation>>, std::less<>> operation_collections_;
  int num_collection_entries_ = 0;
  Node* training_flag_ = nullptr;
  std::shared_ptr<SharedEntry> shared_entry_;
  Where sections_claimed_at_{};
  bool sections_claimed_ = false;
  OneAtATime one_at_a_time_;
};

}  // namespace sectionflow
