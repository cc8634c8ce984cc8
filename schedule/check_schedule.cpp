#include "schedule/check_schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/ops/basic.h"
#include "schedule/ranks.h"

namespace sectionflow {
namespace {

/// Simulates a schedule on a model of the arena that knows, for every byte range, which buffer was written there last.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan, const Graph& graph)
      : schedule_(schedule), storage_(storage), plan_(plan), graph_(graph) {
    for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
      if (schedule.buffers[i].fixed_offset) write(static_cast<int>(i));
    }
  }

  void execute(StepIndex index, const std::vector<InPlace>& in_place) {
    now_ = index;
    const Step& step = schedule_.steps[static_cast<std::size_t>(index)];
    for (const Operand& input : step.inputs) read(input);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i].kind != Operand::Kind::buffer) continue;
      const int buffer = step.outputs[i].index;
      const bool is_there = schedule_.buffers[static_cast<std::size_t>(buffer)].life.first < index;
      if (is_there) {
        SF_CHECK(step.replay || step.part > 0, InternalError, where(), " writes a buffer that began earlier");
        read(step.outputs[i]);
      }
      if (!is_there || step.part > 0) check_overlap(step, static_cast<int>(i), in_place);
      if (!is_there) write(buffer);
    }
    if (step.workspace.kind == Operand::Kind::buffer) write_scratch(step);
    note_accesses(step);
    // Everything that this step reads or writes must still be whole when it ends.
    for (const Operand& output : step.outputs) read(output);
    for (const Operand& variable : step.updated) {
      read(variable);
      const bool is_variable = variable.kind == Operand::Kind::variable;
      // Readers of an initial value come behind the assignment.
      if (is_variable && initializer_of(graph_.node(variable.index).output()).node().id() != step.node) {
        updated_.insert(variable.index);
      }
    }
  }

  std::size_t highest(Tier tier) const { return highest_[static_cast<std::size_t>(tier)]; }

  /// Lanes that run beside each other must not touch the same bytes in an order that nothing fixes, if one writes.
  void check_races() const {
    const std::vector<Clock> over = what_is_over();
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      const Access& later = accesses_[i];
      const Lane lane = schedule_.steps[static_cast<std::size_t>(later.step)].lane;
      for (std::size_t j = 0; j < i; ++j) {
        const Access& earlier = accesses_[j];
        const Lane other = schedule_.steps[static_cast<std::size_t>(earlier.step)].lane;
        const bool conflict = lane != other && (later.writes || earlier.writes) && later.tier == earlier.tier &&
                              later.range.begin < earlier.range.end && earlier.range.begin < later.range.end;
        if (!conflict) continue;
        SF_CHECK(over[static_cast<std::size_t>(later.step)][static_cast<std::size_t>(other)] >= earlier.step,
                 InternalError, "check_schedule: step ", later.step, " (", lane_name(lane), ") and step ", earlier.step,
                 " (", lane_name(other), ") may touch the same ",
                 later.tier ? text_of("bytes of ", tier_name(*later.tier)) : "variable", " in any order");
      }
    }
  }

 private:
  struct Range {
    std::size_t begin, end;
  };
  struct Access {
    std::optional<Tier> tier;  // none: a variable, which has its number as its only byte, and behind all its home
    Range range;
    StepIndex step;
    bool writes;
  };
  using Clock = std::array<StepIndex, kNumLanes>;

  Range range_of(const Operand& operand) const {
    const std::size_t begin = range_of(operand.index).begin + operand.offset;
    const std::size_t end = begin + operand_bytes(schedule_, operand);
    SF_CHECK(end <= range_of(operand.index).end, InternalError, where(), " has a part beyond the end of buffer ",
             operand.index);
    return {begin, end};
  }
  Range range_of(int buffer) const {
    const auto index = static_cast<std::size_t>(buffer);
    const std::size_t begin = plan_.offsets[static_cast<std::size_t>(storage_.storage_of_buffer[index])];
    return {begin, begin + schedule_.buffers[index].bytes};
  }
  Tier tier_of(int buffer) const { return schedule_.buffers[static_cast<std::size_t>(buffer)].tier; }

  void note_accesses(const Step& step) {
    const auto note = [&](const Operand& operand, bool writes) {
      if (operand.kind != Operand::Kind::buffer) return;
      accesses_.push_back({tier_of(operand.index), range_of(operand), now_, writes});
    };
    for (const Operand& input : step.inputs) note(input, false);
    for (const Operand& output : step.outputs) {
      if (output.kind != Operand::Kind::buffer) continue;
      note(output, schedule_.buffers[static_cast<std::size_t>(output.index)].life.first == now_ || step.parts > 1);
    }
    for (const Operand& updated : step.updated) note(updated, true);
    note(step.workspace, true);
    const auto note_variable = [&](const Operand& operand, bool writes) {
      if (operand.kind != Operand::Kind::variable || is_transfer(step.kind) || !communicates_) return;
      const auto variable = static_cast<std::size_t>(operand.index);
      accesses_.push_back({std::nullopt, {variable, variable + 1}, now_, writes});
    };
    for (const Operand& input : step.inputs) note_variable(input, false);
    for (const Operand& updated : step.updated) note_variable(updated, true);
    if (is_transfer(step.kind)) {
      note_home(step.inputs[0], false);
      note_home(step.outputs[0], true);
    }
  }

  /// Where a variable comes from that is brought to the device, or goes back to.
  void note_home(const Operand& operand, bool writes) {
    if (operand.kind != Operand::Kind::variable) return;
    const std::size_t home = static_cast<std::size_t>(graph_.num_nodes()) + static_cast<std::size_t>(operand.index);
    accesses_.push_back({std::nullopt, {home, home + 1}, now_, writes});
  }

  /// For each step and lane the last step of that lane that is surely over when the step starts.
  std::vector<Clock> what_is_over() const {
    std::vector<Clock> over(schedule_.steps.size());
    Clock before_lane[kNumLanes];
    for (Clock& clock : before_lane) clock.fill(-1);
    for (std::size_t i = 0; i < over.size(); ++i) {
      const Step& step = schedule_.steps[i];
      Clock& own = before_lane[static_cast<std::size_t>(step.lane)];
      for (StepIndex wait : step.waits) {
        SF_CHECK(wait >= 0 && static_cast<std::size_t>(wait) < i, InternalError, "check_schedule: step ", i,
                 " waits for step ", wait, ", which does not come before it");
        const auto other = static_cast<std::size_t>(wait);
        for (std::size_t lane = 0; lane < own.size(); ++lane) own[lane] = std::max(own[lane], over[other][lane]);
        StepIndex& last = own[static_cast<std::size_t>(schedule_.steps[other].lane)];
        last = std::max(last, wait);
      }
      over[i] = own;
      own[static_cast<std::size_t>(step.lane)] = static_cast<StepIndex>(i);
    }
    return over;
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
    const Owners& owner = owners_[static_cast<std::size_t>(tier_of(operand.index))];
    const auto found = owner.find(range.begin);
    SF_CHECK(found != owner.end() && found->second.second == operand.index && found->second.first == range.end,
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
    SF_CHECK(range.begin % alignment_of(tier_of(buffer)) == 0, InternalError, where(), " writes buffer ", buffer,
             " at ", range.begin, ", which is not aligned");
    std::size_t& highest = highest_[static_cast<std::size_t>(tier_of(buffer))];
    highest = std::max(highest, range.end);
    // Whatever overlaps has lost its bytes.
    Owners& owner = owners_[static_cast<std::size_t>(tier_of(buffer))];
    auto next = owner.lower_bound(range.begin);
    if (next != owner.begin() && std::prev(next)->second.first > range.begin) --next;
    while (next != owner.end() && next->first < range.end) next = owner.erase(next);
    owner[range.begin] = {range.end, buffer};
  }

  /// Scratch must leave the inputs alone, also those that die in this step.
  void write_scratch(const Step& step) {
    const Range scratch = range_of(step.workspace.index);
    for (const Operand& input : step.inputs) {
      if (input.kind != Operand::Kind::buffer) continue;
      const Range from = range_of(input);
      SF_CHECK(from.begin >= scratch.end || scratch.begin >= from.end, InternalError, where(),
               " has its scratch over an input");
    }
    write(step.workspace.index);
  }

  /// An output may overlap an input of its own step only as a pair that the kernel allows, and then wholly.
  void check_overlap(const Step& step, int output, const std::vector<InPlace>& in_place) const {
    if (is_transfer(step.kind)) return;  // between tiers
    const Range to = range_of(step.outputs[static_cast<std::size_t>(output)]);
    for (std::size_t input = 0; input < step.inputs.size(); ++input) {
      if (step.inputs[input].kind != Operand::Kind::buffer) continue;
      const Range from = range_of(step.inputs[input]);
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
  using Owners = std::map<std::size_t, std::pair<std::size_t, int>>;  // begin -> (end, buffer)
  std::array<std::size_t, kNumTiers> highest_{};
  std::array<Owners, kNumTiers> owners_;
  std::vector<Access> accesses_;
  std::set<int> updated_;                              // variables
  const bool communicates_ = communicates(schedule_);  // else one lane alone has variables
};

}  // namespace

void check_schedule(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                    const StorageAssignment& storage, const MemoryPlan& plan, const Graph& graph,
                    std::size_t guard_bytes) {
  Simulation simulation(schedule, storage, plan, graph);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const bool compute = step.kind == StepKind::compute;
    simulation.execute(static_cast<StepIndex>(i),
                       compute ? kernels[static_cast<std::size_t>(step.slot)]->in_place() : std::vector<InPlace>{});
  }
  const auto check_peak = [&](Tier tier, const TierPeak& planned) {
    const std::size_t guard = tier == Tier::device ? guard_bytes : 0;
    const std::size_t peak = simulation.highest(tier) == 0 ? 0 : simulation.highest(tier) + guard;
    SF_CHECK(peak == planned.peak_bytes, InternalError, "check_schedule: bytes up to ", peak, " of ", tier_name(tier),
             " are used; the plan says ", planned.peak_bytes);
  };
  check_peak(Tier::device, plan);
  check_peak(Tier::host, plan.host);
  check_peak(Tier::disk, plan.disk);
  const bool lanes = std::any_of(schedule.steps.begin(), schedule.steps.end(),
                                 [](const Step& step) { return step.lane != Lane::compute; });
  if (lanes) simulation.check_races();
}

}  // namespace sectionflow
