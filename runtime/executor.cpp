#include "runtime/executor.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/allocation_scope.h"
#include "base/error.h"

namespace sectionflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kScratchGuard = 0x5A, kStorageGuard = 0x3C;
// Every byte 0xFF: a NaN in every float type.
constexpr int kPoison = 0xFF;

bool all_bytes(const std::byte* bytes, std::size_t count, int value) {
  return std::all_of(bytes, bytes + count, [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double now_us() {
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

void launch(const Step& step, const BoundStep& bound, PlayContext& context) {
  if (bound.workspace_guard != nullptr) std::memset(bound.workspace_guard, kScratchGuard, bound.workspace_guard_bytes);
  context.updates_started = context.updates_started || bound.is_update;
  bound.kernel->launch({.inputs = bound.inputs,
                        .outputs = bound.outputs,
                        .updated = bound.updated,
                        .workspace = bound.workspace,
                        .random = {context.seed, bound.random_ordinal, static_cast<std::uint32_t>(context.cycle)}});
  SF_CHECK(
      bound.workspace_guard == nullptr || all_bytes(bound.workspace_guard, bound.workspace_guard_bytes, kScratchGuard),
      InternalError, context.graph.node(step.node).label(), ": kernel ", bound.kernel->implementation(),
      " wrote past its scratch");
}

void execute(const Program& program, StepIndex index, PlayContext& context) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  const auto slot = static_cast<std::size_t>(step.slot);
  switch (step.kind) {
    case StepKind::feed: {
      const auto buffer = static_cast<std::size_t>(step.outputs[0].index);
      context.device.copy_from_host(bound.outputs[0], context.feeds[slot], program.schedule.buffers[buffer].bytes);
      break;
    }
    case StepKind::fetch:
      context.device.copy_to_host(context.fetches[slot], bound.inputs[0], program.schedule.fetches[slot].bytes);
      return;
    case StepKind::hold:
      return;
    case StepKind::compute:
      launch(step, bound, context);
      break;
    case StepKind::copy_out:
    case StepKind::disk_write:
    case StepKind::disk_read:
    case StepKind::copy_in:
      context.swaps->carry(program, index, context.cycle, context.device);
      return;
  }
  // Copying a feed in once more draws nothing new.
  if (step.kind == StepKind::feed && step.replay) return;
  ++context.executions[static_cast<std::size_t>(step.node)];
}

/// Fills what begins with this step with NaN and guards, so that a kernel which reads its output, or scratch, shows.
void poison_births(const Program& program, StepIndex index, const PlayContext& context) {
  for (std::size_t i = 0; i < program.storage.storages.size(); ++i) {
    const Storage& storage = program.storage.storages[i];
    if (storage.life.first != index || storage.bytes == 0 || storage.fixed_offset) continue;
    if (storage.tier != Tier::device) continue;
    std::byte* begin = context.region + program.plan.offsets[i];
    std::memset(begin, kPoison, storage.bytes - kPoisonGuardBytes);
    std::memset(begin + storage.bytes - kPoisonGuardBytes, kStorageGuard, kPoisonGuardBytes);
  }
}

void poison_deaths(const Program& program, StepIndex index, const PlayContext& context) {
  for (int dying : program.dying[static_cast<std::size_t>(index)]) {
    const auto i = static_cast<std::size_t>(dying);
    const Storage& storage = program.storage.storages[i];
    std::byte* begin = context.region + program.plan.offsets[i];
    SF_CHECK(
        storage.fixed_offset || all_bytes(begin + storage.bytes - kPoisonGuardBytes, kPoisonGuardBytes, kStorageGuard),
        InternalError, "poison: bytes behind a buffer were written; its last reader is ",
        context.graph.node(program.schedule.steps[static_cast<std::size_t>(index)].node).label());
    std::memset(begin, kPoison, storage.bytes);
  }
}

void log_pass(const Pass& pass) {
  if (pass.kind == Pass::Kind::whole || pass.section == kNoGroup) return;
  LOG(INFO) << "Running " << (pass.kind == Pass::Kind::backward ? "backward" : "forward") << " pass on section "
            << pass.section;
}

void trace_step(const Program& program, StepIndex index, double start_us, PlayContext& context) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  std::size_t live_bytes = 0;
  for (const Storage& storage : program.storage.storages) {
    const bool alive = storage.life.first <= index && index <= storage.life.last;
    if (alive && storage.tier == Tier::device) live_bytes += storage.bytes;
  }
  context.trace->add({.node = step.node,
                      .pass = program.schedule.passes[static_cast<std::size_t>(step.pass)],
                      .replay = step.replay,
                      .cycle = context.cycle,
                      .start_us = start_us,
                      .duration_us = now_us() - start_us,
                      .live_bytes = live_bytes,
                      .kind = step.kind,
                      .lane = step.lane,
                      .rest = step.rest,
                      .bytes = program.bound[static_cast<std::size_t>(index)].bytes});
}

/// Steps [first, last) of a program, lane by lane.
class Playing {
 public:
  Playing(Program& program, StepIndex first, StepIndex last, PlayContext& context)
      : program_(program), first_(first), last_(last), context_(context) {
    for (int lane = 0; lane < kNumLanes; ++lane) base_[lane] = steps_before(static_cast<Lane>(lane));
    for (StepIndex i = first; i < last && !context.poison; ++i) lanes_ = lanes_ || step(i).lane != Lane::compute;
  }

  void play() {
    if (!lanes_) return play_lane(Lane::compute);
    LaneProgress& progress = context_.swaps->progress();
    progress.reset();
    auto beside = [this](int worker) { play_beside(static_cast<Lane>(worker + 1)); };
    LaneTeam& team = context_.swaps->team();
    team.start(beside);
    try {
      play_lane(Lane::compute);
    } catch (...) {
      progress.fail(std::current_exception());
    }
    team.join();
    progress.rethrow();
  }

 private:
  const Step& step(StepIndex index) const { return program_.schedule.steps[static_cast<std::size_t>(index)]; }

  /// Steps of a lane that earlier playings have executed.
  int steps_before(Lane lane) const {
    int count = 0;
    for (StepIndex i = 0; i < first_; ++i) count += step(i).lane == lane ? 1 : 0;
    return count;
  }

  void play_beside(Lane lane) {
    try {
      play_lane(lane);
    } catch (...) {
      context_.swaps->progress().fail(std::current_exception());
    }
  }

  /// Plays the steps of one lane, or, where lanes are not played beside each other, all steps.
  void play_lane(Lane lane) {
    const bool compute = lane == Lane::compute;
    for (StepIndex i = next(lane, first_); i < last_; i = next(lane, i + 1)) {
      if (compute) enter_pass(step(i).pass);
      if (lanes_ && !wait(i)) return;
      const double start_us = context_.trace != nullptr ? now_us() : 0;
      if (context_.poison) poison_births(program_, i, context_);
      execute(program_, i, context_);
      if (context_.poison) poison_deaths(program_, i, context_);
      if (context_.trace != nullptr) trace_step(program_, i, start_us, context_);
      if (lanes_) context_.swaps->progress().complete(static_cast<int>(lane));
    }
    if (compute) leave_pass();
  }

  StepIndex next(Lane lane, StepIndex from) const {
    while (lanes_ && from < last_ && step(from).lane != lane) ++from;
    return from;
  }

  /// False when a lane has failed.
  bool wait(StepIndex index) {
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

  void enter_pass(int pass) {
    if (pass == pass_) return;
    leave_pass();
    pass_ = pass;
    pass_start_ = Clock::now();
    if (context_.log_passes) log_pass(program_.schedule.passes[static_cast<std::size_t>(pass)]);
  }

  void leave_pass() {
    if (pass_ < 0) return;
    const double seconds = seconds_between(pass_start_, Clock::now());
    context_.pass_seconds[static_cast<std::size_t>(pass_)] += seconds;
    if (!context_.log_pass_times) return;
    LOG(INFO) << program_.schedule.passes[static_cast<std::size_t>(pass_)].text() << ": " << seconds * 1e3 << " ms";
  }

  Program& program_;
  StepIndex first_, last_;
  PlayContext& context_;
  bool lanes_ = false;  // steps of several lanes, played beside each other
  std::array<int, kNumLanes> base_{};
  int pass_ = -1;
  Clock::time_point pass_start_;
};

}  // namespace

void play(Program& program, StepIndex first, StepIndex last, PlayContext& context) {
  const StepScope scope;
  Playing(program, first, last, context).play();
}

}  // namespace sectionflow
