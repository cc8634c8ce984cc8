#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "schedule/concrete_graph.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// What a program is asked for, and by what it differs from others that are asked for the same. Names are as
/// plain_text gives them.
struct ProgramFacts {
  std::string fingerprint{};                   ///< WrittenList::fingerprint
  std::vector<std::string> fetches{};          ///< names, in the caller's order
  int updates = 0;                             ///< nodes that change variables
  int nodes = 0;                               ///< that are fed or executed
  std::string operations{};                    ///< hash of what these are, in whatever order
  std::map<std::string, std::string> feeds{};  ///< names, and types such as "f32[100,28,28,1]"

  bool asks_for_the_same(const ProgramFacts& other) const {
    return fetches == other.fetches && updates == other.updates;
  }
  /// "'loss' with 31 updates"
  std::string name() const;
  /// "images f32[100,28,28,1], labels i32[100]"
  std::string feeds_text() const;
};

/// One instruction of a planned list, told by the list that was written for the program.
struct PlannedInstruction {
  int written = -1;                ///< which of the written list it executes; -1: none
  StepKind kind = StepKind::hold;  ///< of none: a hold, or a copy of an offload that the planner has added
  int value = -1;                  ///< that it holds or copies: a number of WrittenList
  int offload = -1;                ///< as Instruction::offload
  int pass = 0;
  bool replay = false;
  int part = 0, parts = 1;  ///< as Instruction's

  friend bool operator==(const PlannedInstruction&, const PlannedInstruction&) = default;
};

/// What a planner has made of a program.
struct ProgramPlan {
  ProgramFacts facts{};
  std::size_t device_peak = 0, host_peak = 0, disk_peak = 0;  ///< where it was planned, variables included
  std::vector<std::string> notes{};                           ///< for people
  int half = 0;                                               ///< as InstructionList::half
  std::vector<PlannedInstruction> instructions{};
};

/// Of a number that is not below 0.
inline std::size_t as_index(int number) {
  return static_cast<std::size_t>(number);
}

/// The list that was written for a program, as plans of it refer to it: instructions by their places, values by
/// numbers, in the order in which the list makes them. So a plan knows no numbers of nodes, and fits every graph of
/// which the same operations on the same types are executed for the program.
class WrittenList {
 public:
  /// Both must outlive this.
  WrittenList(const InstructionList& list, const ConcreteGraph& graph);

  ProgramFacts facts() const;
  const InstructionList& list() const { return list_; }
  /// That it reads or changes, in the order in which it meets them.
  std::vector<NodeId> variables() const;

  /// Says `planned`, a planner's list for the program, by this one. Throws: InternalError for what it cannot say.
  void describe(const InstructionList& planned, ProgramPlan& plan) const;

  /// The list that was described. The plan may be anybody's: what comes back executes what this list executes, each as
  /// often as it may be, with the variables as they are here, in an order in which updates and control edges allow it,
  /// and copies nothing but values of this list. Whether what it reads is there is for lower_instructions to say.
  /// Throws: DataError, which `where` begins, for a plan of which that cannot be had.
  InstructionList list_of(const ProgramPlan& plan, const std::string& where) const;

 private:
  /// Of the structure: what is executed on which types, in which order, reading what.
  std::string fingerprint() const;
  void add_values(const Value& first, const std::vector<Value>& others);
  Instruction instruction_of(const PlannedInstruction& planned) const;

  const InstructionList& list_;
  const ConcreteGraph& graph_;
  std::vector<Value> values_;
  std::map<Value, int> numbers_;  // of values
};

}  // namespace sectionflow
