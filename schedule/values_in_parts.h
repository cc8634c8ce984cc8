#pragma once

#include <map>
#include <set>

#include "schedule/concrete_graph.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// Which values of an instruction list are never there as a whole: each part of them is read by nothing but the part of
/// its own number of other nodes of its strip (strips_of).
class ValuesInParts {
 public:
  /// Throws: InternalError for an instruction whose node does not run in so many parts.
  ValuesInParts(const InstructionList& list, const ConcreteGraph& graph);

  bool contains(Value value) const;

 private:
  struct Made {
    int parts = 1, strip = -1;
  };

  void add(const Instruction& instruction, int strip);
  void make(Value value, Made made);
  void read(Value value, Made reader, PartUse use);
  Value named(Value value) const;

  const ConcreteGraph& graph_;
  std::map<Value, Value> other_names_;  // of values that nodes which are identities name again: the first name
  std::map<Value, Made> made_;          // how values were made last
  std::set<Value> whole_;               // of these, by first names
};

}  // namespace sectionflow
