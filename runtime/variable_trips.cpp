#include "runtime/variable_trips.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Lines between two uses across which a variable stays.
constexpr int kNearLines = 4;
/// Lines before its first use at which a variable comes where a thread of its own copies it.
constexpr int kAheadLines = 3;

/// A line that uses a variable.
struct Use {
  int line;
  bool updates;
};

std::map<NodeId, std::vector<Use>> uses_of_variables(const Script& script, const ConcreteGraph& graph,
                                                     const std::function<bool(NodeId)>& is_at_home) {
  std::map<NodeId, std::vector<Use>> uses;
  const auto add = [&](Value value, int line, bool updates) {
    if (!is_variable(value) || !is_at_home(value.node().id())) return;
    auto& of_variable = uses[value.node().id()];
    if (of_variable.empty() || of_variable.back().line != line) of_variable.push_back({line, false});
    of_variable.back().updates = of_variable.back().updates || updates;
  };
  for (int i = 0; i < static_cast<int>(script.lines.size()); ++i) {
    const ScriptLine& line = script.lines[static_cast<std::size_t>(i)];
    if (line.kind == StepKind::fetch || line.kind == StepKind::hold) add(line.fetched, i, false);
    if (line.kind != StepKind::compute) continue;
    const Node& node = graph.graph().node(line.node);
    for (const Value& value : graph.reads(line.node)) add(value, i, false);
    for (int index : node.op().updated_inputs) add(node.inputs()[static_cast<std::size_t>(index)], i, true);
  }
  return uses;
}

}  // namespace

std::vector<VariableTrip> variable_trips(const Script& script, const ConcreteGraph& graph,
                                         const std::function<bool(NodeId)>& is_at_home, CopyCarrier carrier) {
  std::vector<VariableTrip> trips;
  const auto pass_of = [&](int line) { return script.lines[static_cast<std::size_t>(line)].pass; };
  for (const auto& [variable, uses] : uses_of_variables(script, graph, is_at_home)) {
    int free_from = 0;  // the line before which the last stay has ended
    for (std::size_t begin = 0; begin < uses.size();) {
      std::size_t end = begin + 1;
      const int pass = pass_of(uses[begin].line);
      while (end < uses.size() && uses[end].line - uses[end - 1].line <= kNearLines &&
             pass_of(uses[end].line) == pass) {
        ++end;
      }
      int comes = uses[begin].line;
      for (int ahead = 0; carrier == CopyCarrier::threads && ahead < kAheadLines; ++ahead) {
        if (comes > free_from && pass_of(comes - 1) == pass) --comes;
      }
      trips.push_back({variable, comes, true});
      free_from = uses[end - 1].line + 1;
      const bool changed =
          std::any_of(uses.begin() + static_cast<std::ptrdiff_t>(begin),
                      uses.begin() + static_cast<std::ptrdiff_t>(end), [](const Use& use) { return use.updates; });
      if (changed) trips.push_back({variable, free_from, false});
      begin = end;
    }
  }
  std::stable_sort(trips.begin(), trips.end(), [](const VariableTrip& a, const VariableTrip& b) {
    return a.line != b.line ? a.line < b.line : a.comes < b.comes;
  });
  return trips;
}

}  // namespace sectionflow
