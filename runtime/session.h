#pragma once

#include <any>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/one_at_a_time.h"
#include "device/device.h"
#include "device/memory_limit.h"
#include "graph/graph.h"
#include "runtime/arena.h"
#include "runtime/feeds.h"
#include "runtime/fetch_structure.h"
#include "runtime/program_cache.h"
#include "runtime/statistics.h"
#include "runtime/trace.h"
#include "schedule/build_schedule.h"
#include "schedule/program.h"
#include "schedule/report.h"

namespace SF_API sectionflow {

class SwapEngine;
struct DiskCalls;

/// The device, the budget and the randomness of a session, and what it checks.
struct SessionOptions {
  DeviceSpec device = cpu();
  /// Hard limit on all bytes that are allocated on the device: variables, activations, gradients, feeds, fetches,
  /// scratch. 0: all memory of the device; 90_percent: of what it has free when the session is made.
  MemoryLimit device_memory = 0;
  /// Hard limit on the bytes that lie in host memory: offloaded tensors, and what is on its way to or from the disk.
  /// 0: all memory of the machine. Feeds and fetches are the caller's and do not count.
  std::size_t host_memory = 0;
  /// Size of the swap file, all taken when a program first needs it; 0: nothing is offloaded to disk.
  std::size_t disk = 0;
  /// Where the swap file is made; empty: the system's folder for temporary files. It has no name there, mode 0600, and
  /// is gone with the session.
  std::string swap_directory{};
  /// Host memory is the home tier of the variables (parameters, optimiser slots, running statistics): they come to the
  /// device only for the operations that use them, and what has been updated is copied back. They then count as host
  /// memory.
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

/// How one execution is logged.
struct ExecuteOptions {
  bool log_passes = false;      ///< "Running backward pass on section 2"
  bool log_pass_times = false;  ///< milliseconds of each pass
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

  const Graph& graph() const { return *graph_; }
  const SessionOptions& options() const { return options_; }
  /// Of device memory.
  std::size_t budget_bytes() const { return budgets_.device; }
  const TierBudgets& budgets() const { return budgets_; }
  /// Device memory that is taken beside the budget now: by a GPU's context, libraries and recordings, and by other
  /// programs. Statistics and reports have it as of the last program that came to its place.
  std::size_t context_bytes() const { return device_->context_bytes(); }
  /// The algorithms of libraries that kernels of this session run, with those that it was given. save_variables writes
  /// them, load_variables gives them.
  const AlgorithmChoices& algorithm_choices() const { return device_->choices().known(); }
  /// Has these algorithms run where this process has not yet chosen another for the problem. What is in use stays, and
  /// so does what the library does not offer; the log says of how many. Give them before anything is planned.
  void use_algorithms(const AlgorithmChoices& choices);
  /// "cpu (2 threads)"
  std::string device_name() const { return device_->name(); }
  int threads() const { return threads_; }
  /// Training cycles completed since initialize(), or since the count that set_completed_cycles has given. Evaluation
  /// does not count.
  std::uint64_t completed_cycles() const { return cycle_; }
  /// Goes on from a run that had completed so many training cycles: random operations, such as dropout, draw by the
  /// seed and this number. load_variables calls it. Throws: ArgumentError before initialize(), and while a forward half
  /// is pending.
  void set_completed_cycles(std::uint64_t cycles, Where where = Where::here());
  /// How often a node has been executed or fed since initialize().
  std::int64_t executions(const Node& node) const;

  const Statistics& statistics() const { return statistics_; }
  /// Cumulative figures to 0, peaks to what is in use now.
  void clear_statistics();

  /// While on, every execution fills the planned region with a canary first and afterwards finds out how far it was
  /// written: Statistics::measured_peak_bytes. Costs a write and a read of the region. Of a cycle that is run by halves
  /// it is found out where this is on for both.
  void set_measuring(bool on) { measuring_ = on; }
  /// While set, every executed step is added. The trace must outlive its use.
  void set_trace(Trace* trace) { trace_ = trace; }

  // ---- For those that write schedules: sections, swapping.

  /// Keeps other threads out until the entry ends. Throws: ArgumentError (SF-E012) while another thread is inside.
  [[nodiscard]] OneAtATime::Entry enter() { return one_at_a_time_.enter("the session"); }

  /// The program of that key, compiled from `writer`'s instruction list when it is new or the graph has changed
  /// (Graph::generation). Compiling checks no budget. It stays until another is compiled and there is no room for both:
  /// see SessionOptions::program_memory.
  Executable& program(const std::string& key, const Signature& signature, std::size_t num_fetches,
                      const InstructionWriter& writer);
  /// Throws: BudgetError when the program does not fit; ArgumentError when it may not run now.
  void check_ready(const Program& program) const;
  /// Throws: ArgumentError when the program uses a variable that was made after initialize(), or nodes that have been
  /// taken out of the graph since it was compiled.
  void check_nodes(const Program& program) const;
  /// Executes all of a program.
  std::vector<HostTensor> execute(Executable& program, const Feeds& feeds, const ExecuteOptions& options = {});
  /// Executes the forward half and leaves the session pending: what the backward half reads stays in device memory, the
  /// feeds it needs are copied. Returns the fetches; those of the backward half are empty. No variable and no counter
  /// changes. `note` is the caller's, to be had from pending_note() as long as the half is pending.
  std::vector<HostTensor> execute_forward_half(Executable& program, const Feeds& feeds,
                                               const ExecuteOptions& options = {}, std::any note = {});
  /// Executes the other half of the pending program, or `instead`, a program that begins with what the pending one
  /// left.
  std::vector<HostTensor> execute_backward_half(Executable* instead = nullptr, const ExecuteOptions& options = {});
  /// Forgets a pending forward half.
  void discard_forward_half();
  /// The pending program; nullptr when there is none.
  const Program* pending() const;
  /// What the caller of execute_forward_half has given with it; nullptr when there is nothing.
  const std::any* pending_note() const;
  /// The program that was compiled or found last, to look at; nullptr before any, after initialize(), and when its
  /// nodes have been taken out of the graph.
  const Executable* latest_program() const;
  /// Seconds of each pass of the last execution.
  const std::vector<double>& pass_seconds() const { return pass_seconds_; }
  /// The program that `run` executes for these fetches and targets.
  Executable& whole_program(const std::vector<Value>& fetches, const FeedTypes& feeds = {},
                            const RunOptions& options = {}, Where where = Where::here());
  /// The device for those that measure on it. They may write to `region`, which no program needs between two
  /// executions; variables they may read. Throws: ArgumentError before initialize(), and while a forward half is
  /// pending.
  struct Workbench {
    Device& device;
    const VariableLayout& variables;
    const std::byte* base = nullptr;  ///< variables lie at their offsets from here
    std::span<std::byte> region;      ///< the rest of the budget
  };
  Workbench workbench();
  /// Has the instruction list of every program compiled from here on changed by `editor` before it is final; `key`
  /// tells programs of different editors apart. An empty editor: none.
  using InstructionEditor = std::function<InstructionList(InstructionList, PlanningTools&)>;
  void set_instruction_editor(std::string key, InstructionEditor editor);
  /// For tests that let the disk fail: calls of the operating system that a swap file made from here on uses.
  void set_disk_calls(const DiskCalls& calls);
  /// For tests that plant faults: programs compiled from here on are edited before they are planned.
  void set_schedule_editor(std::function<void(Schedule&)> editor) { edit_schedule_ = std::move(editor); }

 private:
  struct Pending;

  /// Makes a user's call: one thread at a time, and errors name its line.
  template <class Call>
  decltype(auto) user_call(Where where, Call&& call) {
    return call_at(where, [&]() -> decltype(auto) {
      const auto inside = enter();
      return call();
    });
  }
  std::vector<HostTensor> run_flat(const std::vector<Value>& fetches, const Feeds& feeds, const RunOptions& options,
                                   Where where);
  void set_initial_values();
  Executable& whole_graph_program(const std::vector<Value>& fetches, const Signature& signature,
                                  const RunOptions& options);
  std::vector<HostTensor> execute_range(Executable& program, StepIndex first, StepIndex last,
                                        const std::vector<const std::byte*>& feeds, const ExecuteOptions& options);
  void lay_out_variables();
  void meet_graph();
  bool knows(const Node& node) const;
  void count_programs();
  Arena& arena();
  /// Where algorithms may be timed while a program is compiled.
  TrialMemory trial_memory();
  void note_context(Executable& program);
  void begin_measurement(const Program& program);
  /// What is measured from here on may reach as far as another program's plan.
  void extend_measurement(const Program& program);
  /// The statistics of a cycle whose backward half was another program than its forward half.
  void add_forward_half(const Program& forward);
  void finish(const Program& program, bool completed, bool is_measured);
  void check_feeds(const Feeds& feeds) const;
  void check_not_pending(const char* call) const;
  std::byte* variable_bytes(Value variable, const char* call);

  Graph* graph_;
  SessionOptions options_;
  OneAtATime one_at_a_time_;
  std::unique_ptr<Device> device_;
  int threads_ = 0;
  TierBudgets budgets_;
  std::unique_ptr<Arena> arena_;
  VariableLayout layout_;
  bool initialized_ = false;
  bool torn_ = false;
  std::uint64_t cycle_ = 0;
  ProgramCache programs_;
  const Executable* latest_ = nullptr;
  std::uint64_t num_compiled_ = 0;
  std::vector<std::uint64_t> known_;  // serials of the nodes of which layout_ and executions_ tell, by number
  std::unique_ptr<Pending> pending_;
  std::vector<std::int64_t> executions_;
  std::vector<double> pass_seconds_;
  Statistics statistics_;
  bool measuring_ = false;
  Trace* trace_ = nullptr;
  std::function<void(Schedule&)> edit_schedule_;
  std::string editor_key_;
  InstructionEditor edit_instructions_;
  std::unique_ptr<SwapEngine> swaps_;
};

}  // namespace sectionflow
