#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/liveness.h"
#include "runtime/planning_tools.h"
#include "runtime/prepare_kernels.h"
#include "runtime/report.h"
#include "runtime/schedule.h"

namespace SF_API sectionflow {

class QueueProgram;

/// Bytes behind every storage in poison mode.
inline constexpr std::size_t kPoisonGuardBytes = 64;

/// A step with every pointer worked out.
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
  std::size_t bytes = 0;        ///< a copy's
  std::size_t disk_offset = 0;  ///< disk_write, disk_read
  int place_in_lane = 0;        ///< steps of its lane that come before it
};

/// A node by its number, and which of all that ever had the number: none by itself.
struct NodeStamp {
  NodeId id = -1;
  std::uint64_t serial = 0;

  /// Whether the node, and with it every older one, is still in the graph.
  bool is_in(const Graph& graph) const {
    return id < 0 || (id < graph.num_nodes() && graph.node(id).serial() == serial);
  }
};

/// One compiled schedule: written once per (fetches, feed signature), then replayed.
struct Program {
  Program();
  ~Program();
  Program(Program&&) noexcept;

  Schedule schedule;
  std::vector<std::unique_ptr<Kernel>> kernels;
  StorageAssignment storage;
  MemoryPlan plan;
  ProgramReport report;
  std::size_t transient_offset = 0;     ///< of the planned region in the arena
  std::size_t host_offset = 0;          ///< of the planned region in the pool of host memory
  bool advances_cycle = false;          ///< completing it completes a training cycle
  std::vector<BoundStep> bound;         ///< one a step, once the program is bound to an arena
  std::unique_ptr<QueueProgram> queue;  ///< on a device with queues, once it is played
  std::vector<std::vector<int>> dying;  ///< poison mode: storages whose life ends with each step
  Signature signature;
  NodeStamp newest{};  ///< of the nodes that it knows
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

/// Writes the script of a program; may draft as many as it likes.
using ScriptWriter = std::function<Script(PlanningTools&)>;

/// Script -> schedule -> kernels -> storages -> offsets -> waits. Never throws BudgetError: the report says whether it
/// fits.
std::unique_ptr<Program> compile_program(const ConcreteGraph& graph, const ScriptWriter& writer,
                                         std::size_t num_fetches, const VariableLayout& variables, Device& device,
                                         const CompileOptions& options);

/// Works out every pointer of the program in an arena that starts at `base`, and a pool of host memory at `host`.
void bind_program(Program& program, const Graph& graph, const VariableLayout& variables, std::byte* base,
                  std::byte* host);

}  // namespace sectionflow
