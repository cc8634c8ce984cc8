#include "schedule/waits.h"

#include <algorithm>
#include <array>
#include <map>

#include "schedule/step_accesses.h"

namespace sectionflow {
namespace {

constexpr StepIndex kNever = -1;
/// The latest step of each lane.
using Clock = std::array<StepIndex, kNumLanes>;

constexpr Clock kBeforeAll = {kNever, kNever, kNever, kNever, kNever, kNever};
static_assert(kBeforeAll.back() == kNever);

std::size_t number_of(Lane lane) {
  return static_cast<std::size_t>(lane);
}

void advance(Clock& clock, const Clock& other) {
  for (std::size_t lane = 0; lane < clock.size(); ++lane) clock[lane] = std::max(clock[lane], other[lane]);
}

/// Who accessed which bytes of one tier last.
class Accesses {
 public:
  Accesses() { segments_.emplace(0, Segment{}); }

  /// Adds to `before` the steps that a step which reads, or writes, [begin, end) must follow, and notes its access.
  void read(std::size_t begin, std::size_t end, StepIndex step, Lane lane, Clock& before) {
    for_each(begin, end, [&](Segment& segment) {
      advance(before, segment.written);
      segment.read[number_of(lane)] = step;
    });
  }
  void write(std::size_t begin, std::size_t end, StepIndex step, Lane lane, Clock& before) {
    for_each(begin, end, [&](Segment& segment) {
      advance(before, segment.written);
      advance(before, segment.read);
      segment.written = segment.read = kBeforeAll;
      segment.written[number_of(lane)] = step;
    });
  }

 private:
  struct Segment {
    Clock written = kBeforeAll, read = kBeforeAll;
  };

  /// Calls `visit` for the segments that make up [begin, end), cut at its ends.
  template <class Visit>
  void for_each(std::size_t begin, std::size_t end, const Visit& visit) {
    if (begin == end) return;
    cut(begin);
    cut(end);
    for (auto next = segments_.find(begin); next != segments_.end() && next->first < end; ++next) visit(next->second);
  }
  void cut(std::size_t place) {
    const auto behind = segments_.upper_bound(place);
    const auto at = std::prev(behind);
    if (at->first != place) segments_.emplace_hint(behind, place, at->second);
  }

  std::map<std::size_t, Segment> segments_;  // by begin; each reaches to the next
};

class WaitWriter {
 public:
  WaitWriter(Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan)
      : schedule_(schedule), storage_(storage), plan_(plan), known_(schedule.steps.size(), kBeforeAll) {
    last_of_lane_.fill(kNever);
  }

  void write() {
    for (StepIndex i = 0; i < static_cast<StepIndex>(schedule_.steps.size()); ++i) visit(i);
  }

 private:
  void visit(StepIndex index) {
    Step& step = schedule_.steps[static_cast<std::size_t>(index)];
    Clock before = kBeforeAll;
    for_each_access(schedule_, storage_, plan_, index, [&](const Access& access) {
      Accesses& tier = tiers_[static_cast<std::size_t>(access.tier)];
      access.writes ? tier.write(access.begin, access.end, index, step.lane, before)
                    : tier.read(access.begin, access.end, index, step.lane, before);
    });
    if (is_transfer(step.kind)) {
      visit_home(step, index, before);
    } else {
      visit_variables(step, index, before);
    }
    if (step.lane != Lane::compute) {
      StepIndex& issue = before[number_of(Lane::compute)];
      issue = std::max(issue, last_of_lane_[number_of(Lane::compute)]);
    }
    settle(index, before);
  }

  /// Variables that lie on the device: what communicates may read them beside the compute lane.
  void visit_variables(const Step& step, StepIndex index, Clock& before) {
    for (const auto* operands : {&step.inputs, &step.updated}) {
      for (const Operand& operand : *operands) {
        if (operand.kind != Operand::Kind::variable) continue;
        const auto variable = static_cast<std::size_t>(operand.index);
        operands == &step.inputs ? variables_.read(variable, variable + 1, index, step.lane, before)
                                 : variables_.write(variable, variable + 1, index, step.lane, before);
      }
    }
  }

  /// The home of a variable that is brought in from there, or back.
  void visit_home(const Step& step, StepIndex index, Clock& before) {
    for (const auto* operands : {&step.inputs, &step.outputs}) {
      if ((*operands)[0].kind != Operand::Kind::variable) continue;
      const auto variable = static_cast<std::size_t>((*operands)[0].index);
      operands == &step.inputs ? homes_.read(variable, variable + 1, index, step.lane, before)
                               : homes_.write(variable, variable + 1, index, step.lane, before);
    }
  }

  /// Writes down those of `before` that the step does not know to be over by what it follows anyway.
  void settle(StepIndex index, Clock before) {
    Step& step = schedule_.steps[static_cast<std::size_t>(index)];
    const std::size_t own = number_of(step.lane);
    Clock& known = known_[static_cast<std::size_t>(index)];
    if (last_of_lane_[own] != kNever) known = known_[static_cast<std::size_t>(last_of_lane_[own])];
    before[own] = kNever;
    std::sort(before.begin(), before.end(), std::greater<>());
    step.waits.clear();
    // Later steps know more: taken first, they make earlier ones needless.
    for (StepIndex wanted : before) {
      if (wanted == kNever) break;
      const std::size_t lane = number_of(schedule_.steps[static_cast<std::size_t>(wanted)].lane);
      if (known[lane] >= wanted) continue;
      step.waits.push_back(wanted);
      advance(known, known_[static_cast<std::size_t>(wanted)]);
    }
    known[own] = last_of_lane_[own] = index;
  }

  Schedule& schedule_;
  const StorageAssignment& storage_;
  const MemoryPlan& plan_;
  std::array<Accesses, kNumTiers> tiers_;
  Accesses homes_, variables_;  // one "byte" a variable
  std::vector<Clock> known_;    // by step: what is over when it is over
  Clock last_of_lane_;
};

}  // namespace

void add_waits(Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan) {
  const bool one_lane = std::all_of(schedule.steps.begin(), schedule.steps.end(),
                                    [](const Step& step) { return step.lane == Lane::compute; });
  if (!one_lane) WaitWriter(schedule, storage, plan).write();
}

}  // namespace sectionflow
