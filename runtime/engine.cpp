#include "runtime/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"
#include "graph/registration.h"
#include "runtime/executor.h"
#include "runtime/lent_memory.h"
#include "runtime/next_feeds.h"
#include "runtime/pending_half.h"
#include "runtime/swap_engine.h"

namespace sectionflow {
namespace {

/// What a placeholder holds that is decided by the program: a boolean scalar, such as the training flag. nullptr for
/// others.
const std::byte* decided_bytes(const Program& program, NodeId placeholder) {
  static constexpr std::array<std::byte, 2> kBooleans = {std::byte{0}, std::byte{1}};
  const auto found = program.signature.booleans.find(placeholder);
  return found == program.signature.booleans.end() ? nullptr : &kBooleans[found->second ? 1 : 0];
}

/// The feeds of a program as pointers, in the order of its feed slots.
std::vector<const std::byte*> feed_pointers(const Program& program, const Feeds& feeds) {
  std::vector<const std::byte*> pointers;
  for (NodeId placeholder : program.schedule.feeds) {
    const auto fed = std::find_if(feeds.begin(), feeds.end(),
                                  [&](const Feed& feed) { return feed.value.node().id() == placeholder; });
    pointers.push_back(fed != feeds.end() ? fed->data.bytes() : decided_bytes(program, placeholder));
    SF_CHECK(pointers.back() != nullptr, InternalError, "a program was compiled for a feed that is missing");
  }
  return pointers;
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serials = 0;
  return ++serials;
}

}  // namespace

Engine::Engine(Graph& graph, SessionOptions options, Where where)
    : graph_(&graph),
      options_(std::move(options)),
      serial_(next_serial()),
      programs_(options_.program_memory),
      next_feeds_(std::make_unique<NextFeeds>()) {
  device_ = call_at(where, [&] { return make_device(options_.device, options_.threads); });
  threads_ = device_->threads();
  call_at(where, [&] {
    SF_CHECK(options_.link_bandwidth == 0 || device_->queues() == nullptr, ArgumentError, "link_bandwidth of ",
             options_.link_bandwidth, " bytes a second: copies of ", device_->name(), " go as fast as its bus",
             hint("leave link_bandwidth at 0, or take {.device = cpu()}"));
  });
  budgets_.device = call_at(where, [&] { return options_.device_memory.bytes_of(device_->total_memory()); });
  budgets_.host = options_.host_memory == 0 ? machine_memory() : options_.host_memory;
  budgets_.disk = options_.disk;
  holds_ = std::make_shared<HostHolds>(budgets_.host);
  swaps_ = call_at(where, [&] {
    return std::make_unique<SwapEngine>(graph, SwapEngineOptions{.host_memory = budgets_.host,
                                                                 .disk = budgets_.disk,
                                                                 .swap_directory = options_.swap_directory,
                                                                 .link_bandwidth = options_.link_bandwidth,
                                                                 .random_delays = options_.random_delays,
                                                                 .queues = device_->queues()});
  });
  statistics_.bytes_limit = statistics_.bytes_reservable_limit = budgets_.device;
  statistics_.context_bytes = device_->context_bytes();
  exceptions_ = std::uncaught_exceptions();
  end_registration();
}

Engine::~Engine() {
  leave_ranks();
  next_feeds_->forget();
  if (lent_ != nullptr) lent_->close();
}

Arena& Engine::arena() {
  if (!arena_) {
    arena_ = std::make_unique<Arena>(*device_, budgets_.device);
    statistics_.bytes_reserved = statistics_.peak_bytes_reserved = budgets_.device;
  }
  return *arena_;
}

void Engine::initialize(Where where) {
  user_call(where, [&] {
    check_not_pending("initialize()");
    // The end of their scope would exchange the new values.
    SF_CHECK_CODE(training_refused_ == nullptr, ArgumentError, ErrorCode::averages_in_place,
                  "initialize(): ", training_refused_, hint("end its scope first"));
    meet_graph();
    // What a session holds is given up only when its new values are there to be written.
    VariableHomes places = homes_;
    ProgramCache programs(options_.program_memory);
    programs_.swap(programs);
    latest_ = nullptr;
    const bool was_initialized = std::exchange(initialized_, false), was_torn = std::exchange(torn_, false);
    const std::uint64_t cycle = std::exchange(cycle_, 0);
    try {
      set_initial_values();
      programs_.clear();
      latest_ = nullptr;
      count_programs();
    } catch (...) {
      const bool begun = std::exchange(torn_, was_torn);
      programs_.swap(programs);
      latest_ = nullptr;
      count_programs();
      homes_ = std::move(places);
      initialized_ = was_initialized && !begun;
      cycle_ = cycle;
      throw;
    }
  });
}

std::vector<HostTensor> Engine::run(const std::vector<Value>& fetches, const Feeds& feeds, const RunOptions& options,
                                    Where where) {
  return user_call(where, [&] {
    check_not_pending("run()");
    return execute(whole_program_now(fetches, signature_of(*graph_, feeds), options), feeds);
  });
}

void Engine::set_disk_calls(const DiskCalls& calls) {
  swaps_->set_disk_calls(calls);
}

void Engine::check_ready(const Program& program) const {
  SF_CHECK_CODE(!torn_, ArgumentError, ErrorCode::torn_session,
                "a failure after the first update left this session's variables half updated",
                hint("call session.initialize()"));
  SF_CHECK_CODE(initialized_, ArgumentError, ErrorCode::not_initialized, "the session's variables have no values yet",
                hint("call session.initialize() first"));
  check_nodes(program);
  const bool trains = program.advances_cycle || program.micro_batch;
  SF_CHECK_CODE(!trains || training_refused_ == nullptr, ArgumentError, ErrorCode::averages_in_place,
                training_refused_);
  check_ranks(program);
  if (!program.report.fits) throw_budget_error(program.report);
}

/// What keeps this rank from a step that all take keeps it from being where the others are: they are told, and need not
/// wait.
std::vector<const std::byte*> Engine::ready_feeds(const Program& program, const Feeds& feeds) const {
  try {
    check_ready(program);
    check_feeds(feeds);
    return feed_pointers(program, feeds);
  } catch (...) {
    if (program.ranks > 1 && options_.communicator != nullptr) fail_ranks(*options_.communicator);
    throw;
  }
}

std::vector<HostTensor> Engine::execute(Executable& program, const Feeds& feeds, const ExecuteOptions& options) {
  const auto inside = enter();
  check_not_pending("run");
  const auto pointers = ready_feeds(program, feeds);
  move_homes(program);
  if (measuring_) begin_measurement(program);
  std::optional<ExecutionTimes> times = times_wanted(program);
  auto fetched = execute_range(program, 0, static_cast<StepIndex>(program.schedule.steps.size()), pointers, options,
                               times ? &*times : nullptr);
  finish(program, program.advances_cycle, measuring_);
  tell_times(program, std::move(times));
  return fetched;
}

std::vector<HostTensor> Engine::execute_forward_half(Executable& program, const Feeds& feeds,
                                                     const ExecuteOptions& options, std::any note) {
  const auto inside = enter();
  check_not_pending("run_forward");
  const auto pointers = ready_feeds(program, feeds);
  move_homes(program);
  if (measuring_) begin_measurement(program);
  auto pending = std::make_unique<Pending>();
  pending->program = &program;
  pending->note = std::move(note);
  pending->is_measured = measuring_;
  pending->times = times_wanted(program);
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    const NodeId placeholder = program.schedule.feeds[i];
    HostTensor copy(graph_->node(placeholder).output_types()[0].dtype, program.signature.shapes.at(placeholder));
    if (copy.num_bytes() > 0) std::memcpy(copy.bytes(), pointers[i], copy.num_bytes());
    pending->feeds.push_back(std::move(copy));
  }
  auto fetched =
      execute_range(program, 0, program.schedule.half, pointers, options, pending->times ? &*pending->times : nullptr);
  pending_ = std::move(pending);
  statistics_.bytes_in_use = layout().end_bytes + program.digest.forward.waiting_device_bytes;
  statistics_.bytes_active = statistics_.bytes_in_use;
  return fetched;
}

std::vector<HostTensor> Engine::execute_backward_half(Executable* instead, const ExecuteOptions& options) {
  const auto inside = enter();
  SF_CHECK_CODE(pending_ != nullptr, ArgumentError, ErrorCode::pending_half,
                "run_backward: no forward pass is pending; call run_forward first");
  Executable& program = instead != nullptr ? *instead : *pending_->program;
  check_ready(program);
  std::vector<const std::byte*> pointers;
  for (NodeId placeholder : program.schedule.feeds) {
    const std::byte* bytes = decided_bytes(program, placeholder);
    if (bytes == nullptr) {
      const auto& known = pending_->program->schedule.feeds;
      const auto found = std::find(known.begin(), known.end(), placeholder);
      SF_CHECK(found != known.end(), ArgumentError, "run_backward: the fetches need '",
               graph_->node(placeholder).name(),
               "', which the forward pass did not use; fetch them from run_full_cycle");
      bytes = pending_->feeds[static_cast<std::size_t>(found - known.begin())].bytes();
    }
    pointers.push_back(bytes);
  }
  // Canaries that are written now would take the place of what the forward half has left.
  const bool is_measured = measuring_ && pending_->is_measured;
  if (is_measured && instead != nullptr) extend_measurement(program);
  // What begins and ends as two programs is none that anybody has predicted.
  std::optional<ExecutionTimes> times;
  if (instead == nullptr && pending_->times && times_wanted(program)) times = std::move(pending_->times);
  auto fetched = execute_range(program, instead != nullptr ? 0 : program.schedule.half,
                               static_cast<StepIndex>(program.schedule.steps.size()), pointers, options,
                               times ? &*times : nullptr);
  const Program& forward = *pending_->program;
  pending_.reset();
  finish(program, program.advances_cycle, is_measured);
  tell_times(program, std::move(times));
  if (instead != nullptr) add_forward_half(forward);
  return fetched;
}

void Engine::discard_forward_half() {
  const auto inside = enter();
  pending_.reset();
  statistics_.bytes_in_use = statistics_.bytes_active = layout().end_bytes;
}

const Program* Engine::pending() const {
  return pending_ ? pending_->program : nullptr;
}

const std::any* Engine::pending_note() const {
  return pending_ ? &pending_->note : nullptr;
}

std::vector<HostTensor> Engine::execute_here(Executable& program, StepIndex first, StepIndex last,
                                             const std::vector<const std::byte*>& feeds, const ExecuteOptions& options,
                                             ExecutionTimes* times) {
  // First: where the device cannot be entered nothing has changed.
  const auto entered = device_->enter();
  std::byte* base = arena().data();
  holds_->make_place_for(program.report.host_peak_bytes);
  swaps_->prepare(program);
  const bool is_bound = !program.bound.empty();
  if (!is_bound) bind_program(program, *graph_, layout(), base, swaps_->host_base());
  const bool first_time = program.queue == nullptr;
  if (device_->queues() != nullptr) {
    if (first_time) program.queue = std::make_unique<QueueProgram>(program, *device_->queues());
    program.queue->use_pinning(swaps_->pinnings());
  }
  const std::size_t recordings = program.queue ? program.queue->num_recordings() : 0;
  std::vector<HostTensor> fetched;
  std::vector<std::byte*> fetch_pointers;
  for (const FetchSlot& slot : program.schedule.fetches) {
    fetched.emplace_back(slot.type);
    fetch_pointers.push_back(fetched.back().bytes());
  }
  meet_graph();
  pass_seconds_.assign(program.schedule.passes.size(), 0.0);
  std::optional<StepEvents> events;
  Trace timed;
  Trace* const trace = times != nullptr && !times->steps.empty() ? &timed : trace_;
  if (trace != nullptr) {
    events.emplace(program);
    trace->reserve(static_cast<std::size_t>(last - first));
    trace->set_machine(machine());
  }

  ExecutionContext context{.device = *device_,
                           .graph = *graph_,
                           .region = base + program.transient_offset,
                           .feeds = feeds,
                           .fetches = fetch_pointers,
                           .swaps = swaps_.get(),
                           .queue = program.queue.get(),
                           .lent = lent_.get(),
                           .next = next_feeds_.get(),
                           .record = options_.record_cycles,
                           .seed = random_seed(program),
                           .cycle = cycle_,
                           .executions = executions_,
                           .pass_seconds = pass_seconds_,
                           .trace = trace,
                           .events = events ? &*events : nullptr,
                           .log_passes = options.log_passes,
                           .log_pass_times = options.log_pass_times,
                           .poison = options_.poison,
                           .communicator = options_.communicator.get(),
                           .measuring = measuring_,
                           .checks = value_checks_};
  const auto begun = std::chrono::steady_clock::now();
  try {
    sectionflow::execute(program, first, last, context);
  } catch (...) {
    torn_ = context.updates_started;
    if (context.updates_started) last_write_ = ++num_writes_;
    pending_.reset();
    next_feeds_->forget();
    throw;
  }
  if (times != nullptr) {
    times->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    for (const Trace::Event& event : timed.events())
      times->steps[static_cast<std::size_t>(event.step)] += 1e-6 * event.duration_us;
  }
  if (context.updates_started) last_write_ = ++num_writes_;
  const bool is_recorded = program.queue && program.queue->num_recordings() != recordings;
  if (program.queue && (first_time || is_recorded)) note_context(program);
  if (!is_bound || is_recorded) {
    programs_.count_again(program, {&program, pending(), latest_});
    count_programs();
  }
  return fetched;
}

Trace::Machine Engine::machine() const {
  return {.device = device_->name(), .device_memory = options_.device_memory.is_limited() ? budgets_.device : 0};
}

void Engine::check_not_pending(const char* call) const {
  SF_CHECK_CODE(pending_ == nullptr, ArgumentError, ErrorCode::pending_half, call,
                ": the backward half of a cycle is pending; call run_backward or discard_forward first");
}

void Engine::check_feeds(const Feeds& feeds) const {
  if (options_.check_feeds) check_finite(feeds);
}

std::int64_t Engine::executions(const Node& node) const {
  const auto id = static_cast<std::size_t>(node.id());
  return knows(node) && id < executions_.size() ? executions_[id] : 0;
}

}  // namespace sectionflow
