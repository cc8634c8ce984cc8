#include "swap/insert_swaps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "swap/choose_rests.h"
#include "swap/relaxed_play.h"
#include "swap/swap_notes.h"
#include "swap/swap_problem.h"
#include "swap/time_rests.h"

namespace sectionflow {
namespace {

/// Budgets that are planned for, from the least that any plan can reach to what the program needs without rests.
constexpr std::size_t kRungs = 16;
/// For each budget, what rests is also chosen as for budgets so many rungs lower: what then is free lets values come
/// back earlier.
constexpr std::size_t kSlackRungs = 2;
/// How often a plan is made with less room than its budget, because its buffers did not lie close enough.
constexpr int kTightenings = 2, kTighteningsOfTheLeast = 5;
/// How often the times that copies are expected to cause are taken as the base of their timing.
constexpr int kRetimings = 2;
/// The share of the computing time that no other plan is worth looking for.
constexpr double kNothing = 1e-3;

/// What rests, and when it travels.
struct Proposal {
  std::size_t rung = 0;    ///< the budget it is made for
  std::size_t device = 0;  ///< bytes of the planned region that its timing counts on
  std::size_t slack = 0;   ///< of these, bytes that are not counted on when choosing what rests
  std::size_t host = 0;    ///< bytes of the host's planned region
  std::vector<Decision> decisions{};
  double least_seconds = 0;  ///< no schedule of these decisions is faster
};

/// A proposal, drafted.
struct Attempt {
  std::size_t rung = 0;
  std::vector<Decision> decisions{};
  Script script{};
  std::size_t device_peak = 0;  ///< variables included
  std::size_t host_peak = 0, disk_peak = 0;
  Prediction prediction{};
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
    std::vector<Proposal> proposals = all_proposals();
    std::stable_sort(proposals.begin(), proposals.end(),
                     [](const Proposal& a, const Proposal& b) { return a.least_seconds < b.least_seconds; });
    std::optional<Attempt> best;
    for (const Proposal& proposal : proposals) try_out(proposal, best);
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

  /// One for each budget up to the one given; the lowest has one always.
  std::vector<Proposal> all_proposals() const {
    std::vector<Proposal> proposals;
    const std::vector<std::size_t> rungs = ladder();
    for (std::size_t i = rungs.size(); i-- > 0;) {
      if (rungs[i] > tools_.budgets().device && i > 0) continue;
      proposals.push_back(proposal_for(rungs, i));
    }
    return proposals;
  }

  /// With as much slack as promises the most; of equal promises the one that counts on the least room.
  Proposal proposal_for(const std::vector<std::size_t>& rungs, std::size_t i) const {
    const std::size_t most = problem_.carrier == CopyCarrier::threads ? std::min(i, kSlackRungs) : 0;
    std::optional<Proposal> best;
    for (std::size_t slack = 0; slack <= most; ++slack) {
      Proposal proposal{.rung = rungs[i],
                        .device = round_up(above(rungs[i], variables())),
                        .slack = rungs[i] - rungs[i - slack],
                        .host = host_room()};
      decide(proposal);
      if (!best || cost(proposal.least_seconds) <= cost(best->least_seconds)) best = std::move(proposal);
    }
    return std::move(*best);
  }

  void decide(Proposal& proposal) const {
    const std::vector<int> resting = choose_rests(problem_, above(proposal.device, proposal.slack));
    const std::vector<bool> on_disk = choose_disk(problem_, resting, proposal.host);
    std::vector<StepTime> times = plain_times_;
    for (int i = 0; i <= kRetimings; ++i) {
      auto decisions = time_rests(problem_, resting, on_disk, times, proposal.device, proposal.host);
      RelaxedPlay play = play_relaxed(problem_, decisions);
      if (i == 0 || play.seconds < proposal.least_seconds) {
        proposal.decisions = std::move(decisions);
        proposal.least_seconds = play.seconds;
      }
      times = std::move(play.steps);
    }
  }

  /// Drafts the proposal, and again with less room where its buffers do not lie close enough, as long as it may turn
  /// out better than `best`.
  void try_out(Proposal proposal, std::optional<Attempt>& best) {
    const bool least = proposal.rung == ladder().front();
    for (int i = 0; i < (least ? kTighteningsOfTheLeast : kTightenings); ++i) {
      if (best && fits(*best) && cost(proposal.least_seconds) >= cost(best->prediction.seconds)) return;
      Attempt attempt = drafted(proposal);
      const std::size_t device_excess = above(attempt.device_peak, proposal.rung);
      const std::size_t host_excess = above(attempt.host_peak, tools_.budgets().host);
      if (!best || better(attempt, *best)) best = std::move(attempt);
      if (device_excess == 0 && host_excess == 0) return;
      proposal.device = above(proposal.device, device_excess);
      proposal.host = above(proposal.host, host_excess);
      decide(proposal);
    }
  }

  Attempt drafted(const Proposal& proposal) {
    Attempt attempt{.rung = proposal.rung, .decisions = proposal.decisions};
    attempt.script = insert_rests(script_, rests_of(problem_, attempt.decisions));
    Draft draft = tools_.draft(attempt.script);
    attempt.device_peak = draft.device_peak_bytes;
    attempt.host_peak = draft.host_peak_bytes;
    attempt.disk_peak = draft.plan.disk.peak_bytes;
    attempt.prediction = predict(draft, times_);
    attempt.prediction.seconds = cost(attempt.prediction.seconds);
    return attempt;
  }

  /// What plans are compared by: seconds in steps of next to nothing, upwards.
  double cost(double seconds) const {
    const double compute = plain_times_.empty() ? 0 : plain_times_.back().end;
    const double step = kNothing * compute;
    return step > 0 ? std::ceil(seconds / step) * step : seconds;
  }

  bool fits(const Attempt& attempt) const {
    const TierBudgets& budgets = tools_.budgets();
    return attempt.rung <= budgets.device && attempt.device_peak <= budgets.device &&
           attempt.host_peak <= budgets.host && attempt.disk_peak <= budgets.disk;
  }

  bool better(const Attempt& a, const Attempt& b) const {
    if (fits(a) != fits(b)) return fits(a);
    if (fits(a)) return a.prediction.seconds < b.prediction.seconds;
    const auto excess = [&](const Attempt& attempt) {
      return above(attempt.host_peak, tools_.budgets().host) + above(attempt.disk_peak, tools_.budgets().disk);
    };
    return excess(a) != excess(b) ? excess(a) < excess(b) : a.device_peak < b.device_peak;
  }

  std::size_t host_room() const {
    return above(tools_.budgets().host, round_up(tools_.variables().home_end_bytes, alignment_of(Tier::host)));
  }
  std::size_t variables() const { return round_up(tools_.variables().end_bytes); }

  const Script& script_;
  PlanningTools& tools_;
  StepTimes times_;
  SwapProblem problem_;
  std::vector<StepTime> plain_times_;
  std::size_t whole_bytes_ = 0;
};

/// A number that tells profiles apart.
std::size_t digest_of(const Profile& profile) {
  std::size_t digest = profile.kernel_seconds.size();
  const auto add = [&](std::size_t hash) { digest = digest * 1'000'003 + hash; };
  for (const auto& [key, seconds] : profile.kernel_seconds) {
    add(std::hash<std::string>()(key));
    add(std::hash<double>()(seconds));
  }
  for (double number : {profile.flops, profile.memory_bandwidth, profile.launch_seconds, profile.link_out,
                        profile.link_in, profile.disk_out, profile.disk_in}) {
    add(std::hash<double>()(number));
  }
  return digest;
}

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
  session.set_script_editor(text_of("insert_swaps ", digest_of(*profile)),
                            [profile](const Script& script, PlanningTools& tools) {
                              return insert_swaps(script, tools, {.profile = profile.get()});
                            });
}

}  // namespace sectionflow
