#include "autodiff/gradient_path.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "graph/op_def.h"

namespace sectionflow {
namespace {

/// All nodes of which the loss is made, each with the node nearer to the loss through which it is reached; the loss's
/// own is nullptr.
std::map<const Node*, const Node*> steps_to_loss(Value loss) {
  std::map<const Node*, const Node*> next = {{&loss.node(), nullptr}};
  std::deque<const Node*> pending = {&loss.node()};
  while (!pending.empty()) {
    const Node* node = pending.front();
    pending.pop_front();
    for (const Value& input : node->inputs()) {
      if (next.emplace(&input.node(), node).second) pending.push_back(&input.node());
    }
  }
  return next;
}

/// Names from a source to the node, in the direction of the data.
std::vector<std::string> names_before(const std::set<Value>& sources, const Node& node) {
  std::map<const Node*, const Node*> later = {{&node, nullptr}};
  std::deque<const Node*> pending = {&node};
  while (!pending.empty()) {
    const Node* reader = pending.front();
    pending.pop_front();
    for (const Value& input : reader->inputs()) {
      if (sources.contains(input)) {
        std::vector<std::string> names = {input.name()};
        for (const Node* step = reader; step != nullptr; step = later.at(step)) names.push_back(step->name());
        return names;
      }
      if (later.emplace(&input.node(), reader).second) pending.push_back(&input.node());
    }
  }
  return {node.name()};
}

/// Whether nothing that flows out of the node could carry a gradient.
bool gives_no_floats(const Node& node) {
  return std::none_of(node.output_types().begin(), node.output_types().end(),
                      [](const TensorType& type) { return is_floating(type.dtype); });
}

}  // namespace

bool carries_gradient(const GradientRegistry& registry, const Node& node, std::size_t index) {
  if (!is_floating(node.inputs()[index].dtype())) return false;
  const std::vector<std::optional<bool>> unknown(node.inputs().size());
  const InputUse use = node.op().input_uses(node.inputs().size(), unknown)[index];
  if (use == InputUse::shape_only || use == InputUse::host_boolean) return false;
  const GradientEntry* entry = registry.find(node.op().name);
  if (entry == nullptr) return true;
  const auto& zero = entry->traits.zero_inputs;
  return !entry->is_zero() && std::find(zero.begin(), zero.end(), static_cast<int>(index)) == zero.end();
}

std::string path_text(const std::set<Value>& sources, const Node& node, Value loss) {
  std::vector<std::string> names = names_before(sources, node);
  const std::size_t at = names.size() - 1;
  const auto next = steps_to_loss(loss);
  if (const auto found = next.find(&node); found != next.end()) {
    for (const Node* step = found->second; step != nullptr; step = next.at(step)) names.push_back(step->name());
  }
  constexpr std::size_t kNeighbours = 2;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_near = i + kNeighbours >= at && i <= at + kNeighbours;
    if (is_near || i == 0 || i + 1 == names.size()) {
      text += text_of(text.empty() ? "" : " -> ", names[i]);
    } else if (!text.ends_with("...")) {
      text += " -> ...";
    }
  }
  return text;
}

const Node* stopping_node(const GradientRegistry& registry, Value variable, Value loss) {
  const auto to_loss = steps_to_loss(loss);
  std::map<Value, std::vector<std::pair<Node*, std::size_t>>> readers;  // in the order of their making
  for (NodeId id = 0; id <= loss.node().id(); ++id) {
    Node& reader = loss.graph().node(id);
    for (std::size_t i = 0; to_loss.contains(&reader) && i < reader.inputs().size(); ++i) {
      readers[reader.inputs()[i]].emplace_back(&reader, i);
    }
  }
  std::set<const Node*> seen;
  std::deque<Value> pending = {variable};
  while (!pending.empty()) {
    const Value value = pending.front();
    pending.pop_front();
    for (const auto& [reader, input] : readers[value]) {
      if (!carries_gradient(registry, *reader, input) || gives_no_floats(*reader)) return reader;
      if (!seen.insert(reader).second) continue;
      for (std::size_t k = 0; k < reader->output_types().size(); ++k) {
        pending.push_back(reader->output(static_cast<int>(k)));
      }
    }
  }
  return nullptr;
}

}  // namespace sectionflow
