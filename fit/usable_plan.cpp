#include "fit/usable_plan.h"

#include <algorithm>

#include "base/bytes.h"
#include "fit/make_problem.h"
#include "schedule/check_schedule.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

/// What the plan has for the same fetches and updates; empty where it has nothing.
std::string nearest_text(const PlanContent& content, const ProgramFacts& wanted) {
  for (const ProgramPlan& program : content.programs) {
    const ProgramFacts& known = program.facts;
    if (!known.asks_for_the_same(wanted)) continue;
    if (known.feeds != wanted.feeds) return ", only of " + known.feeds_text();
    if (known.operations == wanted.operations) return ", only run in another way";
    return text_of(", only for another graph, of ", known.nodes, " operations");
  }
  return {};
}

/// Little more memory makes no other plan: what is a share of the memory that is free differs from start to start.
bool has_grown(std::size_t now, std::size_t then) {
  return now > then && now - then > then / 20;
}

}  // namespace

std::string log_text(const Error& error) {
  return error.message().substr(0, error.message().find('\n'));
}

std::string has_none_text(const PlanContent& content, const ProgramFacts& wanted) {
  return text_of(" has none for ", wanted.name(), " of ", wanted.feeds_text(), nearest_text(content, wanted));
}

std::string other_budgets(const ProgramPlan& plan, const TierBudgets& then, const TierBudgets& now) {
  if (has_grown(now.device, then.device)) {
    return text_of(" is for ", bytes_text(then.device), " of device memory, and there are ", bytes_text(now.device));
  }
  const bool was_scarce = plan.host_peak > then.host / 2 || (then.disk > 0 && plan.disk_peak > then.disk / 2);
  if (was_scarce && (has_grown(now.host, then.host) || has_grown(now.disk, then.disk))) {
    return text_of(" is for ", bytes_text(then.host), " of host memory and ", bytes_text(then.disk),
                   " of disk, and there are ", bytes_text(now.host), " and ", bytes_text(now.disk));
  }
  return {};
}

bool offloads(const ProgramPlan& plan) {
  return std::ranges::any_of(plan.instructions,
                             [](const PlannedInstruction& each) { return each.written < 0 && is_transfer(each.kind); });
}
bool runs_in_parts(const ProgramPlan& plan) {
  return std::ranges::any_of(plan.instructions, [](const PlannedInstruction& each) { return each.parts > 1; });
}
bool computes_again(const ProgramPlan& plan, const InstructionList& written) {
  return num_replays(plan) > num_replays(written);
}
std::ptrdiff_t num_replays(const ProgramPlan& plan) {
  return std::ranges::count(plan.instructions, true, &PlannedInstruction::replay);
}
std::ptrdiff_t num_replays(const InstructionList& list) {
  return std::ranges::count(list.instructions, true, &Instruction::replay);
}

std::string forbidden(const ProgramPlan& plan, std::ptrdiff_t written_replays, const FitRequest& request) {
  if (!request.may_swap && offloads(plan)) return " offloads, which is not allowed";
  if (!request.may_split && runs_in_parts(plan)) return " runs in parts, which is not allowed";
  return !request.may_recompute && num_replays(plan) > written_replays ? " computes again, which is not allowed" : "";
}

Draft checked_draft(const InstructionList& list, const WrittenList& written, PlanningTools& tools,
                    const Profile& profile) {
  Draft draft = tools.draft(list);
  StepTimes times(tools, profile);
  tools.predicted_seconds = predict(draft, times).seconds;
  if (std::ranges::any_of(list.instructions, [](const Instruction& each) { return each.parts > 1; })) {
    Draft whole = tools.draft(without_repeats(written.list()));
    tools.predicted_seconds = std::max(tools.predicted_seconds, predict(whole, times).seconds);
  }
  check_schedule(draft.schedule, tools.kernels(), draft.storage, draft.plan, tools.graph().graph(),
                 tools.guard_bytes());
  return draft;
}

}  // namespace sectionflow
