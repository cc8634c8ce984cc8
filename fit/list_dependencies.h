#pragma once

#include <map>
#include <set>
#include <vector>

#include "schedule/concrete_graph.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// The instructions that each one of a list must follow, by their places: what makes what it reads, updates of
/// variables and their readers, control edges, prints among themselves, and so what
/// communicates. Everything stands in the list once.
class ListDependencies {
 public:
  /// Both must outlive this.
  ListDependencies(const InstructionList& list, const ConcreteGraph& graph);

  const std::set<int>& before(int place) const { return before_[static_cast<std::size_t>(place)]; }
  /// The place of what makes a value; -1 where it is a variable.
  int maker(Value value) const;

 private:
  struct Variable {
    std::vector<int> readers;  // since its latest update
    int update = -1;
  };

  void add(int place);
  void read(int place, Value value);
  void update(int place, NodeId variable);

  const InstructionList& list_;
  const ConcreteGraph& graph_;
  std::vector<std::set<int>> before_;
  std::map<NodeId, int> place_of_;
  std::map<NodeId, Variable> variables_;
  int last_print_ = -1;
  int last_communication_ = -1;
  int last_assertion_ = -1;
};

}  // namespace sectionflow
