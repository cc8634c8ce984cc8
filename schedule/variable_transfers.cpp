#include "schedule/variable_transfers.h"

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

/// A variable comes to the device before a line of the script, or goes back home.
struct VariableTransfer {
  Value variable;
  int line = 0;
  bool comes = true;
};

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

/// In the order of the lines; what goes home before what comes.
std::vector<VariableTransfer> variable_transfers(const Script& script, const ConcreteGraph& graph,
                                                 const std::function<bool(NodeId)>& is_at_home, CopyCarrier carrier) {
  std::vector<VariableTransfer> transfers;
  const auto pass_of = [&](int line) { return script.lines[static_cast<std::size_t>(line)].pass; };
  for (const auto& [id, uses] : uses_of_variables(script, graph, is_at_home)) {
    const Value variable = graph.graph().node(id).output();
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
      transfers.push_back({variable, comes, true});
      free_from = uses[end - 1].line + 1;
      const bool changed =
          std::any_of(uses.begin() + static_cast<std::ptrdiff_t>(begin),
                      uses.begin() + static_cast<std::ptrdiff_t>(end), [](const Use& use) { return use.updates; });
      if (changed) transfers.push_back({variable, free_from, false});
      begin = end;
    }
  }
  std::stable_sort(transfers.begin(), transfers.end(), [](const VariableTransfer& a, const VariableTransfer& b) {
    return a.line != b.line ? a.line < b.line : a.comes < b.comes;
  });
  return transfers;
}

}  // namespace

Script insert_variable_transfers(const Script& script, const ConcreteGraph& graph,
                                 const std::function<bool(NodeId)>& is_at_home, CopyCarrier carrier) {
  const std::vector<VariableTransfer> transfers = variable_transfers(script, graph, is_at_home, carrier);
  Script result{.passes = script.passes, .lines = {}, .entries = script.entries, .half = 0};
  const auto num_lines = static_cast<int>(script.lines.size());
  const int half = std::min(script.half, num_lines);
  auto next = transfers.begin();
  for (int i = 0; i <= num_lines; ++i) {
    if (i == half) result.half = static_cast<int>(result.lines.size());
    for (; next != transfers.end() && next->line == i; ++next) {
      const int beside = next->comes ? i : i - 1;
      result.lines.push_back({.kind = next->comes ? StepKind::copy_in : StepKind::copy_out,
                              .node = next->variable.node().id(),
                              .fetched = next->variable,
                              .pass = script.lines[static_cast<std::size_t>(beside)].pass});
      // What the forward half has changed goes home with it.
      if (!next->comes && i == half) result.half = static_cast<int>(result.lines.size());
    }
    if (i < num_lines) result.lines.push_back(script.lines[static_cast<std::size_t>(i)]);
  }
  return result;
}

bool is_variable_transfer(const ScriptLine& line) {
  return (line.kind == StepKind::copy_in || line.kind == StepKind::copy_out) && line.rest < 0 &&
         is_variable(line.fetched);
}

}  // namespace sectionflow
