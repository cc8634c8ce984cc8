#include "fit/parts_fitter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/list_drafts.h"
#include "fit/make_problem.h"
#include "graph/nodes/update.h"
#include "schedule/budget_advice.h"
#include "schedule/variable_gathers.h"
#include "swap/simulate.h"
#include "swap/step_times.h"

namespace sectionflow {
namespace {

/// What a doubling of parts has to save of the memory to be worth its while, and how many may save less before no more
/// are tried: another chain may begin to count only where the first has become small.
constexpr double kLeastGain = 0.01;
constexpr int kMostIdle = 2;

/// More than any list takes.
constexpr std::size_t kAllMemory = std::numeric_limits<std::size_t>::max() / 8;

bool may_split(const FitRequest& request) {
  const bool has_policies = request.policies.may_repeat || request.policies.offloads;
  return request.may_split && !has_policies && request.least == nullptr && !request.order_fixed;
}

/// What gathers a variable is no operation of the problem: with shards nothing is searched for that computes again.
void check_searchable(const InstructionList& list, const PlanningTools& tools, const FitRequest& request,
                      std::size_t bytes) {
  const bool searches = request.least != nullptr || (request.may_recompute && !is_planned_elsewhere(list));
  if (!searches || ranks_of(tools.graph().graph()) == 1) return;
  const bool gathers = insert_gathers(list, tools.graph()).instructions.size() > list.instructions.size();
  SF_CHECK_CODE(
      !gathers, ArgumentError, ErrorCode::ranks, request.name, ": as it is the program takes ", bytes_text(bytes),
      " of device memory, of ", bytes_text(tools.budgets().device),
      ", and it reads variables that ranks hold in shards, for which nothing is planned that computes again",
      hint("give more device_memory; or train in sections with InteriorPolicy::recompute, without fit_budget; "
           "or with VariableDistribution::replicated"));
}

}  // namespace

PartsFitter::PartsFitter(const InstructionList& list, PlanningTools& tools, const FitRequest& request)
    : given_(list),
      tools_(tools),
      request_(request),
      nominal_(Profile::nominal()),
      profile_(request.profile != nullptr ? *request.profile : nominal_),
      once_(request.may_recompute ? without_repeats(list) : list),
      whole_(list, tools, request) {}

FittedList PartsFitter::fitted() {
  FittedList found = searched();
  minimum_ = minimum_of_last();
  if (!has_searched_little()) return found;
  if (fits(found) && found.seconds <= seconds_computing_again()) return found;
  const double least_seconds = seconds_in_least_memory();
  if (fits(found) && found.seconds <= least_seconds) return found;
  FittedList thorough = searched_thoroughly(least_seconds);
  if (fits(found) && !(fits(thorough) && thorough.seconds < found.seconds)) return found;
  minimum_ = thorough_->minimum_;
  return thorough;
}

bool PartsFitter::has_searched_little() const {
  return whole_.has_searched_little() || (has_tried_parts_ && least_parts_->has_searched_little());
}

FittedList PartsFitter::searched_thoroughly(double least_seconds) {
  if (!thorough_) {
    FitRequest request = request_;
    request.effort = 0;
    request.told_first += "by the usual effort: ";
    thorough_ = std::make_unique<PartsFitter>(given_, tools_, request);
  }
  FittedList found = thorough_->fitted();
  found.seconds = std::max(found.seconds, least_seconds);
  found.notes.push_back(text_of(request_.name, ": an effort of ", request_.effort,
                                " finds nothing that fits, or is as quick: searched once more, by the usual one"));
  return found;
}

/// Of the short search without copies, in the least device memory for which it has a plan.
double PartsFitter::seconds_computing_again() {
  const double whole = whole_.seconds_of_least_memory();
  return in_parts_.empty() ? whole : std::max(whole, fitter_in_parts().seconds_of_least_memory());
}

/// Of the short search, in the least device memory that it fits and all the host memory that it wants, as far as that
/// is known: first it tells what one operation alone takes, then what is needed beside it. The budgets at hand do not
/// decide.
double PartsFitter::seconds_in_least_memory() {
  if (seconds_in_least_memory_) return *seconds_in_least_memory_;
  double slowest = seconds_computing_again();
  // What policies send to the disk needs one.
  TierBudgets roomy{.device = 1, .host = kAllMemory};
  if (request_.policies.offloads && tools_.budgets().disk > 0) roomy.disk = kAllMemory;
  constexpr int kMostAsked = 4;
  for (int asked = 0; asked < kMostAsked; ++asked) {
    const OtherBudgets other(tools_, roomy);
    const FittedList found = searched();
    if (fits(found)) {
      slowest = std::max(slowest, found.seconds);
      break;
    }
    roomy.device = minimum_of_last().bytes;
  }
  return seconds_in_least_memory_.emplace(slowest);
}

FittedList PartsFitter::searched() {
  has_tried_parts_ = false;
  FittedList best = whole_.as_it_is();
  if (fits(best)) return best;
  check_searchable(given_, tools_, request_, best.device_peak);
  const double least_seconds = best.seconds;
  find_parts();
  best = whole_.fitted();
  if (in_parts_.empty()) return best;
  has_tried_parts_ = true;
  const auto offer = [&](FittedList other) {
    // With more memory the list is taken as it is: nothing in less may count as quicker.
    other.seconds = std::max(other.seconds, least_seconds);
    const bool is_better = fits(best) != fits(other) ? fits(other)
                           : fits(best)              ? other.seconds < best.seconds
                                                     : other.device_peak < best.device_peak;
    if (is_better) best = std::move(other);
  };
  for (const InParts& split : in_parts_) offer(split.drafted);
  FittedList fitted = fitter_in_parts().fitted();
  for (std::string& note : chains_->notes(in_parts_.back().parts, request_.name))
    fitted.notes.push_back(std::move(note));
  offer(std::move(fitted));
  return best;
}

PartsFitter::Minimum PartsFitter::minimum_of_last() const {
  Minimum least{whole_.least_device_bytes(), whole_.least_is_exact(), whole_.least_is_enough()};
  if (!has_tried_parts_) return least;
  const std::size_t in_parts = least_parts_->least_device_bytes();
  if (in_parts < least.bytes) least.is_enough = least_parts_->least_is_enough();
  least.bytes = std::min(least.bytes, in_parts);
  least.is_exact = least.is_exact && least_parts_->least_is_exact();
  return least;
}

const PartsFitter::Least& PartsFitter::least_in_parts() {
  if (least_) return *least_;
  find_parts();
  Least least;
  if (in_parts_.empty()) return least_.emplace(std::move(least));
  least.values = chains_->values();
  StepTimes times(tools_, profile_);
  for (const InParts& split : in_parts_) {
    watch_.check();
    const Draft draft = tools_.draft(split.list);
    std::map<NodeId, double> seconds;
    for (const Step& step : draft.schedule.steps) {
      if (step.parts > 1) seconds[step.node] += times.again(step);
    }
    for (const auto& [node, of_parts] : seconds) {
      double& known = least.seconds.try_emplace(node, of_parts).first->second;
      known = std::min(known, of_parts);
    }
    least.largest = largest_operation(draft, tools_.kernels(), tools_.graph().graph());
  }
  return least_.emplace(std::move(least));
}

/// What the list takes in more and more parts.
void PartsFitter::find_parts() {
  if (has_looked_ || !may_split(request_)) return;
  watch_.check();
  in_parts_.clear();  // of an earlier call that was stopped
  const Draft draft = tools_.draft(once_);
  chains_ = std::make_unique<PartChains>(once_, draft, tools_);
  auto last = static_cast<double>(draft.device_peak_bytes);
  int idle = 0;
  for (int parts = chains_->next_number(2); parts > 0 && idle < kMostIdle; parts = chains_->next_number(2 * parts)) {
    watch_.check();
    make_parts(parts);
    const auto peak = static_cast<double>(in_parts_.back().drafted.device_peak);
    const bool saves = peak <= last * (1 - kLeastGain);
    saves ? void(last = peak) : in_parts_.pop_back();
    idle = saves ? 0 : idle + 1;
  }
  has_looked_ = true;
}

void PartsFitter::make_parts(int parts) {
  StepTimes times(tools_, profile_);
  InstructionList list = chains_->list_in(parts);
  Draft draft = tools_.draft(list);
  FittedList drafted{.list = list,
                     .device_peak = draft.device_peak_bytes,
                     .host_peak = draft.host_peak_bytes,
                     .disk_peak = draft.disk_peak_bytes,
                     .seconds = predict(draft, times).seconds,
                     .notes = chains_->notes(parts, request_.name)};
  in_parts_.push_back({parts, std::move(list), std::move(drafted)});
}

ListFitter& PartsFitter::fitter_in_parts() {
  if (!least_parts_) least_parts_ = std::make_unique<ListFitter>(in_parts_.back().list, tools_, request_);
  return *least_parts_;
}

FittedList fit_list(const InstructionList& list, PlanningTools& tools, const FitRequest& request) {
  PartsFitter fitter(list, tools, request);
  FittedList fitted = fitter.fitted();
  tools.predicted_seconds = fitted.seconds;
  tools.notes.insert(tools.notes.end(), fitted.notes.begin(), fitted.notes.end());
  const bool fits = fitter.fits(fitted);
  tools.least_device_bytes = fits ? 0 : fitter.least_device_bytes();
  tools.minimum_is_exact = tools.minimum_is_exact && (fits || fitter.least_is_exact());
  tools.minimum_is_enough = fits || fitter.least_is_enough();
  return fitted;
}

}  // namespace sectionflow
