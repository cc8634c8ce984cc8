#include "graph/graph.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

// Ordinals of training nodes start here, far above any model's.
constexpr std::uint32_t kTrainingOrdinals = 1U << 31;

template <class Item>
std::vector<Item> items_of(const std::map<std::string, std::vector<CollectionEntry<Item>>, std::less<>>& collections,
                           std::string_view name, const GroupId* group) {
  std::vector<Item> items;
  const auto found = collections.find(name);
  if (found == collections.end()) return items;
  for (const auto& entry : found->second) {
    if (group == nullptr || entry.group == *group) items.push_back(entry.item);
  }
  return items;
}

/// `base`, or the first of "base_1", "base_2", ... that is not taken.
template <class Taken>
std::string numbered(const std::string& base, const Taken& taken,
                     std::map<std::string, int, std::less<>>& free_number) {
  if (!taken.contains(base)) return base;
  int& number = free_number.try_emplace(base, 1).first->second;
  while (taken.contains(text_of(base, "_", number))) ++number;
  return text_of(base, "_", number);
}

/// What the definition of the op says of its inputs and options, so that its shape rule and traits may rely on it.
void check_call(const OpDef& op, const std::string& label, const std::vector<Value>& inputs, const std::any& options) {
  const std::size_t count = inputs.size();
  const auto least = static_cast<std::size_t>(op.inputs.least), most = static_cast<std::size_t>(op.inputs.most);
  const auto wanted = [&] { return least == most ? text_of(least) : text_of(least, " or more"); };
  SF_CHECK(count >= least && count <= most, ArgumentError, label, " got ", count, " inputs; wanted ", wanted());
  SF_CHECK(options.type() == *op.options.type, ArgumentError, label, " got options of another type than op '", op.name,
           "' describes",
           hint("call the function that makes this operation, or take its options; see ", "docs/adding_an_op.md"));
  if (op.options.check) op.options.check(options, label);
  for (int index : op.updated_inputs) {
    const Node& node = inputs.at(static_cast<std::size_t>(index)).node();
    const bool is_constant = constant_content(inputs.at(static_cast<std::size_t>(index))) != nullptr;
    SF_CHECK(node.op().is_variable() && !is_constant, ArgumentError, label, ": '", node.name(), "' is made by ",
             node.op().name, "; wanted a variable");
  }
  SF_CHECK(op.movement != Movement::out || !inputs[0].node().op().is_variable(), ArgumentError, label, " of '",
           inputs[0].name(), "': a variable lives in the session from run to run; swap what is computed from it");
  if (!op.uses) return;
  const std::vector<InputUse> uses = op.input_uses(count, std::vector<std::optional<bool>>(count));
  for (std::size_t i = 0; i < count; ++i) {
    if (uses.at(i) != InputUse::host_boolean) continue;
    const Node& node = inputs[i].node();
    SF_CHECK(is_known_on_host(inputs[i]), ArgumentError, label, ": '", node.name(), "' is computed by ", node.op().name,
             "; wanted a boolean placeholder or constant, since it chooses the kernel");
  }
}

/// The definition of the op. Throws: ArgumentError for a name that is none.
const OpDef& known_op(std::string_view name) {
  const auto& known = op_registry().all();
  const auto found = known.find(std::string(name));
  if (found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [of_op, definition] : known) names.push_back(of_op);
  const auto nearest = nearest_spelling(std::string(name), names);
  throw ArgumentError(error_text_of(
      "there is no op '", name, "'",
      hint(nearest                                    ? text_of("did you mean '", *nearest, "'?")
           : name.find('.') != std::string_view::npos ? std::string("register its family first, by register_family")
                                                      : std::string("graph/ops has a header for each family of ops"))));
}

}  // namespace

void Node::throw_other_options() const {
  sectionflow::throw_other_options(label());
}

std::string Node::label() const {
  return op_->name + " '" + name_ + "'";
}

std::string Node::place() const {
  return graph_->place(group_, where_);
}

Node& Value::node() const {
  SF_CHECK(node_ != nullptr, ArgumentError, "a default-constructed Value was used; wanted the result of an operation");
  return *node_;
}
Graph& Value::graph() const {
  return node().graph();
}
const TensorType& Value::type() const {
  const auto& types = node().output_types();
  SF_CHECK(output_ >= 0 && static_cast<std::size_t>(output_) < types.size(), ArgumentError, node().label(), " has ",
           types.size(), " outputs; there is no output ", output_);
  return types[static_cast<std::size_t>(output_)];
}
std::string Value::name() const {
  return output_ == 0 ? node().name() : node().name() + ":" + std::to_string(output_);
}
bool is_before(const Value& a, const Value& b) {
  const auto key = [](const Value& value) {
    return std::tuple(value.node().id(), value.output(), reinterpret_cast<std::uintptr_t>(&value.node()));
  };
  return key(a) < key(b);
}

Node& Operation::node() const {
  SF_CHECK(node_ != nullptr, ArgumentError, "a default-constructed Operation was used; wanted one made by a graph");
  return *node_;
}
const std::string& Operation::name() const {
  return node().name();
}

// "'x' f32[2, 3] (section 'head'), 'w' f32[3] (variable)"
std::string Graph::inputs_text(const std::vector<Value>& inputs) {
  std::string text;
  for (const Value& input : inputs) {
    if (!input.valid()) continue;
    const Node& node = input.node();
    text += text_of(text.empty() ? "" : ", ", "'", input.name(), "' ", input.type().text());
    const bool is_source = node.op().is_variable() || node.op().is_placeholder();
    const bool in_group = node.group() != kNoGroup && !node.graph().group_name(node.group()).empty();
    if (is_source || in_group)
      text += text_of(" (", is_source ? node.op().name : node.graph().group_name(node.group()), ")");
  }
  return text;
}

/// Throws: ArgumentError for a value of another graph. What is no value at all is for who takes it to refuse.
void Graph::check_own(const std::vector<Value>& inputs) const {
  for (const Value& input : inputs) {
    SF_CHECK(!input.valid() || &input.graph() == this, ArgumentError, "'", input.name(),
             "' belongs to another graph; build both in one graph");
  }
}

std::unique_ptr<Node> Graph::make_node(std::string_view op, std::vector<Value>& inputs, std::any& options,
                                       std::string_view name, Where where) {
  std::unique_ptr<Node> node(new Node());
  node->graph_ = this;
  node->op_ = &known_op(op);
  node->id_ = num_nodes();
  node->serial_ = next_serial_;
  node->options_ = std::move(options);
  node->group_ = current_group_;
  if (!node->op_->is_given()) node->branch_ = current_branch_;
  node->phase_ = phase_;
  node->where_ = where;
  node->name_ = unique_name(name.empty() ? op : name);

  std::vector<TensorType> input_types;
  for (const Value& input : inputs) {
    SF_CHECK(input.valid(), ArgumentError, node->label(), ": input ", input_types.size(),
             " is a default-constructed Value; wanted the result of an operation");
    SF_CHECK(&input.graph() == this, ArgumentError, node->label(), ": input '", input.name(),
             "' belongs to another graph; build both in one graph");
    input_types.push_back(input.type());
  }
  check_call(*node->op_, node->label(), inputs, node->options_);
  check_branches(*node, inputs);
  SF_CHECK(training_flag_ == nullptr || !is_training_flag(*node), ArgumentError, node->label(),
           ": the graph has a training flag already, '", training_flag_->name(), "'", hint("take graph.training()"));
  node->output_types_ = node->op_->infer({node->label(), input_types, node->options_});
  node->inputs_ = std::move(inputs);
  return node;
}

Node& Graph::add_node(std::string_view op, std::vector<Value> inputs, std::any options, std::string_view name,
                      Where where) {
  const auto inside = one_at_a_time_.enter("the graph");
  const Where place = place_.known() ? place_ : where;
  std::unique_ptr<Node> node;
  try {
    node = make_node(op, inputs, options, name, place);
  } catch (Error& error) {
    error.add_fact("where", this->place(current_group_, place));
    error.add_fact("inputs", inputs_text(inputs));
    throw;
  }
  const auto named = by_name_.emplace(node->name_, node->id_).first;
  try {
    nodes_.push_back(std::move(node));
  } catch (...) {
    by_name_.erase(named);
    throw;
  }
  Node& added = *nodes_.back();
  ++next_serial_;
  if (is_training_flag(added)) training_flag_ = &added;
  if (added.op_->recompute == Recompute::seeded) {
    added.random_ordinal_ =
        phase_ == Phase::model ? next_model_ordinal_++ : kTrainingOrdinals + next_training_ordinal_++;
  }
  return added;
}

std::string Graph::place(GroupId group, Where where) const {
  const std::string name = group == kNoGroup ? "" : group_name(group);
  return name + (name.empty() || !where.known() ? "" : ", ") + where.text();
}

Node& Graph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return node(found->second);
  // Of what is made for training, most has a name that nobody has given.
  std::vector<std::string> names, of_training;
  for (const auto& [known, id] : by_name_) {
    (node(id).phase() == Phase::model ? names : of_training).push_back(known);
  }
  auto nearest = nearest_spelling(std::string(name), names);
  if (!nearest) nearest = nearest_spelling(std::string(name), of_training);
  throw ArgumentError(
      text_of("the graph has no node '", name, "'", nearest ? "; did you mean '" + *nearest + "'?" : std::string()));
}

Value Graph::training(Where where) {
  if (training_flag_ == nullptr) {
    // It belongs to no section and to no phase, whoever is the first to ask.
    const GraphScope group = enter_group(kNoGroup), phase = enter_phase(Phase::model);
    add_node("placeholder", {}, PlaceholderOptions{.type = {Dtype::boolean, {}}, .training_flag = true}, "/training",
             where);
  }
  return training_flag_->output();
}

GraphScope Graph::scope(std::string_view name) {
  return open_scope(numbered(scope_prefix_ + std::string(name), scope_names_, free_scope_number_));
}

GraphScope Graph::empty_scope(std::string_view name) {
  struct Taken {
    const Graph& graph;
    bool contains(const std::string& full) const {
      const std::string prefix = full + "/";
      const auto begins_a_name = [&](const auto& names) {
        const auto next = names.lower_bound(prefix);
        return next != names.end() && next->first.starts_with(prefix);
      };
      return graph.scope_names_.contains(full) || begins_a_name(graph.scope_names_) || begins_a_name(graph.by_name_);
    }
  };
  return open_scope(numbered(scope_prefix_ + std::string(name), Taken{*this}, free_empty_number_));
}

GraphScope Graph::open_scope(std::string full) {
  std::string prefix = full + "/";
  // Made before anything changes, and without allocating when it ends: its making may throw, its end may not.
  GraphScope scope([this, previous = scope_prefix_]() mutable { scope_prefix_.swap(previous); });
  scope_names_.emplace(std::move(full), static_cast<int>(scope_names_.size()));
  scope_prefix_.swap(prefix);
  return scope;
}

std::vector<std::string> Graph::scope_names() const {
  std::vector<std::string> names(scope_names_.size());
  for (const auto& [name, number] : scope_names_) names.at(static_cast<std::size_t>(number)) = name;
  return names;
}

std::string Graph::unique_name(std::string_view name) {
  const bool from_root = name.starts_with('/');
  const std::string base = from_root ? std::string(name.substr(1)) : scope_prefix_ + std::string(name);
  return numbered(base, by_name_, free_name_number_);
}

GroupId Graph::new_group(std::string name) {
  group_names_.push_back(std::move(name));
  return num_groups() - 1;
}

GraphScope Graph::enter_group(GroupId group) {
  SF_CHECK(group >= kNoGroup && group < num_groups(), ArgumentError, "enter_group(", group, "): the graph has ",
           num_groups(), " groups");
  GraphScope scope([this, previous = current_group_] { current_group_ = previous; });
  current_group_ = group;
  return scope;
}

GraphScope Graph::enter_phase(Phase phase) {
  GraphScope scope([this, previous = phase_] { phase_ = previous; });
  phase_ = phase;
  return scope;
}

GraphScope Graph::enter_layer_dtype(Dtype dtype) {
  GraphScope scope([this, previous = layer_dtype_] { layer_dtype_ = previous; });
  layer_dtype_ = dtype;
  return scope;
}

GraphScope Graph::enter_layer_rounding(std::shared_ptr<const FakeQuantizationOptions> rounding) {
  GraphScope scope([this, previous = layer_rounding_] { layer_rounding_ = previous; });
  layer_rounding_ = std::move(rounding);
  return scope;
}

GraphScope Graph::enter_place(Where where) {
  GraphScope scope([this, previous = place_] { place_ = previous; });
  if (!place_.known()) place_ = where;
  return scope;
}

GraphScope Graph::claim_sections(Where where) {
  SF_CHECK_CODE(!sections_claimed_, ArgumentError, ErrorCode::second_manager,
                "a section manager has this graph already; a graph has one at a time, which trains all of its "
                "update_operations",
                Fact{"where", where.text()},
                earlier(sections_claimed_at_.known() ? "the manager made at " : "", sections_claimed_at_.text()),
                hint("use the first one, or build the model once more in a graph of its own"));
  GraphScope scope([this] { sections_claimed_ = false; });
  sections_claimed_ = true;
  sections_claimed_at_ = where;
  return scope;
}

void Graph::add_to_collection(std::string_view collection, Value value) {
  SF_CHECK(&value.graph() == this, ArgumentError, "collection '", collection, "': '", value.name(),
           "' belongs to another graph");
  value_collections_[std::string(collection)].push_back({value, current_group_, num_collection_entries_});
  ++num_collection_entries_;
}
void Graph::add_to_collection(std::string_view collection, Operation operation) {
  SF_CHECK(&operation.node().graph() == this, ArgumentError, "collection '", collection, "': '", operation.name(),
           "' belongs to another graph");
  operation_collections_[std::string(collection)].push_back({operation, current_group_, num_collection_entries_});
  ++num_collection_entries_;
  // Programs know whether they train, and whether they complete a training cycle.
  if (collection == kTrainingOperations || collection == kAccumulationOperations) ++generation_;
}
void Graph::replace_in_collection(std::string_view collection, Operation before, Operation after) {
  SF_CHECK(&before.node().graph() == this && &after.node().graph() == this, ArgumentError, "collection '", collection,
           "': '", before.name(), "' and '", after.name(), "' must both belong to this graph");
  const auto entry_of = [this, name = std::string(collection)](Operation item) -> CollectionEntry<Operation>* {
    for (auto& entry : operation_collections_[name]) {
      if (entry.item == item) return &entry;
    }
    return nullptr;
  };
  auto* const entry = entry_of(before);
  SF_CHECK(entry != nullptr, ArgumentError, "collection '", collection, "' has no '", before.name(), "'");
  on_roll_back([entry_of, before, after] { entry_of(after)->item = before; });
  entry->item = after;
  ++generation_;
}
std::vector<Value> Graph::values(std::string_view collection) const {
  return items_of(value_collections_, collection, nullptr);
}
std::vector<Operation> Graph::operations(std::string_view collection) const {
  return items_of(operation_collections_, collection, nullptr);
}
std::vector<Value> Graph::values(std::string_view collection, GroupId group) const {
  return items_of(value_collections_, collection, &group);
}
std::vector<Operation> Graph::operations(std::string_view collection, GroupId group) const {
  return items_of(operation_collections_, collection, &group);
}

std::vector<CollectedItem> Graph::collected_items() const {
  std::vector<std::pair<int, CollectedItem>> numbered_items;
  for (const auto& [name, entries] : value_collections_) {
    for (const auto& entry : entries) {
      numbered_items.push_back({entry.number, {.collection = name, .value = entry.item, .group = entry.group}});
    }
  }
  for (const auto& [name, entries] : operation_collections_) {
    for (const auto& entry : entries) {
      numbered_items.push_back({entry.number, {.collection = name, .operation = entry.item, .group = entry.group}});
    }
  }
  std::sort(numbered_items.begin(), numbered_items.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CollectedItem> items;
  for (auto& [number, item] : numbered_items) items.push_back(std::move(item));
  return items;
}

}  // namespace sectionflow
