#include "tests/support/random_rests.h"

#include <algorithm>
#include <random>

namespace sectionflow::testing_support {
namespace {

/// Which line each step comes from.
std::vector<int> lines_of_steps(const Draft& draft) {
  std::vector<int> lines(draft.schedule.steps.size(), 0);
  const auto& step_of_line = draft.schedule.step_of_line;
  // A line that is no step has the number of the next: the last line with a step's number is the step's.
  for (std::size_t line = 0; line < step_of_line.size(); ++line) {
    const auto step = static_cast<std::size_t>(step_of_line[line]);
    if (step < lines.size()) lines[step] = static_cast<int>(line);
  }
  return lines;
}

/// The steps that use each buffer.
std::vector<std::vector<StepIndex>> uses_of_buffers(const Schedule& schedule) {
  std::vector<std::vector<StepIndex>> uses(schedule.buffers.size());
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    if (schedule.buffers[i].fixed_offset) uses[i].push_back(-1);
  }
  for (StepIndex step = 0; step < static_cast<StepIndex>(schedule.steps.size()); ++step) {
    const Step& s = schedule.steps[static_cast<std::size_t>(step)];
    for (const auto* operands : {&s.inputs, &s.outputs}) {
      for (const Operand& operand : *operands) {
        if (operand.kind != Operand::Kind::buffer) continue;
        auto& of_buffer = uses[static_cast<std::size_t>(operand.index)];
        if (of_buffer.empty() || of_buffer.back() != step) of_buffer.push_back(step);
      }
    }
  }
  return uses;
}

}  // namespace

std::vector<IdleStretch> idle_stretches(const Draft& draft) {
  std::vector<IdleStretch> stretches;
  const std::vector<int> line_of_step = lines_of_steps(draft);
  const auto uses = uses_of_buffers(draft.schedule);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Buffer& buffer = draft.schedule.buffers[i];
    if (!buffer.value.valid() || buffer.tier != Tier::device || buffer.bytes == 0) continue;
    for (std::size_t k = 1; k < uses[i].size(); ++k) {
      const int begin = uses[i][k - 1] < 0 ? 0 : line_of_step[static_cast<std::size_t>(uses[i][k - 1])] + 1;
      const int end = line_of_step[static_cast<std::size_t>(uses[i][k])];
      if (begin < end) stretches.push_back({buffer.value, begin, end, buffer.bytes});
    }
  }
  return stretches;
}

Script rest_at_random(const Script& script, PlanningTools& tools, std::uint64_t seed, double share, bool disk) {
  std::mt19937_64 random(seed);
  const auto from_to = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<Rest> rests;
  for (const IdleStretch& stretch : idle_stretches(tools.draft(script))) {
    if (static_cast<double>(random() % 1000) >= share * 1000) continue;
    Rest rest{.value = stretch.value};
    rest.out = from_to(stretch.begin, stretch.end);
    rest.in = from_to(rest.out, stretch.end);
    if (random() % 2 == 0) rest.hold = from_to(rest.out, rest.in);
    rest.on_disk = disk && random() % 2 == 0;
    rest.disk_out = from_to(rest.out, rest.in);
    rest.disk_in = from_to(rest.disk_out, rest.in);
    rests.push_back(rest);
  }
  return insert_rests(script, rests);
}

}  // namespace sectionflow::testing_support
