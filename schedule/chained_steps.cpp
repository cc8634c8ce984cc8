#include "schedule/chained_steps.h"

#include <algorithm>
#include <optional>

#include "schedule/step_accesses.h"

namespace sectionflow {
namespace {

bool overlap(const Access& a, const Access& b) {
  return a.begin < b.end && b.begin < a.end;
}

class Chaining {
 public:
  Chaining(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
           const StorageAssignment& storage, const MemoryPlan& plan)
      : schedule_(schedule), kernels_(kernels), storage_(storage), plan_(plan), is_awaited_(awaited_steps(schedule)) {}

  std::vector<ChainedSteps> chain() {
    std::vector<ChainedSteps> chains;
    std::vector<bool> is_chained(schedule_.steps.size(), false);
    for (StepIndex i = 0; i < size(); ++i) {
      if (is_chained[static_cast<std::size_t>(i)] || !is_plain(i)) continue;
      const std::optional<ChainedSteps> found = chain_from(i);
      if (!found) continue;
      is_chained[static_cast<std::size_t>(found->second)] = true;
      chains.push_back(*found);
    }
    return chains;
  }

 private:
  StepIndex size() const { return static_cast<StepIndex>(schedule_.steps.size()); }
  const Step& step(StepIndex index) const { return schedule_.steps[static_cast<std::size_t>(index)]; }
  const Buffer& buffer(const Operand& operand) const {
    return schedule_.buffers[static_cast<std::size_t>(operand.index)];
  }
  const Kernel& kernel(StepIndex index) const { return *kernels_[static_cast<std::size_t>(step(index).slot)]; }

  /// A kernel that makes one new buffer, and changes and needs nothing else.
  bool is_plain(StepIndex index) const {
    const Step& s = step(index);
    return s.kind == StepKind::compute && s.lane == Lane::compute && s.updated.empty() &&
           s.workspace.kind == Operand::Kind::none && s.outputs.size() == 1 &&
           s.outputs[0].kind == Operand::Kind::buffer && buffer(s.outputs[0]).life.first == index;
  }

  std::optional<ChainedSteps> chain_from(StepIndex first) const {
    const std::optional<StepIndex> second = end_of_putting_off(first);
    if (!second || !is_plain(*second)) return std::nullopt;
    const Operand between = step(first).outputs[0];
    const std::vector<Operand>& inputs = step(*second).inputs;
    if (std::count(inputs.begin(), inputs.end(), between) != 1) return std::nullopt;
    const auto operand = static_cast<int>(std::find(inputs.begin(), inputs.end(), between) - inputs.begin());
    if (!kernel(first).chains_into(kernel(*second), operand) || !threads_are_apart(first, *second)) return std::nullopt;
    return ChainedSteps{first, *second, operand, buffer(between).life.last > *second || has_own_storage(between)};
  }

  /// Whether no other buffer lies in the storage: bytes that are planned for a sum alone are written, so that what is
  /// planned is what is used.
  bool has_own_storage(const Operand& operand) const {
    const std::vector<int>& storages = storage_.storage_of_buffer;
    return std::count(storages.begin(), storages.end(), storages[static_cast<std::size_t>(operand.index)]) == 1;
  }

  /// The first step behind which this one cannot be put off by what it touches; none where something else forbids to
  /// put it off so far.
  std::optional<StepIndex> end_of_putting_off(StepIndex first) const {
    const Touched touched = touched_by(schedule_, storage_, plan_, first);
    for (StepIndex i = first + 1; i < size(); ++i) {
      if (is_awaited_[static_cast<std::size_t>(i - 1)] || i == schedule_.half) return std::nullopt;
      if (touched_by(schedule_, storage_, plan_, i).conflicts_with(touched)) return i;
    }
    return std::nullopt;
  }

  bool threads_are_apart(StepIndex first, StepIndex second) const {
    const Access between = place_of(step(first).outputs[0]), result = place_of(step(second).outputs[0]);
    const auto is_safe = [&](const Operand& operand, const Access& written, bool may_be_same) {
      if (operand.kind != Operand::Kind::buffer) return true;
      const Access read = place_of(operand);
      const bool is_same = read.begin == written.begin && read.end == written.end;
      return !overlap(read, written) || (may_be_same && is_same);
    };
    const auto& before = step(first).inputs;
    const auto& beside = step(second).inputs;
    return std::all_of(before.begin(), before.end(), [&](const Operand& o) { return is_safe(o, result, true); }) &&
           std::all_of(beside.begin(), beside.end(),
                       [&](const Operand& o) { return o == step(first).outputs[0] || is_safe(o, between, false); });
  }
  Access place_of(const Operand& operand) const {
    const auto storage = static_cast<std::size_t>(storage_.storage_of_buffer[static_cast<std::size_t>(operand.index)]);
    const std::size_t begin = plan_.offsets[storage] + operand.offset;
    return {buffer(operand).tier, begin, begin + operand_bytes(schedule_, operand), false};
  }

  const Schedule& schedule_;
  const std::vector<std::unique_ptr<Kernel>>& kernels_;
  const StorageAssignment& storage_;
  const MemoryPlan& plan_;
  std::vector<bool> is_awaited_;
};

}  // namespace

std::vector<ChainedSteps> chain_steps(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                                      const StorageAssignment& storage, const MemoryPlan& plan) {
  return Chaining(schedule, kernels, storage, plan).chain();
}

}  // namespace sectionflow
