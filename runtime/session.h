#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "device/algorithm_choices.h"
#include "device/device_spec.h"
#include "device/memory_limit.h"
#include "graph/graph.h"
#include "runtime/feeds.h"
#include "runtime/fetch_structure.h"
#include "runtime/trace.h"
#include "schedule/report.h"

namespace SF_API sectionflow {

class Communicator;
class Engine;

/// The device, the budget and the randomness of a session, and what it checks.
struct SessionOptions {
  DeviceSpec device = cpu();
  /// Hard limit on all bytes that are allocated on the device: variables, activations, gradients, feeds, fetches,
  /// scratch. 0: all memory of the device; 90_percent: of what it has free when the session is made.
  MemoryLimit device_memory = 0;
  /// Hard limit on the bytes that lie in host memory: offloaded tensors, what is on its way to or from the disk, and
  /// what is lent. 0: all memory of the machine. Feeds and fetches are the caller's and do not count.
  std::size_t host_memory = 0;
  /// Of host_memory so much at most is lent to batches (Trainer, batch_memory()), as they come to need it and as far as
  /// no program does; pinned where the device is a GPU, which then copies from it by itself. 0: nothing is lent. Not
  /// said: 1 GiB on a GPU, and nothing on the CPU, where a batch is copied once wherever it lies.
  std::optional<std::size_t> lent_memory{};
  /// Size of the swap file, all taken when a program first needs it; 0: nothing goes to disk.
  std::size_t disk = 0;
  /// Where the swap file is made; empty: the system's folder for temporary files. It has no name there, mode 0600, and
  /// is gone with the session.
  std::string swap_directory{};
  /// Host memory is the home tier of the variables (parameters, optimiser slots, running statistics): they come to the
  /// device only for the operations that use them, and what has been updated is copied back. They then count as host
  /// memory. With a disk, that is the home tier of those that host_memory has no room for (docs/swapping.md).
  bool swap_variables = false;
  /// Copies between device and host by a thread for each direction, beside the compute team. Pays where a core is
  /// free, that is with `threads` below the number of cores; otherwise the team carries them itself. A GPU always
  /// copies beside its kernels.
  bool copy_threads = false;
  /// CPU: holds copies down to this many bytes a second in each direction, as a bus would; 0: as fast as they go.
  double link_bandwidth = 0;
  /// Testing: every step that others wait for is delayed at random by this seed, so that missing waits show; 0: none.
  std::uint64_t random_delays = 0;
  /// On a GPU: a cycle that is executed again is launched as a whole, from a recording (a CUDA graph); cycles that use
  /// the disk, and those that the GPU refuses to record, are not. The same bits either way.
  bool record_cycles = true;
  /// Host memory that compiled programs may take, one for each fetches and feed signature; beyond it those go whose
  /// last use is longest ago, and are compiled again when they are wanted. The latest and that of a pending forward
  /// half always stay, so that 0 keeps these alone. Estimated: the bytes that libraries take are theirs to know.
  std::size_t program_memory = std::size_t{256} << 20;
  /// Compute threads; 0: every core that the process may use. Results are the same bits only for the same number. At
  /// most OpenMP's limit (OMP_THREAD_LIMIT); Session::threads() tells. Of more than one, calls from inside a parallel
  /// region of OpenMP are refused.
  int threads = 0;
  /// Of all random numbers: initial values and random operations.
  std::uint64_t seed = 0;
  /// Trains with as many ranks as it has, whose sessions are made alike and make the same calls; updates say how many
  /// (UpdateOptions::ranks, docs/many_devices.md). Budgets, and where tensors are kept, may differ from rank to rank.
  std::shared_ptr<Communicator> communicator{};
  /// Debugging: guard bytes behind every buffer, NaN into every buffer when it begins and ends. Slow, and needs more
  /// memory.
  bool poison = false;
  /// Verify every compiled program by the independent checker.
  bool check_schedules = false;
  /// Refuse feeds that hold NaN or infinity, before anything runs. Reads every float feed once more. Integers are not
  /// checked: a label outside the classes gives a NaN loss (softmax_cross_entropy).
  bool check_feeds = false;
};

/// What a run executes besides its fetches.
struct RunOptions {
  std::vector<Operation> targets{};  ///< executed for their effect: updates, groups
};

/// What is refused in the results of operations while it is looked for (Session::set_value_checks).
struct ValueChecks {
  bool nan = false;
  bool infinity = false;

  bool any() const { return nan || infinity; }
};

/// Figures of a session's device memory, by the names that users of TensorFlow Large Model Support know.
struct Statistics {
  std::int64_t num_allocs = 0;        ///< buffers begun
  std::size_t bytes_in_use = 0;       ///< now: variables, and border tensors of a pending forward half
  std::size_t peak_bytes_in_use = 0;  ///< highest end of any buffer since the last clearing
  std::size_t largest_alloc_size = 0;
  std::size_t bytes_limit = 0;     ///< the budget
  std::size_t bytes_reserved = 0;  ///< the arena: the budget too
  std::size_t peak_bytes_reserved = 0;
  std::size_t bytes_reservable_limit = 0;
  std::size_t bytes_active = 0;  ///< in use less inactive; nothing is ever inactive in a planned arena
  std::size_t peak_bytes_active = 0;
  std::size_t bytes_inactive = 0;
  std::size_t bytes_reclaimed = 0;  ///< moved to the host to free device memory
  std::int64_t num_single_reclaims = 0;
  std::int64_t num_full_reclaims = 0;
  std::size_t context_bytes = 0;            ///< beside the budget: see ProgramReport::context_bytes
  std::size_t planned_peak_bytes = 0;       ///< of the last program executed
  std::size_t measured_peak_bytes = 0;      ///< of the last program executed while measuring; 0 if none was
  std::size_t planned_host_peak_bytes = 0;  ///< the same for host memory
  std::size_t measured_host_peak_bytes = 0;
  std::size_t planned_disk_peak_bytes = 0;  ///< and on disk
  std::size_t measured_disk_peak_bytes = 0;
  std::int64_t programs_kept = 0;       ///< compiled, one for each fetches and signature, and still there
  std::size_t program_bytes = 0;        ///< host memory that these take: see SessionOptions::program_memory
  std::int64_t programs_evicted = 0;    ///< that had to go to make room for others
  std::int64_t programs_replanned = 0;  ///< in the place of others, by FitBudgetOptions::replan
};

/// A device, its memory budget and the variables' values; runs programs of one graph.
///
/// Threads: one at a time; a second that comes in is refused. A call that throws before its first update has changed
/// nothing: no variable, no counter. The graph must outlive it. Variables and optimisers must be in the graph before
/// initialize(); other nodes may be added at any time.
class Session {
 public:
  /// Throws: DeviceError, ArgumentError.
  explicit Session(Graph& graph, SessionOptions options = {}, Where where = Where::here());
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Gives every variable its initial value, and sets the cycle counter to 0.
  /// Throws: BudgetError when the variables do not fit; ArgumentError while a forward half is pending. Values from
  /// before are then still there.
  void initialize(Where where = Where::here());

  /// Runs the whole graph as far as `fetches` and `options.targets` need it. A fetched variable gives its value from
  /// before the run's updates. `fetches` may be nested (fetch_structure.h); the result has the same shape.
  /// Throws, before anything runs or changes: ArgumentError, ShapeError for feeds that do not fit; BudgetError.
  template <class Fetches>
  Fetched<Fetches> run(const Fetches& fetches, const Feeds& feeds = {}, const RunOptions& options = {},
                       Where where = Where::here()) {
    return rebuild_fetches(fetches, run_flat(flatten_fetches(fetches), feeds, options, where));
  }
  template <std::size_t Count>
  std::array<HostTensor, Count> run(const Value (&fetches)[Count], const Feeds& feeds = {},
                                    const RunOptions& options = {}, Where where = Where::here()) {
    return run(fetch_array(fetches), feeds, options, where);
  }
  /// Runs for the targets' effect alone.
  void run(const Feeds& feeds, const RunOptions& options, Where where = Where::here()) {
    run_flat({}, feeds, options, where);
  }

  /// Compiles without running: needs no budget and no initialised variables.
  ProgramReport plan(const std::vector<Value>& fetches, const FeedTypes& feeds = {}, const RunOptions& options = {},
                     Where where = Where::here());

  /// The value of a variable. Throws: ArgumentError for other values, and before initialize().
  HostTensor read(Value variable, Where where = Where::here());
  /// Sets a variable. Throws: as read; ShapeError or ArgumentError when the type differs.
  void write(Value variable, const HostTensor& tensor, Where where = Where::here());

  const Graph& graph() const;
  const SessionOptions& options() const;
  /// Of device memory.
  std::size_t budget_bytes() const;
  const TierBudgets& budgets() const;
  /// Device memory that is taken beside the budget now: by a GPU's context, libraries and recordings, and by other
  /// programs. Statistics and reports have it as of the last program that came to its place.
  std::size_t context_bytes() const;
  /// The algorithms of libraries that kernels of this session run, with those that it was given. save_variables writes
  /// them, load_variables gives them.
  const AlgorithmChoices& algorithm_choices() const;
  /// Has these algorithms run where this process has not yet chosen another for the problem. What is in use stays, and
  /// so does what the library does not offer; the log says of how many. Give them before anything is planned.
  void use_algorithms(const AlgorithmChoices& choices);
  /// "cpu (2 threads)"
  std::string device_name() const;
  int threads() const;
  /// Training cycles completed since initialize(), or since the count that set_completed_cycles has given. Evaluation
  /// does not count.
  std::uint64_t completed_cycles() const;
  /// Goes on from a run that had completed so many training cycles: random operations, such as dropout, draw by the
  /// seed and this number. load_variables calls it. Throws: ArgumentError before initialize(), and while a forward half
  /// is pending.
  void set_completed_cycles(std::uint64_t cycles, Where where = Where::here());
  /// How often a node has been executed or fed since initialize().
  std::int64_t executions(const Node& node) const;

  const Statistics& statistics() const;
  /// Cumulative figures to 0, peaks to what is in use now.
  void clear_statistics();

  /// While on, every execution fills the planned region with a canary first and afterwards finds out how far it was
  /// written: Statistics::measured_peak_bytes. Costs a write and a read of the region. Of a cycle that is run by halves
  /// it is found out where this is on for both.
  void set_measuring(bool on);
  /// Debugging: from here on every floating point result of an operation, and every variable that it has updated, is
  /// looked at as soon as it is there (but for what another one shows, such as a momentum that moves its variable, and
  /// for what is computed again within the cycle), and the first that holds what is refused ends the run with an
  /// ArgumentError (SF-E605) that names operation, section, tensor and element, and tells what the operation was given.
  /// So it also finds labels and indices outside of their range, which give NaN. Costs a reading of each result; on a
  /// GPU a wait and a copy to the host as well. Nothing while it is off. Found behind the first update of a cycle, such
  /// as that of a moving average, it leaves the session torn, as any failure there.
  void set_value_checks(const ValueChecks& checks);
  /// What is refused now.
  const ValueChecks& value_checks() const;
  /// While set, every executed step is added. The trace must outlive its use.
  void set_trace(Trace* trace);

 private:
  friend Engine& engine(Session& session);
  friend const Engine& engine(const Session& session);

  std::vector<HostTensor> run_flat(const std::vector<Value>& fetches, const Feeds& feeds, const RunOptions& options,
                                   Where where);

  std::unique_ptr<Engine> engine_;
};

}  // namespace sectionflow
