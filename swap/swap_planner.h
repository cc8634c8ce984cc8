#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "swap/search_offloads.h"
#include "swap/step_times.h"
#include "swap/swap_problem.h"

namespace sectionflow {

/// An instruction list that swaps, as it was drafted.
struct SwapPlan {
  std::vector<Decision> decisions{};
  InstructionList list{};
  std::size_t device_peak = 0, host_peak = 0, disk_peak = 0;  ///< variables included
  Prediction prediction{};
};

/// Plans for budgets. The ladder of device budgets depends on the instruction list alone, and so do the one plan for
/// each of its rungs without a limit on the host, the ladder of host budgets below what that takes, and the one plan
/// for each pair of rungs. A budget chooses among the plans of the rungs that it reaches: a larger one chooses among
/// these and more, and never does worse. Most are never made, since it is known that they would not be chosen:
///
/// - No plan counts as faster than the bound of its rung, which only rises on the way down the ladder, nor than its
///   proposal promises before anything is drafted.
/// - A plan for a limited host does not count as faster, nor, but for the lowest rung's, as taking less of the device,
///   than the plan for the same device rung without that limit.
///
/// Where there is a disk, plans that leave it out are among those for a limited host, so that a disk is never in the
/// way.
class SwapPlanner {
 public:
  /// List and tools must outlive it. `check`, where there is one, is called many times a second while plans are
  /// searched for and drafted; what it throws ends that.
  SwapPlanner(const InstructionList& list, PlanningTools& tools, const OffloadPolicies& request, const Profile& profile,
              std::function<void()> check = {});

  /// The best for the budgets of the tools; where none fits, the one that comes closest.
  SwapPlan plan();

  /// The best of those that fit and are quicker than that; none where there is none. Of the lowest rung it is the plan
  /// without a limit on the host alone.
  std::optional<SwapPlan> plan_within(double seconds);

  /// Where nothing fits for want of device memory: the smallest budget for which plan() finds what does, if
  /// smallest_is_exact(), and else the least that is known of; otherwise 0.
  std::size_t smallest_budget() const { return smallest_budget_; }

  /// Whether that is so: host memory has ruled out no plan.
  bool smallest_is_exact() const { return !host_decides_; }

  /// What plans are compared by: seconds in steps of next to nothing, upwards.
  double counted(double seconds) const;

  const SwapProblem& problem() const { return problem_; }

 private:
  /// What is known of a rung's plan before it is drafted.
  struct Proposal {
    std::size_t rung = 0;
    bool leaves_out_disk = false;
    TierCapacity capacity{};
    OffloadPlan plan{};
    double bound = 0;  ///< the plan does not count as faster
  };

  void check() const;
  void make_ladders(std::size_t top);
  std::size_t highest_rung() const;
  void try_all();
  void find_least(std::size_t rung);
  void try_rung(std::size_t rung);
  void try_tight(const Proposal& free);
  void try_tight(const Proposal& free, bool leaves_out_disk);
  std::vector<std::size_t> host_rungs(const Proposal& free, bool leaves_out_disk) const;
  Proposal tight_proposal(const Proposal& free, std::size_t host, bool leaves_out_disk) const;
  const SwapProblem& problem_of(bool leaves_out_disk) const;
  const SwapPlan& free_plan(const Proposal& free);
  Proposal free_proposal(std::size_t rung) const;
  SwapPlan made_of(Proposal proposal);
  SwapPlan drafted(const Proposal& proposal);
  void offer(SwapPlan plan);

  bool host_holds(std::size_t bytes);
  bool may_help(double bound) const;
  bool fits(const SwapPlan& plan) const;
  bool better(const SwapPlan& a, const SwapPlan& b) const;
  std::size_t excess(const SwapPlan& plan) const;
  double bound_of(std::size_t rung) const;
  std::size_t least_host_bytes(std::size_t rung) const;
  std::size_t slack() const;
  std::size_t device_capacity(std::size_t rung) const;
  std::size_t host_capacity() const;
  std::size_t host_home_bytes() const;

  const InstructionList& list_;
  PlanningTools& tools_;
  const std::function<void()> check_;
  StepTimes times_;
  SwapProblem problem_;
  std::optional<SwapProblem> without_disk_;  // where there is one, and nothing has to go there
  double compute_seconds_ = 0;
  std::vector<std::size_t> rungs_;              // device budgets, ascending
  std::map<std::size_t, SwapPlan> free_plans_;  // by rung
  std::optional<SwapPlan> best_;
  double limit_ = std::numeric_limits<double>::infinity();  // no plan that is as slow is looked for
  std::size_t smallest_budget_ = 0;
  bool host_decides_ = false;
};

}  // namespace sectionflow
