#include "swap/insert_swaps.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "swap/choose_rests.h"
#include "swap/swap_notes.h"
#include "swap/swap_problem.h"
#include "swap/time_rests.h"

namespace sectionflow {
namespace {

/// Budgets that are planned for, from the least that any plan can reach to what the program needs without rests.
constexpr std::size_t kRungs = 16;
/// How often a plan is made with less room than its budget, because its buffers did not lie close enough.
constexpr int kTightenings = 4;
/// How often the expected times of a plan with copy threads are taken as the base of the next.
constexpr int kRetimings = 1;

/// One plan, drafted.
struct Attempt {
  std::size_t rung = 0;  ///< the budget it was made for
  std::vector<Decision> decisions{};
  Script script{};
  std::size_t device_peak = 0;  ///< variables included
  std::size_t host_peak = 0, disk_peak = 0;
  Prediction prediction{};
  std::vector<StepTime> own_times{};  ///< of the problem's steps
};

std::size_t above(std::size_t bytes, std::size_t limit) {
  return bytes > limit ? bytes - limit : 0;
}

class SwapPlanner {
 public:
  SwapPlanner(const Script& script, PlanningTools& tools, const SwapRequest& request, const Profile& profile)
      : script_(script), tools_(tools), times_(tools, profile) {
    Draft draft = tools.draft(script);
    problem_ = make_swap_problem(script, draft, tools, request, times_);
    plain_times_ = times_without_waits(problem_);
    whole_bytes_ = draft.device_peak_bytes;
  }

  /// The best of the plans for the rungs of a ladder of budgets up to the one given. The ladder depends on the script
  /// alone, so that a larger budget has all the plans of a smaller one to choose from.
  Attempt plan() {
    std::optional<Attempt> best;
    const std::vector<std::size_t> rungs = ladder();
    for (auto rung = rungs.rbegin(); rung != rungs.rend(); ++rung) {
      const bool lowest = std::next(rung) == rungs.rend();
      if (*rung > tools_.budgets().device && !lowest) continue;
      climb(*rung, best);
    }
    return std::move(*best);
  }

  const SwapProblem& problem() const { return problem_; }

 private:
  /// Ascending.
  std::vector<std::size_t> ladder() const {
    const std::size_t top = whole_bytes_, bottom = std::min(top, variables() + least_device_bytes(problem_));
    std::vector<std::size_t> rungs;
    for (std::size_t i = 0; i <= kRungs; ++i) {
      const std::size_t rung = bottom + (top - bottom) / kRungs * i;
      rungs.push_back(i == kRungs ? top : rung);
    }
    rungs.erase(std::unique(rungs.begin(), rungs.end()), rungs.end());
    return rungs;
  }

  /// Plans for one rung; takes what is better than `best`.
  void climb(std::size_t rung, std::optional<Attempt>& best) {
    std::size_t device = round_up(above(rung, variables())), host = host_room();
    for (int i = 0; i < kTightenings; ++i) {
      const std::vector<int> resting = choose_rests(problem_, device);
      if (best && fits(*best) && least_seconds(resting) >= best->prediction.seconds) return;
      const std::vector<bool> on_disk = choose_disk(problem_, resting, host);
      Attempt attempt = attempt_at(rung, time_rests(problem_, resting, on_disk, plain_times_, device, host));
      const std::size_t device_excess = above(attempt.device_peak, rung);
      const std::size_t host_excess = above(attempt.host_peak, tools_.budgets().host);
      for (int k = 0; k < kRetimings && problem_.carrier == CopyCarrier::threads; ++k) {
        Attempt again = attempt_at(rung, time_rests(problem_, resting, on_disk, attempt.own_times, device, host));
        consider(std::exchange(attempt, std::move(again)), best);
      }
      consider(std::move(attempt), best);
      if (device_excess == 0 && host_excess == 0) return;
      device = above(device, device_excess);
      host = above(host, host_excess);
    }
  }

  Attempt attempt_at(std::size_t rung, std::vector<Decision> decisions) {
    Attempt attempt{.rung = rung, .decisions = std::move(decisions)};
    const std::vector<Rest> rests = rests_of(problem_, attempt.decisions);
    attempt.script = insert_rests(script_, rests);
    Draft draft = tools_.draft(attempt.script);
    attempt.device_peak = draft.device_peak_bytes;
    attempt.host_peak = draft.host_peak_bytes;
    attempt.disk_peak = draft.plan.disk.peak_bytes;
    attempt.prediction = predict(draft, times_);
    attempt.own_times = own_times(draft.schedule, rests, attempt.prediction.steps);
    return attempt;
  }

  /// The times of the problem's own steps in a schedule with rests.
  std::vector<StepTime> own_times(const Schedule& schedule, const std::vector<Rest>& rests,
                                  const std::vector<StepTime>& times) const {
    std::vector<int> inserted(script_.lines.size() + 1, 0);  // before each line, then before it and those before
    for (const Rest& rest : rests) {
      for (int place : {rest.out, rest.in}) ++inserted[static_cast<std::size_t>(place)];
      if (rest.hold >= 0) ++inserted[static_cast<std::size_t>(rest.hold)];
      for (int place : {rest.disk_out, rest.disk_in}) inserted[static_cast<std::size_t>(place)] += rest.on_disk ? 1 : 0;
    }
    std::partial_sum(inserted.begin(), inserted.end(), inserted.begin());
    std::vector<StepTime> own;
    for (int line : problem_.line_of_step) {
      const auto moved = static_cast<std::size_t>(line + inserted[static_cast<std::size_t>(line)]);
      const auto step = static_cast<std::size_t>(schedule.step_of_line[moved]);
      own.push_back(step < times.size() ? times[step] : StepTime{times.back().end, times.back().end});
      // Steps of one line: those before its own are those of variables that come from home for it.
      if (own.size() > 1 && line == problem_.line_of_step[own.size() - 2]) own[own.size() - 2].end = own.back().start;
    }
    return own;
  }

  /// No plan with these rests can be faster.
  double least_seconds(const std::vector<int>& resting) const {
    const double compute = plain_times_.empty() ? 0 : plain_times_.back().end;
    double out = 0, in = 0;
    for (int number : resting) {
      out += problem_.candidates[static_cast<std::size_t>(number)].out_seconds;
      in += problem_.candidates[static_cast<std::size_t>(number)].in_seconds;
    }
    return problem_.carrier == CopyCarrier::team ? compute + out + in : std::max({compute, out, in});
  }

  bool fits(const Attempt& attempt) const {
    const TierBudgets& budgets = tools_.budgets();
    return attempt.rung <= budgets.device && attempt.device_peak <= budgets.device &&
           attempt.host_peak <= budgets.host && attempt.disk_peak <= budgets.disk;
  }

  void consider(Attempt attempt, std::optional<Attempt>& best) const {
    if (!best || better(attempt, *best)) best = std::move(attempt);
  }

  bool better(const Attempt& a, const Attempt& b) const {
    if (fits(a) != fits(b)) return fits(a);
    if (fits(a)) return a.prediction.seconds < b.prediction.seconds;
    const auto excess = [&](const Attempt& attempt) {
      return above(attempt.host_peak, tools_.budgets().host) + above(attempt.disk_peak, tools_.budgets().disk);
    };
    return excess(a) != excess(b) ? excess(a) < excess(b) : a.device_peak < b.device_peak;
  }

  std::size_t host_room() const { return above(tools_.budgets().host, round_up(tools_.variables().home_end_bytes)); }
  std::size_t variables() const { return round_up(tools_.variables().end_bytes); }

  const Script& script_;
  PlanningTools& tools_;
  StepTimes times_;
  SwapProblem problem_;
  std::vector<StepTime> plain_times_;
  std::size_t whole_bytes_ = 0;
};

}  // namespace

Script insert_swaps(const Script& script, PlanningTools& tools, const SwapRequest& request) {
  const Profile nominal = Profile::nominal();
  SwapPlanner planner(script, tools, request, request.profile != nullptr ? *request.profile : nominal);
  Attempt attempt = planner.plan();
  tools.predicted_seconds = attempt.prediction.seconds;
  for (std::string& note : swap_notes(planner.problem(), attempt.decisions, attempt.prediction)) {
    tools.notes.push_back(std::move(note));
  }
  return std::move(attempt.script);
}

void insert_swaps(Session& session, const SwapOptions& options) {
  const auto profile = std::make_shared<const Profile>(options.profile.value_or(Profile::nominal()));
  session.set_script_editor("insert_swaps", [profile](const Script& script, PlanningTools& tools) {
    return insert_swaps(script, tools, {.profile = profile.get()});
  });
}

}  // namespace sectionflow
