#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/export.h"
#include "schedule/program.h"

namespace SF_API sectionflow {

class QueueProgram;

/// A step with every pointer worked out.
struct BoundStep {
  Kernel* kernel = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<void*> updated;
  std::byte* workspace = nullptr;
  std::byte* workspace_guard = nullptr;  ///< the bytes behind the scratch (guarded_scratch)
  std::size_t workspace_guard_bytes = 0;
  std::uint32_t random_ordinal = 0;
  bool is_update = false;
  std::size_t bytes = 0;        ///< a copy's
  std::size_t disk_offset = 0;  ///< disk_write, disk_read: in the swap file
  /// disk_read: what it reads has no value yet, and the step that reads the value after it gives it its first.
  bool is_before_first_value = false;
  int place_in_lane = 0;  ///< steps of its lane that come before it
};

/// A program with what its execution adds to it.
struct Executable : Program {
  explicit Executable(Program&& program);
  ~Executable();
  Executable(Executable&&) noexcept;

  std::vector<BoundStep> bound;         ///< one a step, once the program is bound to an arena
  std::unique_ptr<QueueProgram> queue;  ///< on a device with queues, once it is executed
  std::uint64_t agreed = 0;  ///< all ranks are known to execute the same: a number that tells what; 0: not yet
  int layout_then = 0;       ///< where the variables were when it was compiled (VariableHomes::number); -1: where first
                             ///< values brought them
  bool update_can_end = false;  ///< the programs of the other micro-batches of an update are known to fit
  std::any planner_note;        ///< of its session's planner
};

/// Works out every pointer of the program in an arena that starts at `base`, and a pool of host memory at `host`.
void bind_program(Executable& program, const Graph& graph, const VariableLayout& variables, std::byte* base,
                  std::byte* host);

}  // namespace sectionflow
