#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/one_at_a_time.h"
#include "device/device.h"
#include "graph/graph.h"
#include "runtime/arena.h"
#include "runtime/check_feeds.h"
#include "runtime/feeds.h"
#include "runtime/host_hold.h"
#include "runtime/program_cache.h"
#include "runtime/program_planner.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "runtime/variable_homes.h"
#include "schedule/build_schedule.h"
#include "schedule/program.h"
#include "schedule/report.h"

// Not installed. Exported all the same: sectionflow_compare, a library of its own, looks at programs.
namespace SF_API sectionflow {

class LentMemory;
class NextFeeds;
class SwapEngine;
struct DiskCalls;

/// How one execution is logged.
struct ExecuteOptions {
  bool log_passes = false;      ///< "Running backward pass on section 2"
  bool log_pass_times = false;  ///< milliseconds of each pass
};

/// What a session is made of: its programs, its memory, and what executes them. For those that write schedules, that
/// measure, and that test; users have Session, whose methods do what those of the same name do here.
///
/// Threads: as Session. A call that throws before its first update has changed nothing: no variable, no counter.
class Engine {
 public:
  Engine(Graph& graph, SessionOptions options, Where where);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void initialize(Where where);
  std::vector<HostTensor> run(const std::vector<Value>& fetches, const Feeds& feeds, const RunOptions& options,
                              Where where);
  ProgramReport plan(const std::vector<Value>& fetches, const FeedTypes& feeds, const RunOptions& options, Where where);
  HostTensor read(Value variable, Where where);
  void write(Value variable, const HostTensor& tensor, Where where);
  /// Grows whenever variables may have changed: by write, and by programs that update any. 0: there are no values yet.
  std::uint64_t last_write() const { return last_write_; }
  /// Every variable has the values again that it had behind that write.
  void set_back_to_write(std::uint64_t write) { last_write_ = write; }
  /// As read, to bytes of the caller's, of which there are enough; past the machine's caches, for what nobody reads
  /// soon.
  void read_to(std::byte* bytes, Value variable, Where where);

  /// No other engine of this process has it, nor will.
  std::uint64_t serial() const { return serial_; }
  const Graph& graph() const { return *graph_; }
  const SessionOptions& options() const { return options_; }
  const TierBudgets& budgets() const { return budgets_; }
  const Device& device() const { return *device_; }
  /// Where the variables lie.
  const VariableLayout& layout() const { return homes_.now(); }
  /// Bytes that a variable with a place has there: none of a shard that another rank has all of.
  std::size_t bytes_here(Value held) const;
  /// What traces are told.
  Trace::Machine machine() const;
  void use_algorithms(const AlgorithmChoices& choices);
  int threads() const { return threads_; }
  std::uint64_t completed_cycles() const { return cycle_; }
  void set_completed_cycles(std::uint64_t cycles, Where where);
  std::int64_t executions(const Node& node) const;
  const Statistics& statistics() const { return statistics_; }
  void clear_statistics();
  void set_measuring(bool on) { measuring_ = on; }
  void set_value_checks(const ValueChecks& checks) { value_checks_ = checks; }
  const ValueChecks& value_checks() const { return value_checks_; }
  void set_trace(Trace* trace) { trace_ = trace; }
  Trace* trace() const { return trace_; }

  /// Keeps other threads out until the entry ends. Throws: ArgumentError (SF-E012) while another thread is inside.
  [[nodiscard]] OneAtATime::Entry enter() { return one_at_a_time_.enter("the session"); }
  /// For a call that reads or sets every variable. Throws: ArgumentError naming `call` where one has no value yet, and
  /// while a forward half is pending.
  void check_has_values(const char* call);

  /// The program of that key, compiled from `writer`'s instruction list when it is new or the graph has changed
  /// (Graph::generation); then `request` says what it executes, by which a training flag that is not fed is decided.
  /// Compiling checks no budget. It stays until another is compiled and there is no room for both: see
  /// SessionOptions::program_memory.
  Executable& program(const std::string& key, const Signature& signature, const std::function<RunRequest()>& request,
                      const InstructionWriter& writer);
  /// The program of what is run now, of those that `program_of` gives for signatures: where gradients are accumulated
  /// the one of this micro-batch. With the first of an update those of all others must fit too, so that none begins
  /// that cannot end; where a graph has several accumulations, of these each alone and all at once. A run that takes no
  /// micro-batch asks for its own program alone.
  using ProgramOf = std::function<Executable&(const Signature&)>;
  Executable& micro_batch_program(const Signature& fed, const ProgramOf& program_of);
  struct PlannedProgram {
    const Executable& program;
    ProgramReport report;  ///< the program's; its time is the longest that a micro-batch of the update takes
  };
  /// The same to plan by: of all micro-batches the program that takes the most device memory.
  PlannedProgram fullest_program(const Signature& fed, const ProgramOf& program_of);
  /// Refuses to train from here on, as `why` says (a text that stays); nullptr: trains again.
  void set_training_refused(const char* why) { training_refused_ = why; }
  bool is_training_refused() const { return training_refused_ != nullptr; }
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
  /// Tools that draft other instruction lists for what one of this session's programs executes; nothing is compiled or
  /// kept. `graph`: the session's under the program's signature. All must outlive them.
  PlanningTools tools_for(const Program& program, const ConcreteGraph& graph);
  /// Who carries copies between device and host.
  CopyCarrier carrier() const;
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
  /// Takes bytes of host memory for somebody beside the programs, as HostHolds::hold does; what is lent and nobody has
  /// makes room.
  std::shared_ptr<HostHold> hold_host_memory(std::size_t num_bytes, std::function<void()> give_back);
  /// What the session lends to batches; nullptr where SessionOptions::lent_memory says none.
  std::shared_ptr<LentMemory> lent_memory();
  /// Feeds of the execution after the next one, as far as they are known before: tensors, which hold their bytes. On a
  /// device with queues the next execution has those that lie in lent memory copied beside its own steps, and the one
  /// that is fed the same bytes finds them on the device; elsewhere nothing comes of it. Who offers some forgets them
  /// in the end.
  void offer_next_feeds(Feeds feeds);
  void forget_next_feeds() noexcept;
  /// Whether offering feeds is of any use.
  bool copies_feeds_ahead() const { return device_->queues() != nullptr && lent_ != nullptr; }
  const NextFeeds& next_feeds() const { return *next_feeds_; }
  /// Whether a hold is one of this session's.
  bool has_hold(const HostHold& hold) const { return holds_->has(hold); }
  /// Has the instruction list of every program compiled from here on changed by `editor` before it is final; `key`
  /// tells programs of different editors apart. An empty editor: none, and no planner either.
  using InstructionEditor = std::function<InstructionList(InstructionList, PlanningTools&)>;
  void set_instruction_editor(std::string key, InstructionEditor editor);
  /// Has every program compiled from here on planned by `planner`, in the place of an editor: writers leave to it what
  /// budgets decide (PlanningTools::is_fitted_later). It is given what give_back() was called with last.
  void set_planner(const std::string& key, std::shared_ptr<ProgramPlanner> planner);
  /// nullptr: there is none now.
  const ProgramPlanner* planner() const { return planner_ != nullptr ? planner_->planner.get() : nullptr; }
  /// That of an earlier call with that key; its programs may still be there. nullptr: there was none.
  std::shared_ptr<ProgramPlanner> earlier_planner(const std::string& key) const;
  /// What checkpoints keep beside the variables: what the planner says, if there is one.
  KeptTexts kept_texts() const;
  /// Gives it back, to the planner that there is and to those that come; `from`: the checkpoint's path.
  void give_back(KeptTexts texts, std::string from);
  /// For tests, which go by no clock: changes what was measured of an execution before the planner is told.
  using TimesEditor = std::function<void(const Program&, ExecutionTimes&)>;
  void set_times_editor(TimesEditor editor) { edit_times_ = std::move(editor); }
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
  void set_initial_values();
  Executable& whole_graph_program(const std::vector<Value>& fetches, const Signature& signature,
                                  const RunOptions& options);
  Executable& whole_program_now(const std::vector<Value>& fetches, const Signature& fed, const RunOptions& options);
  std::vector<HostTensor> execute_range(Executable& program, StepIndex first, StepIndex last,
                                        const std::vector<const std::byte*>& feeds, const ExecuteOptions& options,
                                        ExecutionTimes* times);
  std::vector<HostTensor> execute_here(Executable& program, StepIndex first, StepIndex last,
                                       const std::vector<const std::byte*>& feeds, const ExecuteOptions& options,
                                       ExecutionTimes* times);
  std::optional<ExecutionTimes> times_wanted(Executable& program) const;
  void tell_times(Executable& program, std::optional<ExecutionTimes> times);
  std::unique_ptr<Executable> compiled(const RunRequest& requested, const Signature& signature,
                                       const InstructionWriter& writer);
  // Where variables lie (engine_homes.cpp).
  /// Compiles for a layout, as planned or as written; planned to take less than `only_below` seconds, or anyhow.
  enum class Listed { as_planned, as_written };
  using CompileWithHomes = std::function<std::unique_ptr<Executable>(int layout, const TierBudgets& budgets,
                                                                     Listed listed, double only_below)>;
  bool may_have_disk_homes() const;
  void lay_out_variables();
  bool chooses_homes_by_time() const;
  std::vector<int> homes_to_try() const;
  std::unique_ptr<Executable> compiled_with_homes(const CompileWithHomes& compile) const;
  bool has_other_homes(const Executable& program) const;
  void move_homes(const Executable& program);
  void meet_graph();
  bool knows(const Node& node) const;
  std::int64_t read_counter(NodeId variable) const;
  std::uint64_t random_seed(const Program& program) const;
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
  // Of several ranks (engine_ranks.cpp).
  void check_ranks(const Program& program) const;
  std::vector<const std::byte*> ready_feeds(const Program& program, const Feeds& feeds) const;
  void agree(Executable& program);
  void leave_ranks() noexcept;
  void check_not_pending(const char* call) const;
  Value check_variable(Value variable, const char* call);
  std::byte* bytes_of_place(Value held);
  void read_place(Value held, std::byte* to);
  void write_place(Value held, const std::byte* from);
  void write_held(Value held, const HostTensor& whole);

  Graph* graph_;
  SessionOptions options_;
  OneAtATime one_at_a_time_;
  std::unique_ptr<Device> device_;
  int threads_ = 0;
  TierBudgets budgets_;
  std::unique_ptr<Arena> arena_;
  VariableHomes homes_;
  bool initialized_ = false;
  bool torn_ = false;
  std::uint64_t cycle_ = 0;
  std::uint64_t num_writes_ = 0, last_write_ = 0;
  const std::uint64_t serial_;
  const char* training_refused_ = nullptr;
  ProgramCache programs_;
  const Executable* latest_ = nullptr;
  std::uint64_t num_compiled_ = 0;
  std::vector<std::uint64_t> known_;  // serials of the nodes of which homes_ and executions_ tell, by number
  std::unique_ptr<Pending> pending_;
  std::vector<std::int64_t> executions_;
  std::vector<double> pass_seconds_;
  Statistics statistics_;
  bool measuring_ = false;
  ValueChecks value_checks_;
  Trace* trace_ = nullptr;
  std::function<void(Schedule&)> edit_schedule_;
  std::string editor_key_;
  InstructionEditor edit_instructions_;
  struct KnownPlanner {
    std::shared_ptr<ProgramPlanner> planner;
    std::uint64_t told = 0;  // num_given_back_ when it was given what had been kept
  };
  std::map<std::string, KnownPlanner> planners_;  // by their keys
  KnownPlanner* planner_ = nullptr;               // that of them which plans now
  KeptTexts given_;
  std::string given_from_;
  std::uint64_t num_given_back_ = 0;
  TimesEditor edit_times_;
  std::set<std::string> agreed_;  // programs that all ranks execute, as text
  int exceptions_ = 0;            // in flight when it was made
  std::unique_ptr<SwapEngine> swaps_;
  std::shared_ptr<HostHolds> holds_;  // shared with what is lent, which may live longer
  std::shared_ptr<LentMemory> lent_;  // made when it is first asked for
  const std::unique_ptr<NextFeeds> next_feeds_;
};

/// What is behind a session.
Engine& engine(Session& session);
const Engine& engine(const Session& session);

}  // namespace sectionflow
