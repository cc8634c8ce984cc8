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

void trace_step(const Program& program, const Step& step, StepIndex index, double start_us, double end_us,
                PlayContext& context) {
  std::size_t live_bytes = 0;
  for (const Storage& storage : program.storage.storages) {
    if (storage.life.first <= index && index <= storage.life.last) live_bytes += storage.bytes;
  }
  context.trace->add({.node = step.node,
                      .pass = program.schedule.passes[static_cast<std::size_t>(step.pass)],
                      .replay = step.replay,
                      .cycle = context.cycle,
                      .start_us = start_us,
                      .duration_us = end_us - start_us,
                      .live_bytes = live_bytes});
}

double now_us() {
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

}  // namespace

void play(Program& program, StepIndex first, StepIndex last, PlayContext& context) {
  const StepScope scope;
  const Schedule& schedule = program.schedule;
  for (StepIndex begin = first; begin < last;) {
    const int pass = schedule.steps[static_cast<std::size_t>(begin)].pass;
    if (context.log_passes) log_pass(schedule.passes[static_cast<std::size_t>(pass)]);
    const auto start = Clock::now();
    StepIndex index = begin;
    for (; index < last && schedule.steps[static_cast<std::size_t>(index)].pass == pass; ++index) {
      const double start_us = context.trace != nullptr ? now_us() : 0;
      if (context.poison) poison_births(program, index, context);
      execute(program, index, context);
      if (context.poison) poison_deaths(program, index, context);
      if (context.trace != nullptr) {
        trace_step(program, schedule.steps[static_cast<std::size_t>(index)], index, start_us, now_us(), context);
      }
    }
    const double seconds = seconds_between(start, Clock::now());
    context.pass_seconds[static_cast<std::size_t>(pass)] = seconds;
    if (context.log_pass_times) {
      LOG(INFO) << schedule.passes[static_cast<std::size_t>(pass)].text() << ": " << seconds * 1e3 << " ms";
    }
    begin = index;
  }
}

}  // namespace sectionflow
