#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "runtime/executable.h"
#include "runtime/queue_program.h"
#include "runtime/session.h"
#include "runtime/step_events.h"
#include "runtime/swap_engine.h"
#include "runtime/trace.h"

namespace sectionflow {

class Communicator;
class LentMemory;
class NextFeeds;

/// What one execution of a program needs from outside.
struct ExecutionContext {
  Device& device;
  const Graph& graph;
  std::byte* region = nullptr;              ///< the planned region, for poison
  std::span<const std::byte* const> feeds;  ///< one an entry of Schedule::feeds
  std::span<std::byte* const> fetches;      ///< one an entry of Schedule::fetches
  SwapEngine* swaps = nullptr;              ///< carries bytes between tiers; needed by programs that do
  QueueProgram* queue = nullptr;            ///< on a device with queues
  const LentMemory* lent = nullptr;         ///< feeds that lie here need no staging
  NextFeeds* next = nullptr;                ///< what is known of the next execution's, on such a device
  bool record = false;                      ///< on a device with queues: launch a recording where that can be
  std::uint64_t seed = 0;
  std::uint64_t cycle = 0;
  std::span<std::int64_t> executions;  ///< one a node, counted up
  std::span<double> pass_seconds;      ///< one a pass, set
  Trace* trace = nullptr;
  const StepEvents* events = nullptr;  ///< of the program; needed for a trace
  bool log_passes = false;
  bool log_pass_times = false;
  bool poison = false;
  Communicator* communicator = nullptr;  ///< of the ranks; needed by programs that communicate
  bool measuring = false;                ///< every byte of the plan is written, so that it can be found
  ValueChecks checks{};                  ///< what is refused in the results of operations
  bool updates_started = false;          ///< set once a variable may have changed
};

/// Executes steps [first, last) of a bound program: the compute lane on the calling thread, the others beside it, each
/// step when those it waits for are over. No policy, no allocation. In poison mode all lanes run on the calling thread,
/// in the order of the list. On a device with queues the calling thread gives the steps to the queues, with events
/// between them, or launches the recording of an earlier execution; only the disk's lanes have threads. All work is
/// done when it returns. Throws: InternalError when a kernel has written past its scratch, or, in poison mode, past its
/// storage; ArgumentError for results that `checks` refuses, and for assertions that do not hold; what the swap engine
/// and the communicator throw. Then no lane is running any more, and where ranks communicate the others are told.
void execute(Executable& program, StepIndex first, StepIndex last, ExecutionContext& context);

/// Within a catch: tells the other ranks what was caught, so that they do not wait for this one.
void fail_ranks(Communicator& communicator) noexcept;

}  // namespace sectionflow
