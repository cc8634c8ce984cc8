#include "swap/swap_problem.h"

#include <algorithm>

#include "base/bytes.h"

namespace sectionflow {
namespace {

/// Live bytes of each tier by step.
void add_live_bytes(const Draft& draft, SwapProblem& problem) {
  const std::size_t num_steps = draft.schedule.steps.size();
  for (auto* live : {&problem.device, &problem.host, &problem.disk}) live->assign(num_steps, 0);
  for (const Storage& storage : draft.storage.storages) {
    auto& live = storage.tier == Tier::device ? problem.device
                 : storage.tier == Tier::host ? problem.host
                                              : problem.disk;
    for (StepIndex step = storage.life.first; step <= storage.life.last && storage.bytes > 0; ++step) {
      live[static_cast<std::size_t>(step)] += round_up(storage.bytes, alignment_of(storage.tier));
    }
  }
}

StepIndex step_before_instruction(const SwapProblem& problem, int instruction) {
  const auto& instructions = problem.instruction_of_step;
  return static_cast<StepIndex>(std::lower_bound(instructions.begin(), instructions.end(), instruction) -
                                instructions.begin());
}

}  // namespace

SwapProblem make_swap_problem(const InstructionList& list, const Draft& draft, const PlanningTools& tools,
                              const OffloadPolicies& request, StepTimes& times) {
  SwapProblem problem{.carrier = tools.carrier(),
                      .has_disk = tools.budgets().disk > 0,
                      .seconds = times.of(draft.schedule),
                      .instruction_of_step = instructions_of_steps(draft.schedule),
                      .step_names = {},
                      .num_instructions = static_cast<int>(list.instructions.size()),
                      .device = {},
                      .host = {},
                      .disk = {},
                      .candidates = {}};
  // Communications take no time of the compute lane, nor does what the disk moves of variables.
  for (std::size_t i = 0; i < problem.seconds.size(); ++i) {
    const Lane lane = draft.schedule.steps[i].lane;
    if (lane == Lane::communicate || lane == Lane::disk_out || lane == Lane::disk_in) problem.seconds[i] = 0;
  }
  for (const Step& step : draft.schedule.steps) {
    const Pass& pass = draft.schedule.passes[static_cast<std::size_t>(step.pass)];
    std::string name = tools.graph().graph().node(step.node).label();
    if (pass.kind != Pass::Kind::whole) name += " (" + pass.text() + ")";
    problem.step_names.push_back(std::move(name));
  }
  add_live_bytes(draft, problem);
  for (const IdleStretch& stretch : idle_stretches(draft)) {
    const Placement placement = request.placement ? request.placement(stretch) : Placement::automatic;
    if (placement == Placement::keep) continue;
    const int storage = draft.storage.storage_of_buffer[static_cast<std::size_t>(stretch.buffer)];
    OffloadCandidate candidate{.stretch = stretch,
                               .bytes = round_up(draft.storage.storages[static_cast<std::size_t>(storage)].bytes),
                               .host_bytes = round_up(stretch.bytes, alignment_of(Tier::host)),
                               .out_seconds = times.transfer(StepKind::copy_out, stretch.bytes),
                               .in_seconds = times.transfer(StepKind::copy_in, stretch.bytes),
                               .drag_seconds = times.drag(stretch.bytes),
                               .disk_out_seconds = times.transfer(StepKind::disk_write, stretch.bytes),
                               .disk_in_seconds = times.transfer(StepKind::disk_read, stretch.bytes),
                               .placement = placement,
                               .earliest_in = stretch.after + 1};
    if (request.earliest_return) {
      const int instruction = std::clamp(request.earliest_return(stretch), stretch.begin, stretch.end);
      candidate.earliest_in =
          std::clamp(step_before_instruction(problem, instruction), stretch.after + 1, stretch.before);
    }
    problem.candidates.push_back(candidate);
  }
  return problem;
}

std::vector<Offload> offloads_of(const SwapProblem& problem, const std::vector<Decision>& decisions) {
  std::vector<Offload> offloads;
  for (const Decision& decision : decisions) {
    const IdleStretch& stretch = problem.candidates[static_cast<std::size_t>(decision.candidate)].stretch;
    const auto instruction = [&](StepIndex step) {
      return std::clamp(problem.instruction_before(step), stretch.begin, stretch.end);
    };
    offloads.push_back({.value = stretch.value,
                        .out = stretch.begin,
                        .in = instruction(decision.in),
                        .hold = decision.hold < 0 ? -1 : instruction(decision.hold),
                        .on_disk = decision.on_disk,
                        .disk_out = instruction(decision.disk_out),
                        .disk_in = instruction(decision.disk_in)});
  }
  return offloads;
}

}  // namespace sectionflow
