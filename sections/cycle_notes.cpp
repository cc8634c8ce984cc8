#include "sections/cycle_notes.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "base/bytes.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::set<NodeId> executed_nodes(const Schedule& schedule) {
  std::set<NodeId> executed;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::compute) executed.insert(step.node);
  }
  return executed;
}

/// The sections whose forward operations, or whose backward run, read each value.
std::map<Value, std::set<SectionIndex>> reading_sections(const Graph& graph, const SectionMap& map,
                                                         const std::set<NodeId>& executed, bool forward_alone) {
  std::map<Value, std::set<SectionIndex>> readers;
  for (NodeId id : executed) {
    if (forward_alone && !map.is_forward(id)) continue;
    const SectionIndex reader = map.is_forward(id) ? map.section[id] : map.backward_run[id];
    if (reader == kOutside) continue;
    for (const Value& value : possible_reads(graph.node(id))) readers[value].insert(reader);
  }
  return readers;
}

/// "section 3", "sections 1, 2, 3"
std::string list_of(const std::set<SectionIndex>& sections) {
  std::string text = sections.size() == 1 ? "section" : "sections";
  const char* separator = " ";
  for (SectionIndex section : sections) {
    text += separator;
    text += std::to_string(section);
    separator = ", ";
  }
  return text;
}

/// How many bytes of each section's tensors wait for backward runs in each tier.
void note_tiers(const SectionMap& map, const Program& program, std::vector<std::string>& notes) {
  using Bytes = std::array<std::size_t, kNumTiers>;
  std::map<SectionIndex, Bytes> waiting;
  std::set<Value> offloaded;
  const StepIndex half = program.schedule.half;
  const auto waits = [&](const Buffer& buffer) {
    return buffer.value.valid() && buffer.life.first < half && buffer.life.last >= half;
  };
  for (const Buffer& buffer : program.schedule.buffers) {
    if (waits(buffer) && buffer.tier != Tier::device) offloaded.insert(buffer.value);
  }
  if (offloaded.empty()) return;
  for (const Buffer& buffer : program.schedule.buffers) {
    // While its copy is on the way a tensor is in two tiers.
    if (!waits(buffer) || (buffer.tier == Tier::device && offloaded.contains(buffer.value))) continue;
    Bytes& bytes = waiting.try_emplace(map.section[buffer.value.node().id()], Bytes{}).first->second;
    bytes[static_cast<std::size_t>(buffer.tier)] += buffer.bytes;
  }
  for (const auto& [section, bytes] : waiting) {
    const std::string whose =
        section == kOutside ? std::string("outside of all sections") : text_of("section ", section);
    notes.push_back(text_of(whose, ": ", bytes_text(bytes[0]), " stay on the device between the passes, ",
                            bytes_text(bytes[1]), " are offloaded to host memory, ", bytes_text(bytes[2]), " to disk"));
  }
}

void note_kept_for_far_sections(const Graph& graph, const SectionMap& map, const Program& program,
                                const std::set<NodeId>& executed, std::vector<std::string>& notes) {
  const auto readers = reading_sections(graph, map, executed, false);
  std::set<Value> seen;
  for (const Buffer& buffer : program.schedule.buffers) {
    const bool waits = buffer.life.first < program.schedule.half && buffer.life.last >= program.schedule.half;
    if (!buffer.value.valid() || !waits || !seen.insert(buffer.value).second) continue;
    const SectionIndex own = map.section[buffer.value.node().id()];
    if (own == kOutside) continue;
    std::vector<Value> names = buffer.other_names;
    names.push_back(buffer.value);
    std::set<SectionIndex> others;
    for (const Value& name : names) {
      if (const auto found = readers.find(name); found != readers.end()) {
        others.insert(found->second.begin(), found->second.end());
      }
    }
    others.erase(own);
    const auto far = [&](SectionIndex reader) { return std::abs(reader - own) > 1; };
    if (std::none_of(others.begin(), others.end(), far)) continue;
    notes.push_back(text_of("'", buffer.value.name(), "' of section ", own, ", ", bytes_text(buffer.bytes), " (",
                            buffer.bytes, " bytes), is kept once for ", list_of(others)));
  }
}

void note_shared_variables(const Graph& graph, const SectionMap& map, const std::set<NodeId>& executed,
                           std::vector<std::string>& notes) {
  for (const auto& entry : reading_sections(graph, map, executed, true)) {
    const Value value = entry.first;
    const auto& readers = entry.second;
    if (!is_variable(value) || readers.size() < 2) continue;
    std::string updated;
    for (NodeId id : executed) {
      const Node& node = graph.node(id);
      const bool updates = std::any_of(node.op().updated_inputs.begin(), node.op().updated_inputs.end(),
                                       [&](int i) { return node.inputs()[static_cast<std::size_t>(i)] == value; });
      if (updates) updated = text_of("; updated once, in the backward run of section ", map.backward_run[id]);
    }
    notes.push_back(text_of("variable '", value.name(), "' is shared by ", list_of(readers),
                            ": its gradients are summed once", updated));
  }
}

void note_random_outside(const Graph& graph, const SectionMap& map, const std::set<NodeId>& executed,
                         std::vector<std::string>& notes) {
  for (NodeId id : executed) {
    const Node& node = graph.node(id);
    const bool random = node.op().recompute == Recompute::seeded && node.phase() == Phase::model;
    if (!random || map.section[id] != kOutside) continue;
    notes.push_back(text_of(node.label(), " stands outside of all sections: drawn once per cycle"));
  }
}

void note_fetches_outside(const SectionMap& map, const Program& program, std::vector<std::string>& notes) {
  for (const FetchSlot& fetch : program.schedule.fetches) {
    const NodeId id = fetch.value.node().id();
    if (is_variable(fetch.value) || map.section[id] != kOutside) continue;
    const SectionIndex run = evaluation_run(map, fetch.value);
    const std::string pass = run == kForwardPass ? "forward pass" : text_of("backward run of section ", run);
    notes.push_back(
        text_of("fetch '", fetch.value.name(), "' stands outside of all sections: evaluated in the ", pass));
  }
}

}  // namespace

std::vector<std::string> cycle_notes(const Graph& graph, const SectionMap& map, const Program& program) {
  const std::set<NodeId> executed = executed_nodes(program.schedule);
  std::vector<std::string> notes;
  note_tiers(map, program, notes);
  note_kept_for_far_sections(graph, map, program, executed, notes);
  note_shared_variables(graph, map, executed, notes);
  note_random_outside(graph, map, executed, notes);
  note_fetches_outside(map, program, notes);
  return notes;
}

}  // namespace sectionflow
