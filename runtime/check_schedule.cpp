#include "runtime/check_schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

/// Plays a schedule on a model of the arena that knows, for every byte range, which buffer was written there last.
class Player {
 public:
  Player(const Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan, const Graph& graph)
      : schedule_(schedule), storage_(storage), plan_(plan), graph_(graph) {
    for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
      if (schedule.buffers[i].fixed_offset) write(static_cast<int>(i));
    }
  }

  void play(StepIndex index, const std::vector<InPlace>& in_place) {
    now_ = index;
    const Step& step = schedule_.steps[static_cast<std::size_t>(index)];
    for (const Operand& input : step.inputs) read(input);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const int buffer = step.outputs[i].index;
      const bool kept = schedule_.buffers[static_cast<std::size_t>(buffer)].life.first < index;
      if (kept) {
        SF_CHECK(step.replay, InternalError, where(), " writes a buffer that began earlier");
        read(step.outputs[i]);
        continue;
      }
      check_overlap(step, static_cast<int>(i), in_place);
      write(buffer);
    }
    if (step.workspace.kind == Operand::Kind::buffer) write_scratch(step);
    // Everything that this step reads or writes must still be whole when it ends.
    for (const Operand& output : step.outputs) read(output);
    for (const Operand& variable : step.updated) updated_.insert(variable.index);
  }

  std::size_t highest() const { return highest_; }

 private:
  struct Range {
    std::size_t begin, end;
  };
  Range range_of(int buffer) const {
    const auto index = static_cast<std::size_t>(buffer);
    const std::size_t begin = plan_.offsets[static_cast<std::size_t>(storage_.storage_of_buffer[index])];
    return {begin, begin + schedule_.buffers[index].bytes};
  }
  std::string where() const {
    const Step& step = schedule_.steps[static_cast<std::size_t>(now_)];
    return text_of("check_schedule: step ", now_, " (", graph_.node(step.node).label(), ")");
  }

  void read(const Operand& operand) {
    if (operand.kind == Operand::Kind::variable) {
      SF_CHECK(!updated_.contains(operand.index) || updates(operand.index), InternalError, where(), " reads variable '",
               graph_.node(operand.index).name(), "' after its update");
    }
    if (operand.kind != Operand::Kind::buffer) return;
    const Range range = range_of(operand.index);
    if (range.begin == range.end) return;
    const auto found = owner_.find(range.begin);
    SF_CHECK(found != owner_.end() && found->second.second == operand.index && found->second.first == range.end,
             InternalError, where(), " reads buffer ", operand.index, " whose bytes hold something else");
  }

  bool updates(int variable) const {
    const Step& step = schedule_.steps[static_cast<std::size_t>(now_)];
    return std::any_of(step.updated.begin(), step.updated.end(),
                       [&](const Operand& updated) { return updated.index == variable; });
  }

  void write(int buffer) {
    const Range range = range_of(buffer);
    if (range.begin == range.end) return;
    SF_CHECK(range.begin % kBufferAlignment == 0, InternalError, where(), " writes buffer ", buffer, " at ",
             range.begin, ", which is not aligned");
    highest_ = std::max(highest_, range.end);
    // Whatever overlaps has lost its bytes.
    auto next = owner_.lower_bound(range.begin);
    if (next != owner_.begin() && std::prev(next)->second.first > range.begin) --next;
    while (next != owner_.end() && next->first < range.end) next = owner_.erase(next);
    owner_[range.begin] = {range.end, buffer};
  }

  /// Scratch must leave the inputs alone, also those that die in this step.
  void write_scratch(const Step& step) {
    const Range scratch = range_of(step.workspace.index);
    for (const Operand& input : step.inputs) {
      if (input.kind != Operand::Kind::buffer) continue;
      const Range from = range_of(input.index);
      SF_CHECK(from.begin >= scratch.end || scratch.begin >= from.end, InternalError, where(),
               " has its scratch over an input");
    }
    write(step.workspace.index);
  }

  /// An output may overlap an input of its own step only as a pair that the kernel allows, and then wholly.
  void check_overlap(const Step& step, int output, const std::vector<InPlace>& in_place) const {
    const Range to = range_of(step.outputs[static_cast<std::size_t>(output)].index);
    for (std::size_t input = 0; input < step.inputs.size(); ++input) {
      if (step.inputs[input].kind != Operand::Kind::buffer) continue;
      const Range from = range_of(step.inputs[input].index);
      if (from.begin >= to.end || to.begin >= from.end) continue;
      const bool allowed = std::any_of(in_place.begin(), in_place.end(), [&](const InPlace& pair) {
        return pair.input == static_cast<int>(input) && pair.output == output;
      });
      SF_CHECK(allowed && from.begin == to.begin && from.end == to.end, InternalError, where(), " writes output ",
               output, " over its input ", input);
    }
  }

  const Schedule& schedule_;
  const StorageAssignment& storage_;
  const MemoryPlan& plan_;
  const Graph& graph_;
  StepIndex now_ = 0;
  std::size_t highest_ = 0;
  std::map<std::size_t, std::pair<std::size_t, int>> owner_;  // begin -> (end, buffer)
  std::set<int> updated_;                                     // variables
};

}  // namespace

void check_schedule(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                    const StorageAssignment& storage, const MemoryPlan& plan, const Graph& graph,
                    std::size_t guard_bytes) {
  Player player(schedule, storage, plan, graph);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const bool compute = step.kind == StepKind::compute;
    player.play(static_cast<StepIndex>(i),
                compute ? kernels[static_cast<std::size_t>(step.slot)]->in_place() : std::vector<InPlace>{});
  }
  const std::size_t peak = player.highest() == 0 ? 0 : player.highest() + guard_bytes;
  SF_CHECK(peak == plan.peak_bytes, InternalError, "check_schedule: bytes up to ", peak, " are used; the plan says ",
           plan.peak_bytes);
}

}  // namespace sectionflow
