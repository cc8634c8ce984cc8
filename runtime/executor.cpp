#include "runtime/executor.h"

#include <glog/logging.h>

#include <array>
#include <cstring>

#include "base/allocation_scope.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "runtime/device_bytes.h"
#include "runtime/lent_memory.h"
#include "runtime/next_feeds.h"
#include "runtime/poison.h"
#include "runtime/step_timer.h"
#include "runtime/value_checks.h"

namespace sectionflow {
namespace {

constexpr int kScratchGuard = 0x5A;

/// Copying a feed in once more draws nothing new.
void count_execution(const Step& step, ExecutionContext& context) {
  // All parts of a node are one execution.
  const bool counts =
      (step.kind == StepKind::compute && step.part == 0) || (step.kind == StepKind::feed && !step.replay);
  if (counts) ++context.executions[static_cast<std::size_t>(step.node)];
}

/// Writes the bytes behind scratch. On a device with queues they are part of the plan all the same, but written where
/// somebody looks at them alone: whoever measures, or poison mode.
void guard_scratch(const BoundStep& bound, ExecutionContext& context) {
  if (bound.workspace_guard == nullptr) return;
  if (context.queue == nullptr) {
    std::memset(bound.workspace_guard, kScratchGuard, bound.workspace_guard_bytes);
  } else if (context.poison || context.measuring) {
    context.queue->queues().fill(Queue::compute, bound.workspace_guard, kScratchGuard, bound.workspace_guard_bytes);
  }
}

void check_scratch(const Step& step, const BoundStep& bound, ExecutionContext& context) {
  // Looking at the bytes waits for the device.
  if (bound.workspace_guard == nullptr || (context.queue != nullptr && !context.poison)) return;
  SF_CHECK(device_bytes_are(context.device, bound.workspace_guard, bound.workspace_guard_bytes, kScratchGuard),
           InternalError, context.graph.node(step.node).label(), ": kernel ", bound.kernel->implementation(),
           " wrote past its scratch");
}

void launch(const Step& step, const BoundStep& bound, ExecutionContext& context) {
  guard_scratch(bound, context);
  // Written by the compute lane alone: an update that communicates follows others, of what it takes from the ranks.
  if (bound.is_update && step.lane == Lane::compute) context.updates_started = true;
  KernelArguments arguments{.inputs = bound.inputs,
                            .outputs = bound.outputs,
                            .updated = bound.updated,
                            .workspace = bound.workspace,
                            .random = {context.seed, bound.random_ordinal, static_cast<std::uint32_t>(context.cycle)},
                            .communicator = context.communicator};
  if (context.queue != nullptr) {
    arguments.queue = context.queue->queues().native(Queue::compute);
    arguments.random_state = context.queue->queues().random_state();
  }
  bound.kernel->launch(arguments);
  check_scratch(step, bound, context);
}

void copy_feed(const Program& program, const Step& step, const BoundStep& bound, ExecutionContext& context) {
  const auto slot = static_cast<std::size_t>(step.slot);
  const std::size_t bytes = program.schedule.buffers[static_cast<std::size_t>(step.outputs[0].index)].bytes;
  if (context.queue == nullptr) return context.device.copy_from_host(bound.outputs[0], context.feeds[slot], bytes);
  if (context.queue->finds_feed_ahead(step)) {
    const auto poison = context.poison ? std::optional(kPoison) : std::nullopt;
    return context.queue->take_feed_ahead(slot, context.region, static_cast<std::byte*>(bound.outputs[0]), poison);
  }
  context.queue->queues().copy_feed(step.slot, bound.outputs[0], context.queue->feed_sources()[slot], bytes);
}

void copy_fetch(const Program& program, const Step& step, const BoundStep& bound, ExecutionContext& context) {
  const auto slot = static_cast<std::size_t>(step.slot);
  const std::size_t bytes = program.schedule.fetches[slot].bytes;
  if (context.queue == nullptr) return context.device.copy_to_host(context.fetches[slot], bound.inputs[0], bytes);
  context.queue->queues().copy_to_host(Queue::compute, context.queue->fetch(slot), bound.inputs[0], bytes);
}

void execute_step(const Executable& program, StepIndex index, ExecutionContext& context) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  switch (step.kind) {
    case StepKind::feed:
      return copy_feed(program, step, bound, context);
    case StepKind::fetch:
      return copy_fetch(program, step, bound, context);
    case StepKind::hold:
      return;
    case StepKind::compute:
      return launch(step, bound, context);
    case StepKind::copy_out:
    case StepKind::disk_write:
    case StepKind::disk_read:
    case StepKind::copy_in:
      return context.swaps->carry(program, index, context.cycle, context.device);
  }
}

/// Steps [first, last) of a program, lane by lane.
class Execution {
 public:
  Execution(Executable& program, StepIndex first, StepIndex last, ExecutionContext& context)
      : program_(program),
        first_(first),
        last_(last),
        context_(context),
        queue_(context.queue),
        times_(program, context),
        asserts_(!steps_between(program.digest.assertions, first, last).empty()),
        joins_(queue_ != nullptr && !context.poison && !context.checks.any() && !asserts_ && !times_.are_wanted()) {
    lanes_ = !context.poison && !steps_between(program.digest.beside, first, last).empty();
    for (StepIndex i = 0; i < first && lanes_; ++i) ++base_[static_cast<std::size_t>(step(i).lane)];
  }

  void run() {
    if (queue_ == nullptr) return execute_all();
    try {
      begin_on_queues();
      if (!execute_recording()) {
        queue_->fork();
        execute_all();
        queue_->join();
      }
      if (context_.next != nullptr && is_whole())
        context_.next->copy(program_, *queue_, context_.region, context_.lent);
      finish_on_queues();
    } catch (...) {
      drain();
      throw;
    }
  }

 private:
  const Step& step(StepIndex index) const { return program_.schedule.steps[static_cast<std::size_t>(index)]; }

  bool is_whole() const { return first_ == 0 && last_ == static_cast<StepIndex>(program_.schedule.steps.size()); }

  void execute_all() {
    if (!lanes_) return execute_lane(Lane::compute);
    LaneProgress& progress = context_.swaps->progress();
    progress.reset();
    auto beside = [this](int worker) { execute_beside(static_cast<Lane>(worker + 1)); };
    LaneTeam& team = context_.swaps->team();
    team.start(beside);
    try {
      execute_lane(Lane::compute);
    } catch (...) {
      fail();
    }
    team.join();
    progress.rethrow();
  }

  void execute_beside(Lane lane) {
    try {
      execute_lane(lane);
    } catch (...) {
      fail();
    }
  }

  /// A lane has thrown: no other goes on. One that waits for other ranks is told by the communicator, as they are.
  void fail() {
    context_.swaps->progress().fail(std::current_exception());
    if (context_.communicator != nullptr) fail_ranks(*context_.communicator);
  }

  /// Executes the steps of one lane, or, where lanes do not run beside each other, all steps.
  void execute_lane(Lane lane) {
    const bool compute = lane == Lane::compute;
    for (StepIndex i = next(lane, first_); i < last_; i = next(lane, i + 1)) {
      if (compute && !recording_) times_.enter_pass(step(i).pass);
      if (!wait(i)) return;
      times_.begin_step(i);
      if (context_.poison) poison_births(program_, i, context_.region, context_.device);
      if (joins_ && queue_->shares_launch(i)) {
        context_.updates_started = context_.updates_started || program_.bound[static_cast<std::size_t>(i)].is_update;
        queue_->reach_shared(i);
      } else {
        execute_step(program_, i, context_);
      }
      if (!recording_) count_execution(step(i), context_);
      if (queue_ != nullptr && is_queue(step(i).lane)) queue_->passed(i);
      if (context_.checks.any() && is_looked_at(step(i))) check_step_values(program_, i, context_);
      if (asserts_) check_assertion(program_, i, context_);
      if (context_.poison) end_poisoned(i);
      times_.end_step(i);
      if (lanes_) context_.swaps->progress().complete(static_cast<int>(lane));
    }
    if (compute) times_.leave_pass();
  }

  /// Not where an earlier step has been looked at for the same bits: a forward half may have been executed without
  /// checks. Nor what ranks have in common, which is there on a thread that has no team to look with: its readers are.
  bool is_looked_at(const Step& step) const { return !(step.replay && first_ == 0) && step.lane != Lane::communicate; }

  void end_poisoned(StepIndex index) {
    if (queue_ != nullptr) queue_->queues().synchronize();
    poison_deaths(program_, index, context_.region, context_.device, context_.graph);
  }

  StepIndex next(Lane lane, StepIndex from) const {
    while (lanes_ && from < last_ && step(from).lane != lane) ++from;
    return from;
  }

  /// False when a lane has failed.
  bool wait(StepIndex index) {
    if (lanes_ && !wait_for_threads(index)) return false;
    if (queue_ != nullptr) queue_->wait(index, first_);
    return true;
  }

  bool wait_for_threads(StepIndex index) {
    context_.swaps->delay(index, context_.cycle);
    LaneProgress& progress = context_.swaps->progress();
    for (StepIndex earlier : step(index).waits) {
      if (earlier < first_) continue;
      const int lane = static_cast<int>(step(earlier).lane);
      const int place = program_.bound[static_cast<std::size_t>(earlier)].place_in_lane - base_[lane];
      if (!progress.wait_until(lane, static_cast<std::uint64_t>(place) + 1)) return false;
    }
    return !progress.failed();
  }

  void begin_on_queues() {
    queue_->forget_feeds();
    if (context_.next != nullptr) context_.next->take(program_, is_whole(), context_.feeds, queue_->arrived());
    for (StepIndex i : steps_between(program_.digest.feeds, first_, last_)) {
      const auto slot = static_cast<std::size_t>(step(i).slot);
      // A slot that is copied in again reads what is there.
      if (queue_->feed_sources()[slot] != nullptr) continue;
      const auto buffer = static_cast<std::size_t>(step(i).outputs[0].index);
      const std::size_t bytes = program_.schedule.buffers[buffer].bytes;
      const bool is_pinned = context_.lent != nullptr && context_.lent->is_pinned(context_.feeds[slot], bytes);
      queue_->set_feed(slot, context_.feeds[slot], bytes, is_pinned);
    }
    queue_->queues().set_random_state({context_.seed, context_.cycle});
    times_.begin();
  }

  /// Launches the range's recording, made when the range is executed for the second time: by then every kernel has run
  /// once.
  bool execute_recording() {
    const bool first_time = queue_->count_execution(first_, last_) == 0;
    if (!context_.record || first_time || context_.poison || context_.checks.any() || asserts_ || context_.measuring ||
        times_.are_wanted() || queue_->uses_disk(first_, last_) || queue_->is_unrecordable(first_, last_)) {
      return false;
    }
    if (queue_->recording(first_, last_) == nullptr && !record()) return false;
    if (!feed_recording()) return false;
    for (StepIndex i = first_; i < last_; ++i) {
      if (step(i).lane == Lane::compute) times_.enter_pass(step(i).pass);
      count_execution(step(i), context_);
      context_.updates_started = context_.updates_started || program_.bound[static_cast<std::size_t>(i)].is_update;
    }
    times_.leave_pass();
    queue_->queues().launch(*queue_->recording(first_, last_));
    return true;
  }

  /// Has the recording's copies read this execution's feeds. False where the machine refuses, as record().
  bool feed_recording() {
    try {
      queue_->queues().set_feeds(*queue_->recording(first_, last_), queue_->feed_sources());
      return true;
    } catch (const DeviceError& error) {
      queue_->set_unrecordable(first_, last_);
      LOG(WARNING) << "a recorded cycle cannot be given other feeds and is executed step by step: " << error.what();
      return false;
    }
  }

  /// False where the machine refuses, for want of memory or because a library's work cannot be recorded: the range is
  /// then executed step by step for ever. Nothing has been done yet, whatever happens.
  bool record() {
    DeviceQueues& queues = queue_->queues();
    const bool updates_started = context_.updates_started;
    recording_ = true;
    try {
      queues.begin_recording();
      queue_->fork();
      execute_all();
      queue_->join();
      queue_->keep_recording(first_, last_, queues.end_recording());
    } catch (const DeviceError& error) {
      cancel(updates_started);
      queue_->set_unrecordable(first_, last_);
      LOG(WARNING) << "a cycle cannot be recorded and is executed step by step: " << error.what();
      return false;
    } catch (...) {
      cancel(updates_started);
      throw;
    }
    recording_ = false;
    return true;
  }
  void cancel(bool updates_started) noexcept {
    queue_->queues().cancel_recording();
    recording_ = false;
    context_.updates_started = updates_started;
  }

  void finish_on_queues() {
    queue_->queues().synchronize();
    for (StepIndex i : steps_between(program_.digest.fetches, first_, last_)) {
      const auto slot = static_cast<std::size_t>(step(i).slot);
      const std::size_t bytes = program_.schedule.fetches[slot].bytes;
      if (bytes > 0) std::memcpy(context_.fetches[slot], queue_->fetch(slot), bytes);
    }
    times_.finish();
  }

  /// After an error: nothing of this execution is under way any more.
  void drain() noexcept {
    try {
      queue_->queues().synchronize();
    } catch (...) {
      // The error that is on its way says more than that of its consequences.
    }
  }

  Executable& program_;
  StepIndex first_, last_;
  ExecutionContext& context_;
  QueueProgram* queue_;
  StepTimer times_;
  bool asserts_;        // there are conditions to be looked at: the host does, between the steps
  bool joins_;          // kernels share launches: not where each step's bytes or time are looked at
  bool lanes_ = false;  // steps of several lanes, executed beside each other by threads
  bool recording_ = false;
  std::array<int, kNumLanes> base_{};  // steps of each lane that earlier executions have done
};

}  // namespace

void fail_ranks(Communicator& communicator) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    // Its own facts are told apart from those of the rank that is told.
    std::string text = error.what();
    for (std::size_t line = text.find('\n'); line != std::string::npos; line = text.find('\n', line + 3)) {
      text.insert(line + 1, "  ");
    }
    communicator.fail(text);
  } catch (...) {
    communicator.fail("an exception that is no std::exception");
  }
}

void execute(Executable& program, StepIndex first, StepIndex last, ExecutionContext& context) {
  const StepScope scope;
  Execution(program, first, last, context).run();
}

}  // namespace sectionflow
