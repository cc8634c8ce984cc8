#include "fit/plan_budgets.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/list_drafts.h"
#include "fit/make_problem.h"
#include "planning/evaluate.h"
#include "planning/lower_bound.h"

namespace sectionflow {
namespace {

/// What the fastest copy takes: a bound may count no more.
planning::Link link_of(const PlanningTools& tools, const FitBudgetOptions& options, const Profile& profile) {
  if (!options.may_swap || tools.budgets().host == 0) return {};
  const double fastest = std::max(profile.link_out, profile.link_in), throttle = tools.link_bandwidth();
  return {.bytes_per_second = throttle > 0 ? std::min(fastest, throttle) : fastest, .latency = 0};
}

}  // namespace

FitRequest request_of(const FitBudgetOptions& options, const char* what) {
  SF_CHECK(options.effort >= 0, ArgumentError, what, ": an effort of ", options.effort, " changes, wanted at least 0",
           hint("0 is the default"));
  SF_CHECK(options.may_recompute || options.may_swap, ArgumentError, what,
           ": neither recomputing nor swapping is allowed", hint("allow one of them"));
  FitRequest request{.may_recompute = options.may_recompute,
                     .may_swap = options.may_swap,
                     .may_split = options.may_split,
                     .effort = options.effort};
  request.stop = options.stop;
  if (options.progress) {
    request.progress = [tell = options.progress](const char* counted, int done, int of, double seconds) {
      tell({counted, done, of, seconds});
    };
  }
  return request;
}

std::string BudgetPlanner::why_not(const Program& program) {
  if (program.report.is_edited) return "the graph says itself what is swapped (Lms), which fit_budget does not change";
  if (!program.written.entries.empty()) return "a backward half begins with what its forward half has left";
  if (program.written.instructions.empty()) return "it executes nothing";
  return "";
}

BudgetPlanner::BudgetPlanner(const Program& program, PlanningTools& tools, const FitBudgetOptions& options)
    : report_(program.report),
      tools_(tools),
      budgets_(tools.budgets()),
      options_(options),
      profile_(options.profile.value_or(Profile::nominal())),
      list_(without_offloads(program.written)),
      fitter_(list_, tools, request()) {}

FitRequest BudgetPlanner::request() {
  FitRequest request = request_of(options_, "explain");
  request.profile = &profile_;
  if (!options_.progress) return request;
  request.progress = [this](const char* counted, int done, int of, double seconds) {
    options_.progress({stage_ + counted, done, of, seconds});
  };
  return request;
}

const planning::Problem& BudgetPlanner::problem() {
  if (problem_) return *problem_;
  problem_ = problem_of(list_, tools_, profile_, InPlaceRuns::apart);
  // The bound is one of plans in parts, too.
  const PartsFitter::Least& least = fitter_.least_in_parts();
  std::set<std::string> never_whole;
  for (const Value& value : least.values) never_whole.insert(value.name());
  for (planning::PlannedValue& value : problem_->values) {
    if (never_whole.contains(value.name)) value.bytes = 0;
  }
  std::map<std::string, double> seconds;
  for (const auto& [node, of_parts] : least.seconds) seconds[tools_.graph().graph().node(node).name()] = of_parts;
  for (planning::Operation& operation : problem_->operations) {
    const auto in_parts = seconds.find(operation.name);
    if (in_parts == seconds.end()) continue;
    operation.workspace = 0;
    operation.seconds_again = std::min(planning::seconds_again(operation), in_parts->second);
    operation.seconds = std::min(operation.seconds, in_parts->second);
    std::erase_if(operation.overwrites, [&](const planning::Overwrite& pair) {
      const auto bytes_of = [&](int value) { return problem_->values[static_cast<std::size_t>(value)].bytes; };
      return bytes_of(pair.input) != bytes_of(pair.output);
    });
  }
  return *problem_;
}

const BudgetPlanner::Planned& BudgetPlanner::planned(std::size_t budget_bytes) {
  const auto known = planned_.find(budget_bytes);
  if (known != planned_.end()) return known->second;
  TierBudgets budgets = budgets_;
  budgets.device = budget_bytes;
  const OtherBudgets other(tools_, budgets);
  const FittedList fitted = fitter_.fitted();
  BudgetPoint point{.budget_bytes = budget_bytes,
                    .fits = fitter_.fits(fitted),
                    .seconds = fitted.seconds,
                    .peak_bytes = fitted.device_peak,
                    .host_peak_bytes = fitted.host_peak,
                    .disk_peak_bytes = fitted.disk_peak};
  for (const Instruction& instruction : fitted.list.instructions) {
    const bool is_again = instruction.kind == StepKind::compute && instruction.replay;
    if (is_again && instruction.part == 0 && !tools_.graph().graph().node(instruction.node).op().is_constant())
      ++point.recomputed_operations;
    if (instruction.kind == StepKind::copy_out) point.bytes_out += tools_.graph().type(instruction.fetched).bytes();
  }
  return planned_.emplace(budget_bytes, Planned{point, fitter_.least_device_bytes()}).first->second;
}

std::size_t BudgetPlanner::smallest_budget() {
  constexpr std::size_t kParts = 64;
  stage_ = "smallest budget: ";
  const std::size_t whole = fitter_.as_it_is().device_peak;
  // Below what one operation alone needs nothing is searched for: the first call tells where the search begins.
  const std::size_t working_set = std::min(planned(1).least_bytes, whole);
  std::size_t least = std::min(planned(working_set).least_bytes, whole);
  // What one operation needs as a whole is no list's least where others run in parts: the next call knows of both.
  const bool may_split = !fitter_.least_in_parts().values.empty();
  if (may_split && !planned(least).point.fits) least = std::min(planned(least).least_bytes, whole);
  const bool is_told = least < whole || working_set == whole;
  if (is_told && planned(least).point.fits) return least;
  // Where host memory or the disk is short, the least may have no room for what has to be off the device.
  std::size_t too_little = working_set, enough = whole;
  while (enough - too_little > std::max((whole - working_set) / kParts, std::size_t{1})) {
    const std::size_t between = too_little + (enough - too_little) / 2;
    (planned(between).point.fits ? enough : too_little) = between;
  }
  return enough;
}

std::vector<BudgetPoint> BudgetPlanner::points(const std::vector<std::size_t>& budgets) {
  std::vector<BudgetPoint> points;
  std::vector<std::int64_t> capacities;
  const std::size_t variables = round_up(tools_.variables().end_bytes);
  for (const std::size_t budget : budgets) {
    stage_ = text_of("budget ", points.size() + 1, " of ", budgets.size(), ": ");
    points.push_back(planned(budget).point);
    // What lies at the top of a plan is not rounded up, what the problem counts is.
    capacities.push_back(static_cast<std::int64_t>(round_up(budget) - std::min(variables, round_up(budget))));
  }
  planning::BoundOptions bound_options;
  bound_options.link = link_of(tools_, options_, profile_);
  const FitRequest asked = request();
  const SearchWatch watch(asked);
  bound_options.check = watch.asking();
  const std::vector<planning::LowerBound> bounds = planning::lower_bounds(problem(), capacities, bound_options);
  const double once = planning::default_cost(problem());
  for (std::size_t i = 0; i < points.size(); ++i) points[i].bound_seconds = once + bounds[i].extra_seconds;
  return points;
}

MemoryPrice BudgetPlanner::price(std::size_t budget_bytes) {
  constexpr std::size_t kMostStep = std::size_t{64} << 20, kShare = 16;
  const std::size_t here = std::min(budget_bytes, fitter_.as_it_is().device_peak);
  const std::size_t planned = here - std::min(tools_.variables().end_bytes, here);
  const std::size_t step = std::max(std::min(kMostStep, planned / kShare) / kPageBytes, std::size_t{1}) * kPageBytes;
  const std::vector<BudgetPoint> found = points({here - std::min(step, here), here, here + step});
  return {.step_bytes = step, .here = found[1], .more = found[2], .less = found[0]};
}

BudgetFrontier BudgetPlanner::frontier(int num_budgets) {
  const FittedList& whole = fitter_.as_it_is();
  BudgetFrontier frontier{.whole_seconds = whole.seconds,
                          .whole_peak_bytes = whole.device_peak,
                          .variables_bytes = tools_.variables().end_bytes};
  const std::optional<LiveTensor>& in_parts = fitter_.least_in_parts().largest;
  const bool needs_less = in_parts && in_parts->bytes < report_.largest_operation.bytes;
  const LiveTensor& largest = needs_less ? *in_parts : report_.largest_operation;
  frontier.working_set_bytes = report_.persistent_bytes + largest.bytes;
  frontier.working_set_of = largest.name;
  const std::size_t least = smallest_budget();
  std::vector<std::size_t> budgets;
  const std::size_t parts = static_cast<std::size_t>(num_budgets) - 1, span = whole.device_peak - least;
  for (std::size_t i = 0; i <= parts; ++i) {
    const std::size_t budget = least + span / parts * i + span % parts * i / parts;
    if (budgets.empty() || budget > budgets.back()) budgets.push_back(budget);
  }
  frontier.points = points(budgets);
  return frontier;
}

}  // namespace sectionflow
