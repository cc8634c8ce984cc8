#pragma once

#include <map>
#include <set>
#include <vector>

#include "schedule/schedule.h"
#include "sections/section_map.h"

namespace sectionflow {

/// An instruction list of a cycle read as runs of sections: which run each instruction belongs to, and who reads each
/// tensor. A tensor goes by the value that was computed; what an identity node makes of it is another name of the same
/// tensor.
class CycleView {
 public:
  /// A stretch of instructions of one section on one side of the cycle, in the order of time.
  struct Run {
    SectionIndex section = 0;
    bool is_forward = false;
    int first_instruction = 0;
  };

  /// `groups`: of the sections, in order.
  CycleView(const InstructionList& list, const ConcreteGraph& graph, const std::vector<GroupId>& groups);

  /// All runs, first to last.
  const std::vector<Run>& runs() const { return runs_; }
  /// Index of the run of an instruction.
  int run_of(int instruction) const { return run_of_instruction_.at(static_cast<std::size_t>(instruction)); }
  /// The run of an instruction.
  const Run& run_at(int instruction) const { return runs_[static_cast<std::size_t>(run_of(instruction))]; }
  /// The section in which the value was made; kOutside for none.
  SectionIndex section_of(Value value) const;
  /// The tensor that the value is a name of.
  Value tensor_of(Value value) const;
  /// All names of a tensor, its own included.
  std::vector<Value> names_of(Value tensor) const;
  /// Whether others than the section that made the tensor read it.
  bool is_border(Value tensor) const;
  /// The first instruction that reads the tensor or gives it another name, or -1.
  int first_use(Value tensor) const;

 private:
  void add_names(const InstructionList& list, const ConcreteGraph& graph);
  void add_readers(const InstructionList& list, const ConcreteGraph& graph);

  std::map<GroupId, SectionIndex> section_of_group_;
  std::vector<Run> runs_;
  std::vector<int> run_of_instruction_;
  std::map<Value, Value> tensor_of_;           // by names that are not the tensor's own
  std::map<Value, std::vector<Value>> names_;  // by tensor, its own not among them
  std::map<Value, std::set<SectionIndex>> readers_;
  std::map<Value, int> first_use_;
};

}  // namespace sectionflow
