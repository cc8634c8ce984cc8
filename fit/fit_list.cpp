#include "fit/fit_list.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/fit_notes.h"
#include "fit/joint_lists.h"
#include "fit/list_drafts.h"
#include "fit/make_problem.h"
#include "fit/search_watch.h"
#include "planning/frontier_cache.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

/// Of the ladder of budgets that swapping may begin with. They do not depend on the budget that is asked for, so that a
/// larger one chooses among more.
constexpr int kStartsOfSwaps = 8;

/// The share of a budget by which a list may take less than its plan: kernels of replays may write in place where first
/// executions do not.
constexpr std::size_t kBetterPacked = 50;

/// The share of what any list needs at least by which the offloaded one may take more for nobody to look for less by
/// computing again and offloading at once.
constexpr std::size_t kHardlyAbove = 64;

/// Bounds, plans and lists add up seconds in other orders.
constexpr double kRounding = 1e-9;

/// In place of a rung, of which it is not told what more and less memory would do.
constexpr int kUnpriced = -1;

using Candidate = FittedList;

}  // namespace

class ListFitter::Fitting {
 public:
  Fitting(const InstructionList& list, PlanningTools& tools, const FitRequest& request)
      : tools_(tools),
        request_(request),
        profile_(request.profile != nullptr ? *request.profile : nominal_),
        drafts_(tools, request_.policies, profile_, watch_.asking()),
        given_(list),
        once_(plans_repeats() && request.least == nullptr ? without_repeats(list) : list) {}

  FittedList fitted() {
    best_.reset();
    least_ = 0;
    least_is_a_floor_ = has_searched_ = others_refuse_ = false;
    offer(as_it_is());
    if (limit() <= least_seconds()) return *std::move(best_);
    request_.least != nullptr ? fit_between_ends() : fit_freely();
    best_->others_lack_capacity = !fits(*best_) && others_refuse_;
    return *std::move(best_);
  }

  const FittedList& as_it_is() {
    if (!as_it_is_) as_it_is_.emplace(drafts_.plain(once_));
    return *as_it_is_;
  }

  const planning::Problem& problem() {
    if (!problem_) {
      const InstructionList list = drafts_.with_forced(once_);
      problem_.emplace(make_list_problem(list, tools_.draft(list), tools_, drafts_.times(), InPlaceRuns::joined,
                                         request_.policies.may_repeat));
    }
    return problem_->problem();
  }

  bool fits(const Candidate& candidate) const { return drafts_.fits(candidate); }
  std::size_t least_device_bytes() const { return least_; }
  bool least_is_enough() const { return !others_refuse_ && !least_is_a_floor_; }
  bool has_searched_little() {
    if (!has_searched_ || request_.effort == 0 || request_.least != nullptr) return false;
    return request_.effort < planning::default_frontier_effort(problem(), frontier_->num_rungs());
  }
  double seconds_of_least_memory() {
    make_frontier();
    int rung = 0;
    while (!frontier_->rung(rung).plan) ++rung;  // the last one has the list as it is
    return seconds_of(frontier_->rung(rung));
  }
  bool least_is_exact() const { return !others_refuse_ && (!request_.may_recompute || request_.least != nullptr); }

 private:
  bool plans_repeats() const { return request_.may_recompute && !is_planned_elsewhere(given_); }

  /// What no list counts as faster than: the list as it is, which is taken where it fits. Plans of copies are rounded
  /// up: where policies offload in any case and it waits for none, others are not looked at.
  double least_seconds() {
    if (!drafts_.has_forced() || !plans_repeats()) return as_it_is().seconds;
    if (!least_seconds_) least_seconds_ = drafts_.counted(once_, planning::default_cost(problem())) * (1 + kRounding);
    return *least_seconds_;
  }

  void fit_freely() {
    // Sections as they are cut are one list among others: what needs less may be quicker still.
    if (once_.instructions.size() < given_.instructions.size()) offer(drafts_.plain(given_));
    const std::size_t proved = request_.tells_exact_least ? 0 : drafts_.least_of_any(once_);
    least_is_a_floor_ = proved > tools_.budgets().device;
    if (least_is_a_floor_) return void(least_ = proved);
    if (plans_repeats()) recompute();
    if (request_.may_swap) swap(once_, {});
    if (fits(*best_) || !is_hardly_above(proved)) {
      if (request_.may_swap && frontier_) swap_rungs();
      if (may_join()) join();
    }
    // With more device memory less would be off it: all that is known is that neither this budget nor less will do.
    if (!fits(*best_) && others_refuse_ && !request_.tells_short_tier)
      least_ = std::max(proved, tools_.budgets().device + 1);
  }

  /// Whether device memory is within next to nothing of what any list needs, and less than what offloading alone does
  /// with. Other tiers do not decide: where this is so it is with less device memory too, whatever they have.
  bool is_hardly_above(std::size_t proved) {
    const std::size_t device = tools_.budgets().device, above = proved + proved / kHardlyAbove;
    if (!plans_repeats() || !request_.may_swap || device >= above) return false;
    return device < least_offloaded(once_) && least_offloaded(once_) <= above;
  }

  std::size_t least_offloaded(const InstructionList& list) {
    if (least_offloaded_ == 0) least_offloaded_ = drafts_.least_offloaded(list);
    return least_offloaded_;
  }

  /// Where neither the list nor the one with the most again fits, nothing else is looked for, unless it is host memory
  /// or the disk that is short: lists between them may need less there, of which none counts in less device memory than
  /// the list with the most again does with.
  void fit_between_ends() {
    offer(drafts_.plain(*request_.least));
    swap(*request_.least, {});
    if (!fits(*best_) && (!others_refuse_ || tools_.budgets().device < least_offloaded(*request_.least))) return;
    recompute();
    swap(once_, {});
    swap_rungs();
  }

  void make_frontier() {
    has_searched_ = true;
    planning::FrontierOptions options;
    const bool has_halves = once_.half < static_cast<int>(once_.instructions.size());
    options.order_fixed = request_.order_fixed || has_halves || drafts_.has_forced();
    options.effort = request_.effort;
    options.num_rungs = request_.num_rungs;
    options.progress = [this](int rungs) { watch_.tell("budgets searched", rungs, frontier_->num_rungs()); };
    options.check = watch_.asking();
    if (frontier_) return frontier_->set_watch(std::move(options.progress), std::move(options.check));
    planning::FrontierCache& cache = request_.frontiers != nullptr ? *request_.frontiers : own_frontiers_;
    frontier_ = cache.of(problem(), std::move(options));
  }

  /// What the search finds without copies: the quickest list that fits.
  void recompute() {
    make_frontier();
    const std::size_t capacity = drafts_.device_capacity();
    if (drafts_.has_forced() || request_.least != nullptr) return recompute_each(capacity);
    const int within = frontier_->last_within(static_cast<std::int64_t>(capacity + capacity / kBetterPacked));
    const int highest = std::max(within, 0);
    bool found = false;
    int fitting = highest;  // the highest rung whose own plan finds a place, or -1
    for (; fitting >= 0; --fitting) {
      frontier_->search_beside(fitting);  // what a little more and a little less would do is told
      const int quickest = quickest_up_to(fitting);
      auto candidate = candidate_of(frontier_->rung(quickest), quickest == fitting ? fitting : kUnpriced);
      if (!candidate) continue;
      found = true;
      watch_.tell("lists drafted", highest - fitting + 1, highest + 1);
      const bool enough = fits(*candidate);
      offer(std::move(*candidate));
      if (enough) break;
    }
    place_with_slack(fitting + 1, within);
    // Where the ladder's lowest rungs have no plan, the lowest that has one tells the least that would do.
    for (int rung = highest + 1; !found && rung < frontier_->num_rungs(); ++rung) {
      std::optional<Candidate> candidate = candidate_of(frontier_->rung(rung));
      if (!candidate) continue;
      found = true;
      offer(std::move(*candidate));
    }
  }

  /// Where the problem knows a list less well, as one that offloads or has what is fed twice, the rungs above are asked
  /// too, and each for itself.
  void recompute_each(std::size_t capacity) {
    constexpr std::size_t kShare = 8;
    const int highest = std::max(frontier_->last_within(static_cast<std::int64_t>(capacity + capacity / kShare)), 0);
    for (int rung = highest; rung >= 0; --rung) {
      const planning::Frontier::Rung& found = frontier_->rung(rung);
      if (!found.plan || (fits(*best_) && found.evaluation.cost >= best_->seconds)) continue;
      offer(*candidate_of(found));
    }
  }

  /// Plans of rungs whose own ones find no place within the budgets: the quickest with slack that does.
  void place_with_slack(int lowest, int highest) {
    struct Spaced {
      double seconds = 0;
      int rung = 0, manner = 0;
    };
    std::vector<Spaced> spaced;
    for (int rung = lowest; rung <= highest; ++rung) {
      const planning::Frontier::Rung& own = frontier_->rung(rung);
      // What is alive at once has to have room, wherever it is placed.
      if (!own.plan || drafts_.least_of(list_of(executions_of(*own.plan))) > tools_.budgets().device) continue;
      for (int manner = 0; manner < planning::Frontier::kManners; ++manner) {
        const planning::Frontier::Rung& found = frontier_->with_slack(rung, manner);
        if (!found.plan) continue;
        // No quicker than the rung itself, which a greater budget takes instead.
        const double seconds = seconds_of(found);
        if (seconds >= seconds_of(frontier_->rung(quickest_up_to(rung)))) spaced.push_back({seconds, rung, manner});
      }
    }
    std::ranges::stable_sort(spaced, {}, &Spaced::seconds);
    for (const Spaced& next : spaced) {
      std::optional<Candidate> candidate = candidate_of(frontier_->with_slack(next.rung, next.manner), next.rung);
      if (fits(*best_) && candidate->seconds >= best_->seconds) return;
      const bool enough = fits(*candidate);
      offer(std::move(*candidate));
      if (enough) return;
    }
  }

  /// What the list of a plan is predicted to take. Where variables are copied that is more than its executions.
  double seconds_of(const planning::Frontier::Rung& found) {
    if (!found.plan) return std::numeric_limits<double>::infinity();
    if (!drafts_.copies_variables()) return found.evaluation.cost;
    watch_.check();
    const std::vector<int> order = executions_of(*found.plan);
    if (const auto known = seconds_.find(order); known != seconds_.end()) return known->second;
    return seconds_[order] = drafts_.plain(list_of(order)).seconds;
  }

  /// Of a rung and those below it, as far as bounds do not say that these are slower: a greater budget must not be.
  int quickest_up_to(int rung) {
    if (!drafts_.copies_variables()) return rung;
    int quickest = rung;
    for (int below = rung - 1; below >= 0; --below) {
      const double seconds = seconds_of(frontier_->rung(quickest));
      // No list counts as faster than the one as it is.
      if (seconds <= std::max(least_seconds(), frontier_->least_seconds(below) * (1 - kRounding))) break;
      if (seconds_of(frontier_->rung(below)) < seconds) quickest = below;
    }
    return quickest;
  }

  /// Of a plan of a rung, beside which has been searched if it is named.
  std::optional<Candidate> candidate_of(const planning::Frontier::Rung& found, int rung = kUnpriced) {
    if (!found.plan) return std::nullopt;
    watch_.check();
    const std::vector<int> order = executions_of(*found.plan);
    Candidate candidate = drafts_.plain(list_of(order));
    if (!drafts_.must_be_simulated()) candidate.seconds = found.evaluation.cost;  // the same but for rounding
    std::vector<std::string> notes = fit_notes(problem_->problem(), *frontier_, rung, order, request_.name);
    candidate.notes.insert(candidate.notes.begin(), notes.begin(), notes.end());
    return candidate;
  }

  /// As the executions of a plan are written: without what policies offload, which is where a list of its own wants it.
  InstructionList list_of(const std::vector<int>& order) const {
    return drafts_.has_forced() ? without_offloads(problem_->list_of(order)) : problem_->list_of(order);
  }

  /// Lists in which more or less is computed again, with what the budgets still demand offloaded.
  void swap_rungs() {
    const double once = planning::default_cost(problem());
    for (int start = kStartsOfSwaps - 1; start >= 0; --start) {
      watch_.tell("starts of offloading", kStartsOfSwaps - 1 - start, kStartsOfSwaps);
      swap_rung((frontier_->num_rungs() - 1) * start / kStartsOfSwaps, once);
    }
  }

  void swap_rung(int rung, double once) {
    const planning::Frontier::Rung& found = frontier_->rung(rung);
    if (!found.plan || found.evaluation.cost <= once) return;  // nothing, or as without
    if (found.evaluation.cost >= limit()) return;
    std::optional<Candidate> candidate = candidate_of(found);
    if (!fits(*candidate) || drafts_.must_be_simulated()) {
      const std::vector<int> order = executions_of(*found.plan);
      swap(list_of(order), fit_notes(problem_->problem(), *frontier_, kUnpriced, order, request_.name));
    }
    if (fits(*candidate)) offer(std::move(*candidate));
  }

  /// Whether what is computed again and what is offloaded can be chosen together.
  bool may_join() const {
    return plans_repeats() && request_.may_swap && !request_.policies.offloads &&
           tools_.carrier() == CopyCarrier::threads && tools_.budgets().host > 0 &&
           once_.half == static_cast<int>(once_.instructions.size());
  }

  /// Rungs from the budget down, until none below can be quicker than what is there.
  void join() {
    if (!joint_) {
      make_frontier();
      joint_.emplace(JointLists::Source{*problem_, drafts_, *frontier_, request_.order_fixed, request_.effort,
                                        request_.name, watch_.asking()});
    }
    const std::size_t capacity = drafts_.device_capacity();
    const int highest =
        std::max(joint_->last_within(static_cast<std::int64_t>(capacity + capacity / kBetterPacked)), 0);
    for (int rung = highest; rung >= 0; --rung) {
      if (limit() <= joint_->least_seconds(rung)) return;
      watch_.tell("budgets searched with copies", highest - rung, highest + 1);
      const FittedList* list = joint_->list(rung);
      if (list == nullptr) continue;
      offer(*list);
    }
  }

  void swap(const InstructionList& list, std::vector<std::string> notes) {
    // Where nothing fits yet, all is tried that may fit, whatever is of use.
    if (best_ && fits(*best_)) {
      std::optional<FittedList> quicker = drafts_.swapped_within(list, limit());
      if (!quicker) return;
      quicker->notes.insert(quicker->notes.begin(), notes.begin(), notes.end());
      return offer(*std::move(quicker));
    }
    ListDrafts::Swapped swapped = drafts_.swapped(list);
    if (swapped.least_device_bytes > 0) note_least(swapped.least_device_bytes);
    others_refuse_ = others_refuse_ || !swapped.least_is_exact;
    swapped.list.notes.insert(swapped.list.notes.begin(), notes.begin(), notes.end());
    if (request_.tells_short_tier) best_.reset();
    offer(std::move(swapped.list));
  }

  /// What takes no less is of no use.
  double limit() const {
    return best_ && fits(*best_) ? std::min(best_->seconds, request_.only_below) : request_.only_below;
  }
  void note_least(std::size_t bytes) { least_ = least_ == 0 ? bytes : std::min(least_, bytes); }
  void offer(Candidate candidate) {
    candidate.seconds = std::max(candidate.seconds, least_seconds());
    drafts_.is_within_other_tiers(candidate) ? note_least(candidate.device_peak) : void(others_refuse_ = true);
    if (!best_ || drafts_.is_better(candidate, *best_)) best_ = std::move(candidate);
  }

  PlanningTools& tools_;
  const FitRequest request_;
  SearchWatch watch_{request_};
  const Profile nominal_ = Profile::nominal();
  const Profile& profile_;
  ListDrafts drafts_;
  const InstructionList& given_;
  const InstructionList once_;
  std::optional<FittedList> as_it_is_;
  std::optional<ListProblem> problem_;
  planning::FrontierCache own_frontiers_;  // where the request has none
  std::shared_ptr<planning::Frontier> frontier_;
  std::optional<JointLists> joint_;
  std::map<std::vector<int>, double> seconds_;  // of lists, by their executions
  std::optional<double> least_seconds_;
  std::optional<Candidate> best_;
  std::size_t least_ = 0, least_offloaded_ = 0;  // 0: not asked for yet
  bool least_is_a_floor_ = false;  // no list does with less, and nobody has looked for one that does with that much
  bool has_searched_ = false;      // for the last budgets, for what is computed again
  bool others_refuse_ = false;     // host memory or the disk, of what was tried, what may take less device memory
};

ListFitter::ListFitter(const InstructionList& list, PlanningTools& tools, const FitRequest& request)
    : fitting_(std::make_unique<Fitting>(list, tools, request)) {}
ListFitter::~ListFitter() = default;

FittedList ListFitter::fitted() {
  return fitting_->fitted();
}
bool ListFitter::fits(const FittedList& list) const {
  return fitting_->fits(list);
}
std::size_t ListFitter::least_device_bytes() const {
  return fitting_->least_device_bytes();
}
bool ListFitter::least_is_exact() const {
  return fitting_->least_is_exact();
}
bool ListFitter::least_is_enough() const {
  return fitting_->least_is_enough();
}
bool ListFitter::has_searched_little() const {
  return fitting_->has_searched_little();
}
double ListFitter::seconds_of_least_memory() const {
  return fitting_->seconds_of_least_memory();
}
const FittedList& ListFitter::as_it_is() const {
  return fitting_->as_it_is();
}

}  // namespace sectionflow
