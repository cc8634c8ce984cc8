#include "runtime/swap_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "runtime/queue_program.h"

namespace sectionflow {
namespace {

/// The longest random delay of a step.
constexpr std::uint32_t kLongestDelayUs = 300;

}  // namespace

SwapEngine::~SwapEngine() {
  if (pinned_bytes_ > 0) queues_->unpin(host_->data());
}

/// A device's queues copy from and to pinned memory alone: as much of the pool is pinned as some program has needed.
void SwapEngine::pin(std::size_t bytes) {
  if (queues_ == nullptr || bytes <= pinned_bytes_) return;
  if (pinned_bytes_ > 0) queues_->unpin(host_->data());
  pinned_bytes_ = 0;
  ++pinnings_;
  queues_->pin(host_->data(), bytes);
  pinned_bytes_ = bytes;
}

void SwapEngine::prepare(const Program& program) {
  const ProgramReport& report = program.report;
  // Pages that nobody touches cost nothing: the pool is as large as its limit, and the plan says how far it is used.
  if (report.host_peak_bytes > 0 && !host_) host_ = std::make_unique<HostPool>(options_.host_memory);
  pin(report.host_peak_bytes);
  if (report.disk_peak_bytes > 0) {
    if (!disk_) {
      disk_ = std::make_unique<DiskStore>(
          DiskStoreOptions{.folder = options_.swap_directory,
                           .num_bytes = options_.disk,
                           .num_blocks = static_cast<std::size_t>(program.schedule.num_offloads),
                           .name_of = [this](const BlockLabel& label) { return name_of(label); },
                           .calls = options_.calls});
    }
    disk_->reserve_blocks(static_cast<std::size_t>(program.schedule.num_offloads));
    if (report.disk_persistent_bytes > 0) disk_->reserve_homes(static_cast<std::size_t>(graph_.num_nodes()));
  }
  if (!program.digest.beside.empty() && !team_) team_ = std::make_unique<LaneTeam>(kNumLanes - 1);
}

std::string SwapEngine::name_of(const BlockLabel& label) const {
  return graph_.node(static_cast<NodeId>(label.tensor)).name();
}

void SwapEngine::carry(const Executable& program, StepIndex index, std::uint64_t cycle, Device& device) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  std::byte* to = static_cast<std::byte*>(bound.outputs[0]);
  const auto* from = static_cast<const std::byte*>(bound.inputs[0]);
  switch (step.kind) {
    case StepKind::copy_out:
    case StepKind::copy_in: {
      const bool out = step.kind == StepKind::copy_out;
      if (DeviceQueues* queues = device.queues()) {
        if (out) return queues->copy_to_host(queue_of(step.lane), to, from, bound.bytes);
        return queues->copy_from_host(queue_of(step.lane), to, from, bound.bytes);
      }
      Throttle& link = out ? out_ : in_;
      // The compute team must not be called from a thread beside it.
      if (step.lane != Lane::compute) return copy_throttled(link, to, from, bound.bytes);
      if (out) {
        device.copy_to_host(to, from, bound.bytes);
      } else {
        device.copy_from_host(to, from, bound.bytes);
      }
      return link.pass(bound.bytes);
    }
    case StepKind::disk_write:
    case StepKind::disk_read:
      return carry_by_disk(program, index, cycle);
    default:
      throw InternalError("SwapEngine::carry: the step carries nothing");
  }
}

void SwapEngine::carry_by_disk(const Executable& program, StepIndex index, std::uint64_t cycle) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  std::byte* const to = static_cast<std::byte*>(bound.outputs[0]);
  const std::span<const std::byte> from(static_cast<const std::byte*>(bound.inputs[0]), bound.bytes);
  const bool is_write = step.kind == StepKind::disk_write, is_home = step.offload < 0;
  // What no value has been given yet is as fresh pages of the pool are.
  if (bound.is_before_first_value && !is_write) return void(std::memset(to, 0, bound.bytes));
  const int block = is_home ? home_block(step.node) : step.offload;
  const BlockLabel label = is_home ? label_of_home(step.node) : label_of(program, step, cycle);
  is_write ? disk_->write(block, bound.disk_offset, from, label)
           : disk_->read(block, bound.disk_offset, {to, bound.bytes}, label);
}

void SwapEngine::write_home(NodeId variable, std::size_t offset, std::span<const std::byte> bytes) {
  disk_->write(home_block(variable), offset, bytes, label_of_home(variable));
}

void SwapEngine::read_home(NodeId variable, std::size_t offset, std::span<std::byte> bytes) {
  disk_->read(home_block(variable), offset, bytes, label_of_home(variable));
}

BlockLabel SwapEngine::label_of_home(NodeId variable) const {
  return {.tensor = static_cast<std::uint64_t>(variable),
          .section = static_cast<int>(graph_.node(variable).group()),
          .cycle = BlockLabel::kAnyCycle};
}

/// What a block of the swap file must hold: the section is that of the value, and so the same for write and read.
BlockLabel SwapEngine::label_of(const Program& program, const Step& step, std::uint64_t cycle) const {
  const Buffer& buffer = program.schedule.buffers[static_cast<std::size_t>(step.outputs[0].index)];
  const Node& node = buffer.value.node();
  return {.tensor = static_cast<std::uint64_t>(node.id()), .section = static_cast<int>(node.group()), .cycle = cycle};
}

void SwapEngine::delay(StepIndex index, std::uint64_t cycle) const {
  if (options_.random_delays == 0) return;
  const RandomAddress address{.seed = options_.random_delays, .step = static_cast<std::uint32_t>(cycle)};
  const std::uint32_t word = random_words(address, static_cast<std::uint64_t>(index))[0];
  std::this_thread::sleep_for(std::chrono::microseconds(word % kLongestDelayUs));
}

std::size_t SwapEngine::measured_disk_peak(const Program& program) const {
  return disk_ ? std::max(disk_->high_water(), program.report.disk_persistent_bytes) : 0;
}

std::size_t SwapEngine::measured_host_peak(const Program& program) {
  if (!host_) return 0;
  const std::size_t touched = host_->highest_touched(program.host_offset);
  return touched > program.host_offset ? touched : program.report.host_persistent_bytes;
}

/// So much of the pool is filled with the canary. Pinned pages must not be given back: the device would keep the old
/// ones.
std::size_t SwapEngine::host_window(const Program& program, std::size_t pinned_bytes) const {
  const std::size_t pinned = pinned_bytes - std::min(pinned_bytes, program.host_offset);
  return std::max(program.plan.host.peak_bytes + 1_MiB, pinned);
}

void SwapEngine::begin_measurement(const Program& program) {
  // Variables, which lie in the pool below the window, stay as they are.
  if (host_) host_->begin_measurement(program.host_offset, host_window(program, pinned_bytes_));
  if (disk_) disk_->begin_measurement();
}

void SwapEngine::extend_measurement(const Program& program) {
  // Before more is pinned: that touches pages.
  const std::size_t pinned =
      queues_ != nullptr ? std::max(pinned_bytes_, program.report.host_peak_bytes) : pinned_bytes_;
  const bool has_pool = host_ != nullptr;
  if (has_pool) host_->extend_measurement(program.host_offset, host_window(program, pinned));
  prepare(program);
  if (!has_pool && host_) host_->begin_measurement(program.host_offset, host_window(program, pinned_bytes_));
}

}  // namespace sectionflow
