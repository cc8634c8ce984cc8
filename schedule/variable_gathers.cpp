#include "schedule/variable_gathers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"
#include "schedule/insert_offloads.h"

namespace sectionflow {
namespace {

/// A stretch of the list whose variables are gathered together: [begin, end).
struct Run {
  int begin, end;
  GroupId section;
  bool is_backward;
  bool is_whole;
};

class Gathers {
 public:
  Gathers(const InstructionList& list, const ConcreteGraph& graph) : list_(list), graph_(graph) {}

  std::vector<Insertion> find() {
    find_uses();
    find_runs();
    find_forward_reads();
    Places there = left_by_forward_half();
    for (std::size_t r = 0; r < runs_.size(); ++r) there = gather_for(r, there);
    return std::move(gathers_);
  }

 private:
  using Places = std::map<NodeId, int>;  // by variable

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const Instruction& instruction(int index) const { return list_.instructions[at(index)]; }
  const Pass& pass_of(int index) const { return list_.passes[at(instruction(index).pass)]; }

  void find_uses() {
    for (int i = 0; i < static_cast<int>(list_.instructions.size()); ++i) {
      const Instruction& each = instruction(i);
      if (each.fetched.valid()) note_read(each.fetched, i);
      if (each.kind != StepKind::compute) continue;
      for (const Value& value : graph_.reads(each.node)) note_read(value, i);
      const Node& node = graph_.graph().node(each.node);
      for (const int input : node.op().updated_inputs) note_update(node, node.inputs()[at(input)], i);
    }
  }

  void note_read(Value value, int place) {
    if (is_variable(value) && gathered_of(value).valid()) reads_[value.node().id()].push_back(place);
  }

  void note_update(const Node& node, Value variable, int place) {
    const bool is_kept =
        master_of(variable).valid() && !refreshes_copy(node) && &initializer_of(variable).node() != &node;
    SF_CHECK_CODE(!is_kept && !gathered_of(variable).valid(), ArgumentError, ErrorCode::ranks, node.label(),
                  " updates '", variable.name(),
                  is_kept ? "', which is a copy that ranks refresh from another" : "', which ranks hold in shards",
                  Fact{"where", node.place()},
                  hint("write it by Session::write; or train with VariableDistribution::replicated"));
    const Value whole = variable_of_shard(variable);
    if (whole.valid()) updates_[whole.node().id()].push_back(place);
  }

  static bool is_backward(const Pass& pass) {
    return pass.kind == Pass::Kind::backward || pass.kind == Pass::Kind::recompute;
  }

  void find_runs() {
    for (int i = 0; i < static_cast<int>(list_.instructions.size()); ++i) {
      const Pass& pass = pass_of(i);
      const bool continues = !runs_.empty() && runs_.back().section == pass.section &&
                             runs_.back().is_whole == (pass.kind == Pass::Kind::whole) &&
                             (!runs_.back().is_backward || is_backward(pass));
      if (!continues) runs_.push_back({i, i, pass.section, false, pass.kind == Pass::Kind::whole});
      runs_.back().end = i + 1;
      runs_.back().is_backward = is_backward(pass);
    }
  }

  /// Variables that are there at the beginning, gathered by the half before this list.
  Places left_by_forward_half() const {
    Places there;
    for (const EntryValue& entry : list_.entries) {
      for (const Value& name : entry.other_names) {
        if (is_variable(name) && gathered_of(name).valid()) there[name.node().id()] = 0;
      }
    }
    return there;
  }

  /// The variable's first reader in [begin, end); `end` where there is none.
  int first_read(NodeId variable, int begin, int end) const {
    const auto found = reads_.find(variable);
    if (found == reads_.end()) return end;
    const auto first = std::lower_bound(found->second.begin(), found->second.end(), begin);
    return first == found->second.end() ? end : std::min(end, *first);
  }

  /// Behind the last update of the variable before `place`; 0 where there is none.
  int behind_update(NodeId variable, int place) const {
    const auto found = updates_.find(variable);
    if (found == updates_.end()) return 0;
    const auto next = std::lower_bound(found->second.begin(), found->second.end(), place);
    return next == found->second.begin() ? 0 : *std::prev(next) + 1;
  }

  /// Variables of a run with their first readers in it, the run's end for those without. In the order of the readers
  /// where these are of a forward pass; those of a backward run, which may differ from rank to rank, in that of
  /// variables.
  std::vector<std::pair<int, NodeId>> variables_of(const Run& run) const {
    std::vector<std::pair<int, NodeId>> variables;
    for (const auto& [variable, places] : reads_) {
      const int first = first_read(variable, run.begin, run.end);
      const bool is_read = first < run.end;
      if (is_read || (run.is_backward && forward_reads_.contains({run.section, variable})))
        variables.emplace_back(first, variable);
    }
    const bool has_forward = run.is_whole || end_of_forward(run) > run.begin;
    if (has_forward) std::sort(variables.begin(), variables.end());
    return variables;
  }

  /// What each section's forward pass reads.
  void find_forward_reads() {
    for (const Run& run : runs_) {
      const int end = end_of_forward(run);
      for (const auto& [variable, places] : reads_) {
        if (first_read(variable, run.begin, end) < end) forward_reads_.emplace(run.section, variable);
      }
    }
  }

  /// A run of the last section is its forward pass and its backward pass.
  int end_of_forward(const Run& run) const {
    int end = run.begin;
    while (end < run.end && pass_of(end).kind == Pass::Kind::forward) ++end;
    return end;
  }

  /// Gathers what the run needs and the run before has not left; what is there by then, and since when.
  Places gather_for(std::size_t number, const Places& there) {
    const Run& run = runs_[number];
    int ahead = number > 0 ? runs_[number - 1].begin : run.begin;
    Places left;
    for (const auto& [first, variable] : variables_of(run)) {
      if (run.is_whole && left.empty()) ahead = first;
      const auto known = there.find(variable);
      const int updated = first < run.end ? behind_update(variable, first) : 0;
      int since = known != there.end() ? known->second : -1;
      if (since < updated) gather(variable, since = std::max(ahead, updated));
      for (int read = first; read < run.end; read = first_read(variable, read + 1, run.end)) {
        if (behind_update(variable, read) > since) gather(variable, since = read);
      }
      if (run.is_whole) ahead = first;
      left[variable] = since;
    }
    return left;
  }

  void gather(NodeId variable, int place) {
    const Value gathered = gathered_of(graph_.graph().node(variable).output());
    gathers_.push_back(
        {.place = place, .turn = 1, .instruction = {.kind = StepKind::compute, .node = gathered.node().id()}});
  }

  const InstructionList& list_;
  const ConcreteGraph& graph_;
  std::map<NodeId, std::vector<int>> reads_, updates_;  // by variable, in the order of the list
  std::vector<Run> runs_;
  std::set<std::pair<GroupId, NodeId>> forward_reads_;  // by section and variable
  std::vector<Insertion> gathers_;
};

}  // namespace

InstructionList insert_gathers(const InstructionList& list, const ConcreteGraph& graph) {
  return with_insertions(list, Gathers(list, graph).find());
}

bool is_gather(const Instruction& instruction, const ConcreteGraph& graph) {
  return instruction.kind == StepKind::compute && gives_variable(graph.graph().node(instruction.node));
}

}  // namespace sectionflow
