#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/liveness.h"
#include "runtime/prepare_kernels.h"
#include "runtime/report.h"
#include "runtime/schedule.h"

namespace SF_API sectionflow {

/// Bytes behind every storage in poison mode.
inline constexpr std::size_t kPoisonGuardBytes = 64;

/// A compute step with every pointer worked out.
struct BoundStep {
  Kernel* kernel = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<void*> updated;
  std::byte* workspace = nullptr;
  std::byte* workspace_guard = nullptr;  ///< the bytes behind the scratch, up to the end of its buffer
  std::size_t workspace_guard_bytes = 0;
  std::uint32_t random_ordinal = 0;
  bool is_update = false;
};

/// Where the variables lie in the arena, by node.
struct VariableLayout {
  std::vector<std::size_t> offsets;  ///< indexed by node; kAbsent for other nodes
  std::size_t end_bytes = 0;         ///< end of the last variable
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
};

/// One compiled schedule: written once per (fetches, feed signature), then replayed.
struct Program {
  Schedule schedule;
  std::vector<std::unique_ptr<Kernel>> kernels;
  StorageAssignment storage;
  MemoryPlan plan;
  ProgramReport report;
  std::size_t transient_offset = 0;     ///< of the planned region in the arena
  bool advances_cycle = false;          ///< completing it completes a training cycle
  std::vector<BoundStep> bound;         ///< one a step, once the program is bound to an arena
  std::vector<std::vector<int>> dying;  ///< poison mode: storages whose life ends with each step
  Signature signature;
};

/// The budget a program is compiled for, and what is checked besides.
struct CompileOptions {
  std::size_t budget_bytes = 0;
  bool poison = false;
  bool check = false;  ///< run check_schedule on the result
  /// For tests that plant faults: edits the schedule before it is planned. A program so edited is not checked.
  std::function<void(Schedule&)> edit_schedule;
};

/// Script -> schedule -> kernels -> storages -> offsets. Never throws BudgetError: the report says whether it fits.
std::unique_ptr<Program> compile_program(const ConcreteGraph& graph, const Script& script, std::size_t num_fetches,
                                         const VariableLayout& variables, Device& device,
                                         const CompileOptions& options);

/// Works out every pointer of the program in an arena that starts at `base`.
void bind_program(Program& program, const Graph& graph, const VariableLayout& variables, std::byte* base);

}  // namespace sectionflow
