#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "schedule/feeds_ahead.h"
#include "schedule/liveness.h"
#include "schedule/planning_tools.h"
#include "schedule/prepare_kernels.h"
#include "schedule/program_digest.h"
#include "schedule/report.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// Bytes behind every storage in poison mode.
inline constexpr std::size_t kPoisonGuardBytes = 64;

/// One compiled schedule: written once per (fetches, feed signature), then replayed.
struct Program {
  Schedule schedule;
  std::vector<std::unique_ptr<Kernel>> kernels;
  StorageAssignment storage;
  MemoryPlan plan;
  ProgramReport report;
  FeedsAhead feeds_ahead;
  std::size_t transient_offset = 0;     ///< of the planned region in the arena
  std::size_t host_offset = 0;          ///< of the planned region in the pool of host memory
  std::size_t disk_offset = 0;          ///< of the planned region in the swap file
  int variable_layout = 0;              ///< which of its session's layouts of variables it is for
  bool advances_cycle = false;          ///< completing it completes a training cycle
  int ranks = 0;                        ///< that execute it together; 0: it neither trains nor communicates
  std::optional<NodeId> micro_batch;    ///< the variable that counts the micro-batches of which it takes one
  std::vector<std::vector<int>> dying;  ///< poison mode: storages whose life ends with each step
  Signature signature;
  /// What its writer wrote, before an editor of instruction lists changed it: other budgets are planned from there.
  InstructionList written;
  std::uint64_t number = 0;      ///< among all that its session has compiled
  std::uint64_t generation = 0;  ///< of the graph then (Graph::generation)
  ProgramDigest digest;
};

/// The budgets a program is compiled for, who carries its copies, and what is checked besides.
struct CompileOptions {
  TierBudgets budgets;
  CopyCarrier carrier = CopyCarrier::team;
  double link_bandwidth = 0;  ///< bytes a second and direction; 0: unlimited
  bool poison = false;
  bool check = false;  ///< run check_schedule on the result
  /// For tests that plant faults: edits the schedule before it is planned. A program so edited is not checked.
  std::function<void(Schedule&)> edit_schedule;
};

/// What the forward half of a cycle leaves in memory for a program that executes the backward half in place of its own.
std::vector<EntryValue> left_by_forward_half(const Program& forward);

/// Writes the instruction list of a program; may draft as many as it likes.
using InstructionWriter = std::function<InstructionList(PlanningTools&)>;

/// InstructionList -> schedule -> kernels -> storages -> offsets -> waits. Never throws BudgetError: the report says
/// whether it fits. Throws: ArgumentError (SF-E036) where ranks that train together would not do the same.
Program compile_program(const ConcreteGraph& graph, const InstructionWriter& writer, std::size_t num_fetches,
                        const VariableLayout& variables, Device& device, const CompileOptions& options);

}  // namespace sectionflow
