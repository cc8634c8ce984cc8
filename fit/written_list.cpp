#include "fit/written_list.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "data/tensor_hashes.h"
#include "fit/plan_content.h"
#include "fit/same_results.h"
#include "graph/ops/basic.h"
#include "schedule/insert_offloads.h"

namespace sectionflow {
namespace {

bool brings(const Instruction& instruction) {
  return instruction.kind == StepKind::compute || instruction.kind == StepKind::feed;
}

/// What tells instructions of a list apart: repeats of a node are one.
auto identity_of(const Instruction& instruction) {
  const bool is_node = brings(instruction);
  return std::tuple(instruction.kind, is_node ? instruction.node : NodeId{0}, is_node ? Value() : instruction.fetched,
                    instruction.fetch_slot, instruction.offload);
}

/// Order of identities: values that are nothing come first.
struct IdentityLess {
  template <class Identity>
  bool operator()(const Identity& a, const Identity& b) const {
    const auto rank = [](const Identity& identity) {
      const Value& value = std::get<2>(identity);
      return std::tuple(std::get<0>(identity), std::get<1>(identity), value.valid() ? value.node().id() : NodeId{-1},
                        value.output(), std::get<3>(identity), std::get<4>(identity));
    };
    return rank(a) < rank(b);
  }
};

}  // namespace

std::string ProgramFacts::name() const {
  constexpr std::size_t kMostNames = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(fetches.size(), kMostNames); ++i)
    text.append(i > 0 ? ", '" : "'").append(fetches[i]).append(1, '\'');
  if (fetches.size() > kMostNames) text += text_of(" and ", fetches.size() - kMostNames, " more");
  if (updates > 0) text += text_of(fetches.empty() ? "" : " with ", updates, updates == 1 ? " update" : " updates");
  return text.empty() ? "a program of no fetch" : text;
}

std::string ProgramFacts::feeds_text() const {
  std::string text;
  for (const auto& [feed, type] : feeds) text += text_of(text.empty() ? "" : ", ", feed, " ", type);
  return text.empty() ? "no feeds" : text;
}

WrittenList::WrittenList(const InstructionList& list, const ConcreteGraph& graph) : list_(list), graph_(graph) {
  for (const EntryValue& entry : list.entries) add_values(entry.value, entry.other_names);
  for (const Instruction& instruction : list.instructions) {
    if (instruction.kind == StepKind::copy_in) add_values(instruction.fetched, {});
    if (!brings(instruction)) continue;
    Node& node = graph.graph().node(instruction.node);
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output)
      add_values(node.output(output), {});
  }
}

void WrittenList::add_values(const Value& first, const std::vector<Value>& others) {
  const auto add = [this](const Value& value) {
    if (numbers_.try_emplace(value, static_cast<int>(values_.size())).second) values_.push_back(value);
  };
  add(first);
  for (const Value& other : others) add(other);
}

ProgramFacts WrittenList::facts() const {
  ProgramFacts facts{.fingerprint = fingerprint()};
  std::map<int, std::string> fetches;
  std::set<NodeId> nodes;
  std::multiset<std::string> operations;
  for (const Instruction& instruction : list_.instructions) {
    if (instruction.kind == StepKind::fetch) fetches[instruction.fetch_slot] = plain_text(instruction.fetched.name());
    if (!brings(instruction) || !nodes.insert(instruction.node).second) continue;
    const Node& node = graph_.graph().node(instruction.node);
    std::string operation = text_of(node.op().name);
    for (const TensorType& type : graph_.types(instruction.node)) operation.append(1, ' ').append(type.text());
    operations.insert(std::move(operation));
    if (node.op().is_update()) ++facts.updates;
    if (instruction.kind == StepKind::feed)
      facts.feeds[plain_text(node.name())] = graph_.types(instruction.node)[0].text();
  }
  for (auto& [slot, name] : fetches) facts.fetches.push_back(std::move(name));
  facts.nodes = static_cast<int>(nodes.size());
  std::string all;
  for (const std::string& operation : operations) all.append(operation).append(1, '\n');
  facts.operations = text_hash(all);
  return facts;
}

std::vector<NodeId> WrittenList::variables() const {
  std::vector<NodeId> met;
  std::set<NodeId> known;
  const auto meet = [&](const Value& value) {
    if (is_variable(value) && known.insert(value.node().id()).second) met.push_back(value.node().id());
  };
  for (const Instruction& instruction : list_.instructions) {
    if (brings(instruction)) {
      std::ranges::for_each(graph_.graph().node(instruction.node).inputs(), meet);
    } else {
      meet(instruction.fetched);
    }
  }
  return met;
}

std::string WrittenList::fingerprint() const {
  std::string text;
  std::map<NodeId, std::size_t> variables;
  const auto add = [&text](const auto& part) { text += text_of(part, ' '); };
  const auto add_value = [&](const Value& value) {
    const auto known = numbers_.find(value);
    if (known != numbers_.end()) {
      add(known->second);
    } else if (is_variable(value)) {
      // By the order in which they are met, whatever they are called.
      add(text_of("variable ", variables.try_emplace(value.node().id(), variables.size()).first->second));
      add(value.type().text());
    } else {
      add("unread");
    }
  };
  for (const Pass& pass : list_.passes) add(static_cast<int>(pass.kind));
  add(list_.half);
  for (const EntryValue& entry : list_.entries) {
    add(text_of("entry ", entry.offset, " ", static_cast<int>(entry.tier), " ", entry.offload));
    add(graph_.type(entry.value).text());
  }
  for (const Instruction& instruction : list_.instructions) {
    add(text_of("\n", static_cast<int>(instruction.kind), " ", instruction.pass, " ", instruction.replay, " ",
                instruction.fetch_slot, " ", instruction.offload));
    if (!brings(instruction)) {
      add_value(instruction.fetched);
      continue;
    }
    const Node& node = graph_.graph().node(instruction.node);
    add_value(graph_.graph().node(instruction.node).output());
    add(node.op().name);
    for (const Value& input : node.inputs()) add_value(input);
    for (const TensorType& type : graph_.types(instruction.node)) add(type.text());
  }
  return text_hash(text);
}

void WrittenList::describe(const InstructionList& planned, ProgramPlan& plan) const {
  std::map<decltype(identity_of(Instruction())), int, IdentityLess> places;
  for (std::size_t i = 0; i < list_.instructions.size(); ++i)
    places.try_emplace(identity_of(list_.instructions[i]), static_cast<int>(i));
  plan.half = planned.half;
  plan.instructions.clear();
  plan.instructions.reserve(planned.instructions.size());
  for (const Instruction& instruction : planned.instructions) {
    PlannedInstruction described{
        .pass = instruction.pass, .replay = instruction.replay, .part = instruction.part, .parts = instruction.parts};
    if (const auto place = places.find(identity_of(instruction)); place != places.end()) {
      described.written = place->second;
    } else {
      const auto value = numbers_.find(instruction.fetched);
      SF_CHECK(!brings(instruction) && value != numbers_.end(), InternalError,
               "WrittenList: an instruction of the plan is none of the program");
      described.kind = instruction.kind;
      described.value = value->second;
      described.offload = instruction.offload;
    }
    plan.instructions.push_back(described);
  }
}

Instruction WrittenList::instruction_of(const PlannedInstruction& planned) const {
  Instruction instruction;
  if (planned.written >= 0) {
    instruction = list_.instructions[as_index(planned.written)];
  } else {
    instruction.kind = planned.kind;
    instruction.fetched = values_[as_index(planned.value)];
    instruction.offload = planned.offload;
  }
  instruction.pass = planned.pass;
  instruction.replay = planned.replay;
  instruction.part = planned.part;
  instruction.parts = planned.parts;
  return instruction;
}

InstructionList WrittenList::list_of(const ProgramPlan& plan, const std::string& where) const {
  const auto count = [](const auto& items) { return static_cast<int>(items.size()); };
  InstructionList list{.passes = list_.passes, .instructions = {}, .entries = list_.entries, .half = plan.half};
  const auto refuse = [&](std::size_t place, const char* what, int came, int least, int below) {
    throw DataError(error_text_of(where, "instruction ", place, " of ", plan.facts.name(), " has ", what, " ", came,
                                  "; wanted ", least, " to ", below - 1),
                    ErrorCode::plan_file);
  };
  const int first_offload = unused_offload(list_);
  std::map<int, int> value_of_offload;
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const PlannedInstruction& planned = plan.instructions[i];
    const auto within = [&](const char* what, int came, int least, int below) {
      if (came < least || came >= below) refuse(i, what, came, least, below);
    };
    within("the pass", planned.pass, 0, count(list_.passes));
    if (planned.written >= 0) {
      within("the place", planned.written, 0, count(list_.instructions));
      if (planned.parts > 1) within("the part", planned.part, 0, planned.parts);
    } else {
      within("the value", planned.value, 0, count(values_));
      const bool copies = is_transfer(planned.kind);
      const bool is_hold = planned.kind == StepKind::hold, names_offload = copies || planned.offload >= 0;
      if (names_offload)
        within("the offload", planned.offload, first_offload, first_offload + count(plan.instructions));
      const int offloaded =
          names_offload ? value_of_offload.try_emplace(planned.offload, planned.value).first->second : planned.value;
      const bool is_its_own = offloaded == planned.value;
      const bool is_copy = copies && !is_variable(values_[as_index(planned.value)]);
      SF_CHECK_CODE((is_hold || is_copy) && is_its_own && !planned.replay, DataError, ErrorCode::plan_file, where,
                    "instruction ", i, " of ", plan.facts.name(),
                    " is neither one of the program nor a copy of an offload of its own");
    }
    list.instructions.push_back(instruction_of(planned));
  }
  check_same_results(list, plan.instructions, {list_, graph_, text_of(where, plan.facts.name(), ": ")});
  return list;
}

}  // namespace sectionflow
