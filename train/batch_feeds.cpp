#include "train/batch_feeds.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/nearest.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Numbers that a trainer and its callbacks usually feed besides, a learning rate for one.
constexpr std::size_t kOthers = 4;

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += text_of(text.empty() ? "'" : ", '", name, "'");
  return text.empty() ? "none" : text;
}

std::vector<std::string> names_in(const Example& batch) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : batch) names.push_back(name);
  return names;
}

Fact nearest_hint(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise) {
  const auto nearest = nearest_spelling(name, known);
  return hint(nearest ? text_of("is '", *nearest, "' the one that is meant?") : otherwise);
}

/// Examples that the batch's tensors count by their first axis.
std::int64_t count_examples(const Example& batch) {
  std::int64_t count = -1;
  const std::string* counted = nullptr;
  for (const auto& [name, tensor] : batch) {
    if (tensor.shape().rank() == 0) continue;
    const std::int64_t here = tensor.shape()[0];
    SF_CHECK_CODE(here > 0, ShapeError, ErrorCode::batch_examples, "the batch has no examples: '", name, "' is ",
                  tensor.type().text(), hint("leave batches without examples out"));
    SF_CHECK_CODE(count < 0 || here == count, ShapeError, ErrorCode::batch_examples,
                  "the batch's tensors differ in "
                  "how many examples they have: '",
                  counted == nullptr ? "" : *counted, "' has ", count, ", '", name, "' ", tensor.type().text(), " has ",
                  here, hint("the first axis of every tensor counts the examples"));
    count = here;
    counted = &name;
  }
  return count < 0 ? 1 : count;
}

void check_type(const std::string& tensor, const HostTensor& data, Value placeholder, bool is_mapped) {
  const TensorType& wanted = placeholder.type();
  const auto what = [&] {
    return text_of("tensor '", tensor, "' of the batch is ", data.type().text(), is_mapped ? " as it is mapped" : "",
                   "; placeholder '", placeholder.name(), "' takes ", wanted.text());
  };
  const bool is_image = data.dtype() == Dtype::u8 && wanted.dtype == Dtype::f32;
  SF_CHECK_CODE(
      data.dtype() == wanted.dtype, ArgumentError, ErrorCode::example_type, what(),
      Fact{"value", placeholder.node().place()},
      hint(is_image ? "map it: {\"" + tensor + "\", placeholder, unit_range()} makes levels numbers from 0 to 1"
                    : "convert it in the data, by BatchInput::map, or by cast() in the graph: nothing is "
                      "converted in silence"));
  SF_CHECK_CODE(matches(data.shape(), wanted.shape), ShapeError, ErrorCode::example_type, what(),
                Fact{"value", placeholder.node().place()},
                hint("change the shape in the data or by BatchInput::map; kDynamic dimensions of placeholders take "
                     "any size"));
}

}  // namespace

InputMap unit_range() {
  return [](const HostTensor& levels) {
    SF_CHECK(levels.dtype() == Dtype::u8, ArgumentError, "unit_range: the tensor is ", levels.type().text(),
             "; wanted u8");
    // Divided, not multiplied by 1 / 255: rounded once, as BatchLoader does it.
    static const std::array<float, 256> unit_of_level = [] {
      std::array<float, 256> table{};
      for (std::size_t level = 0; level < table.size(); ++level) table[level] = static_cast<float>(level) / 255.0F;
      return table;
    }();
    HostTensor units(Dtype::f32, levels.shape());
    const auto from = levels.values<std::uint8_t>();
    const auto to = units.values<float>();
    std::transform(from.begin(), from.end(), to.begin(), [&](std::uint8_t level) { return unit_of_level[level]; });
    return units;
  };
}

std::set<NodeId> nodes_run_by(const Graph& graph, const std::vector<Value>& fetches,
                              const std::vector<Operation>& targets) {
  std::vector<bool> seen(static_cast<std::size_t>(graph.num_nodes()), false);
  std::vector<const Node*> waiting;
  const auto reach = [&](const Node& node) {
    if (seen[static_cast<std::size_t>(node.id())]) return;
    seen[static_cast<std::size_t>(node.id())] = true;
    waiting.push_back(&node);
  };
  for (const Value& fetch : fetches) reach(fetch.node());
  for (const Operation& target : targets) reach(target.node());
  std::set<NodeId> run;
  while (!waiting.empty()) {
    const Node& node = *waiting.back();
    waiting.pop_back();
    run.insert(node.id());
    // What gives a variable its first value is no part of the run.
    if (node.op().is_variable()) continue;
    for (const Value& input : node.inputs()) reach(input.node());
    for (const Node* before : node.control_inputs()) reach(*before);
  }
  return run;
}

std::set<NodeId> placeholders_read_by(const Graph& graph, const std::vector<Value>& fetches,
                                      const std::vector<Operation>& targets) {
  std::set<NodeId> read = nodes_run_by(graph, fetches, targets);
  std::erase_if(read, [&](NodeId id) { return !graph.node(id).op().is_placeholder(); });
  return read;
}

void explain_missing_feed(const ArgumentError& error, const Graph& graph, const std::set<NodeId>& read,
                          const Feeds& feeds) {
  if (error.code() != ErrorCode::missing_feed) return;
  std::set<NodeId> missing = read;
  for (const Feed& feed : feeds) missing.erase(feed.value.node().id());
  for (const NodeId id : missing) {
    const Node& placeholder = graph.node(id);
    const bool is_meant = error.message().find("'" + placeholder.name() + "'") != std::string::npos;
    if (!is_meant || placeholder.output_types()[0] != TensorType{Dtype::f32, {}}) continue;
    ErrorText text(error.message());
    for (const char* known : {"where", "fed", "needed"}) {
      if (!error.fact(known).empty()) text.facts.push_back({known, error.fact(known)});
    }
    text.facts.push_back(
        hint("a callback feeds a learning rate: LearningRate schedule(", placeholder.name(),
             ", constant_rate(1e-3)) among FitOptions::callbacks; TrainerOptions::training_feeds feeds "
             "any other number"));
    throw ArgumentError(std::move(text), ErrorCode::missing_feed);
  }
}

BatchFeeds::BatchFeeds(const Graph& graph, std::vector<BatchInput> inputs, std::vector<std::string> ignored)
    : graph_(graph), inputs_(std::move(inputs)), ignored_(std::move(ignored)) {
  std::set<std::string> tensors;
  for (const BatchInput& input : inputs_) {
    SF_CHECK(!input.tensor.empty(), ArgumentError,
             "Trainer: an input has no name; wanted that of a tensor of the "
             "batches");
    SF_CHECK(input.placeholder.valid() && &input.placeholder.graph() == &graph &&
                 input.placeholder.node().op().is_placeholder(),
             ArgumentError, "Trainer: input '", input.tensor, "' is to feed '",
             input.placeholder.valid() ? input.placeholder.name() : "",
             "'; wanted a placeholder of the session's graph");
    SF_CHECK(tensors.insert(input.tensor).second, ArgumentError, "Trainer: input '", input.tensor, "' is given twice");
    SF_CHECK(listed_.insert(input.placeholder.node().id()).second, ArgumentError, "Trainer: placeholder '",
             input.placeholder.name(), "' gets two inputs; wanted one");
  }
}

const BatchInput* BatchFeeds::find(const std::string& tensor) const {
  const auto found =
      std::find_if(inputs_.begin(), inputs_.end(), [&](const BatchInput& input) { return input.tensor == tensor; });
  return found == inputs_.end() ? nullptr : &*found;
}

void BatchFeeds::meet_graph() {
  if (graph_.num_nodes() == num_nodes_) return;
  placeholders_.clear();
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    Node& node = graph_.node(id);
    if (node.op().is_placeholder()) placeholders_.emplace(node.name(), node.output());
  }
  num_nodes_ = graph_.num_nodes();
}

std::optional<Value> BatchFeeds::fed_as_it_is(const std::string& tensor, const TensorType& type,
                                              const std::set<NodeId>& read) {
  meet_graph();
  const BatchInput* input = find(tensor);
  const auto named = placeholders_.find(tensor);
  const bool is_taken =
      input != nullptr ? !input->map : named != placeholders_.end() && !listed_.contains(named->second.node().id());
  if (!is_taken || std::find(ignored_.begin(), ignored_.end(), tensor) != ignored_.end()) return std::nullopt;
  const Value placeholder = input != nullptr ? input->placeholder : named->second;
  const TensorType& wanted = placeholder.type();
  const bool fits = type.dtype == wanted.dtype && matches(type.shape, wanted.shape);
  return fits && read.contains(placeholder.node().id()) ? std::optional(placeholder) : std::nullopt;
}

BatchFeeds::Bound BatchFeeds::bind(const Example& batch, const std::set<NodeId>& read) {
  meet_graph();
  Bound bound;
  bound.num_examples = count_examples(batch);
  bound.feeds.reserve(batch.size() + inputs_.size() + kOthers);
  const auto feed = [&](const std::string& name, Value placeholder, const HostTensor& data, bool is_mapped) {
    check_type(name, data, placeholder, is_mapped);
    bound.feeds.emplace_back(placeholder, data);
  };
  for (const BatchInput& input : inputs_) {
    if (!read.contains(input.placeholder.node().id())) continue;
    const auto tensor = batch.find(input.tensor);
    SF_CHECK_CODE(tensor != batch.end(), ArgumentError, ErrorCode::example_names, "the batch has no tensor '",
                  input.tensor, "', which placeholder '", input.placeholder.name(), "' is fed from; it has ",
                  names_text(names_in(batch)),
                  nearest_hint(input.tensor, names_in(batch), "give it that name in the data, or change the input"));
    if (input.map) {
      feed(input.tensor, input.placeholder, input.map(tensor->second), true);
    } else {
      feed(input.tensor, input.placeholder, tensor->second, false);
    }
  }
  for (const auto& [name, tensor] : batch) {
    if (find(name) != nullptr || std::find(ignored_.begin(), ignored_.end(), name) != ignored_.end()) continue;
    const auto placeholder = placeholders_.find(name);
    if (placeholder == placeholders_.end() || listed_.contains(placeholder->second.node().id())) {
      std::vector<std::string> known;
      for (const auto& [known_name, value] : placeholders_) {
        // Those that a session decides are nobody's to feed.
        const Node& node = value.node();
        if (node.phase() == Phase::model && &node != graph_.training_flag()) known.push_back(known_name);
      }
      throw ArgumentError(
          error_text_of("the batch's tensor '", name, "' ", tensor.type().text(), " feeds nothing; the graph's ",
                        "placeholders are ", names_text(known),
                        nearest_hint(name, known, "list it in TrainerOptions::inputs, or in ::ignored")),
          ErrorCode::example_names);
    }
    if (read.contains(placeholder->second.node().id())) feed(name, placeholder->second, tensor, false);
  }
  return bound;
}

}  // namespace sectionflow
