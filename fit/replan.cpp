// When the programs of a session are planned again, since they have come to take longer, and by which speeds.

#include <glog/logging.h>

#include <algorithm>
#include <any>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "fit/program_fitter.h"
#include "fit/usable_plan.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

/// Of what a profile predicts, so much at least it must have measured for its seconds to be this machine's.
constexpr double kShareOfOwnSeconds = 0.9;
/// Of what a program takes, so much at most another plan must be predicted to take: profiles are no more exact.
constexpr double kWorthIt = 0.99;

std::string duration(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 1 ? "%.3g ms" : "%.3g s", seconds < 1 ? 1e3 * seconds : seconds);
  return text;
}

/// Whether it is more than the written list's instructions once: only then another plan may be quicker.
bool does_more(const ProgramPlan& plan) {
  return std::ranges::any_of(plan.instructions, [](const PlannedInstruction& each) {
    return each.replay || each.parts > 1 || (each.written < 0 && is_transfer(each.kind));
  });
}

}  // namespace

ExecutedSchedule ProgramFitter::executed(const Executable& program, const ConcreteGraph& graph) const {
  return {program.schedule, graph, program.kernels, engine_.carrier(), engine_.options().link_bandwidth};
}

/// By the profile as it is now.
double ProgramFitter::predicted_seconds(const Executable& program, const ConcreteGraph& graph) const {
  StepTimes times(graph, program.kernels, engine_.carrier(), engine_.options().link_bandwidth, profile_);
  return simulate(program.schedule, times.of(program.schedule), times.drags_of(program.schedule)).seconds;
}

ProgramFitter::Watched ProgramFitter::watched(const Executable& program) const {
  const ConcreteGraph graph(engine_.graph(), program.signature);
  const ProgramFacts facts = WrittenList(program.written, graph).facts();
  Watched watched{.by = this, .fingerprint = facts.fingerprint, .name = facts.name(), .watch = {}};
  const ProgramPlan* const plan = planned_.find(facts.fingerprint);
  if (program.report.initializes || plan == nullptr || !does_more(*plan)) return watched;
  // What sections say of a list only their writer knows.
  if (with_policies_.contains(facts.fingerprint)) return watched;
  const bool is_own = measured_share(executed(program, graph), profile_) >= kShareOfOwnSeconds;
  const double predicted = is_own ? predicted_seconds(program, graph) : 0;
  watched.watch = is_own && !again_.contains(facts.fingerprint) ? DriftWatch::by_prediction(predicted)
                                                                : DriftWatch::by_first(predicted);
  return watched;
}

TimesWanted ProgramFitter::times_wanted(Executable& program) {
  if (replan_ == Replan::never || num_replans_ >= kMostReplans) return TimesWanted::none;
  const Watched* known = std::any_cast<Watched>(&program.planner_note);
  if (known == nullptr || known->by != this) {
    program.planner_note = watched(program);
    known = std::any_cast<Watched>(&program.planner_note);
  }
  if (!known->watch) return TimesWanted::none;
  return known->wants_steps ? TimesWanted::steps : TimesWanted::whole;
}

void ProgramFitter::note_times(Executable& program, const ExecutionTimes& times) {
  Watched* const known = std::any_cast<Watched>(&program.planner_note);
  if (known == nullptr || known->by != this || !known->watch || known->is_due) return;
  if (known->wants_steps) {
    if (times.steps.empty()) return;
    const ConcreteGraph graph(engine_.graph(), program.signature);
    set_profile(corrected_profile(executed(program, graph), times.steps, profile_));
    has_own_profile_ = true;
    known->wants_steps = false;
    known->is_due = true;
    return;
  }
  DriftWatch& watch = *known->watch;
  const int in_a_row = kStepsInARow << num_replans_;
  if (!watch.add(times.seconds, in_a_row)) return;
  known->wants_steps = true;
  LOG(INFO) << "fit_budget: " << known->name << " has taken " << duration(watch.measured_seconds()) << ", where "
            << duration(watch.expected_seconds()) << " were expected, " << in_a_row
            << " times in a row: its next step is timed, and then it is planned again";
}

bool ProgramFitter::is_due(const Executable& program) const {
  const Watched* const known = std::any_cast<Watched>(&program.planner_note);
  return known != nullptr && known->by == this && known->is_due;
}

/// Where it is stopped from outside the program goes on by the plan that it has, and stays due.
bool ProgramFitter::plan_again(Executable& program) {
  if (request_.stop && request_.stop()) return false;
  try {
    return replaced_plan(program);
  } catch (const StoppedError& error) {
    LOG(INFO) << "fit_budget: a program is not planned again, and goes on as it was: " << error.message();
    return false;
  }
}

/// Beside other variables it may be searched for too, which may be stopped. What fails, as on a full disk, counts as a
/// look that found nothing: it would fail at the next step again.
void ProgramFitter::undo_plan_again(Executable& program, const Error* why) {
  if (!before_replan_) return;
  const bool has_failed = why != nullptr && why->code() != ErrorCode::planning_stopped;
  planned_ = std::move(before_replan_->planned);
  known_ = std::move(before_replan_->known);
  again_ = std::move(before_replan_->again);
  refused_ = std::move(before_replan_->refused);
  if (!has_failed) {
    program.planner_note = std::move(before_replan_->watched);
    num_replans_ = before_replan_->num_replans;
  }
  before_replan_.reset();
  LOG_IF(WARNING, has_failed) << log_text(*why) << ": a program that was planned again for it goes on as it was";
  LOG_IF(INFO, !has_failed)
      << "fit_budget: a program is not planned again, since that was not finished, and goes on as it was";
}

bool ProgramFitter::replaced_plan(Executable& program) {
  Watched& known = std::any_cast<Watched&>(program.planner_note);
  const ConcreteGraph graph(engine_.graph(), program.signature);
  const WrittenList written(program.written, graph);
  const double now = predicted_seconds(program, graph);
  PlanningTools tools = engine_.tools_for(program, graph);
  const FittedList fitted = fit_list(program.written, tools, request_);
  before_replan_ = BeforeReplan{known, planned_, known_, again_, refused_, num_replans_};
  known.is_due = false;
  ++num_replans_;
  ProgramPlan plan = described(fitted, written, written.facts());
  const bool is_taken = fitted.fits(tools.budgets()) && fitted.seconds < kWorthIt * now;
  const std::string text =
      text_of("planned again after ", duration(known.watch->measured_seconds()), " in place of ",
              duration(known.watch->expected_seconds()), ": by the speeds that were measured it takes ", duration(now),
              is_taken ? text_of(" as it was, and ", duration(fitted.seconds), " from here on")
                       : " and no plan is quicker by more than 1 %");
  LOG(INFO) << "fit_budget: " << known.name << ": " << text << "; " << num_replans_ << " of at most " << kMostReplans;
  // As slow as it is now is what is expected: only what gets slower still is worth another look.
  known.watch = DriftWatch::by_first(now);
  if (!is_taken) return false;
  again_[known.fingerprint] = "fit_budget: " + text;
  planned_.put(plan);
  known_.forget(known.fingerprint);
  known_.put(known.fingerprint, KnownPlans::Place::of(written, tools),
             {.plan = std::move(plan), .seconds = fitted.seconds});
  return true;
}

}  // namespace sectionflow
