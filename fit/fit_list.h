#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "planning/frontier_cache.h"
#include "schedule/planning_tools.h"
#include "swap/profile.h"

namespace sectionflow {

/// What fit_list is asked for.
struct FitRequest {
  const Profile* profile = nullptr;  ///< nullptr: Profile::nominal()
  bool may_recompute = true;
  bool may_swap = true;
  bool may_split = true;     ///< chains of operations may run in parts (PartsFitter)
  bool order_fixed = false;  ///< first executions stay in the list's order
  std::int64_t effort = 0;   ///< moves of the search for what is computed again; 0: default_frontier_effort
  int num_rungs = 0;         ///< budgets that it is searched for; 0: default_rungs
  ListPolicies policies{};   ///< what may be computed again and offloaded, and what is offloaded in any case
  /// A list of the same results that has most of it again. Where one is given, budgets are accepted in which this list
  /// or the other fits, with what is offloaded of it, and no others: so the least does not depend on the search. Where
  /// it is host memory or the disk that is short, what lies between them is looked for all the same.
  const InstructionList* least = nullptr;
  /// What no list can do with less than is looked into all the same: what it takes where it is offloaded is told.
  bool tells_exact_least = false;
  /// Where nothing fits, the list comes back that passes the budgets of all tiers by the least, so that whoever is told
  /// hears of the tier that is short; without it, of what would do in device memory. Of requests that offload alone.
  bool tells_short_tier = false;
  /// A list that is predicted to take no less is of no use, and need not be looked for: then what comes back may not
  /// fit. With the usual effort.
  double only_below = std::numeric_limits<double>::infinity();
  /// Where what is searched for is kept for the next list of the same operations; nullptr: nowhere. Must outlive who
  /// plans.
  planning::FrontierCache* frontiers = nullptr;
  const char* name = "fit_budget";  ///< of who plans, for notes
  std::string told_first{};         ///< before what is counted, of progress
  /// What is counted, how many are done, of how many, and seconds since the planner was made: once these are more than
  /// one, and then once a second at most.
  std::function<void(const char* what, int done, int of, double seconds)> progress{};
  std::function<bool()> stop{};  ///< true ends the search: FitBudgetOptions::stop
};

/// A list that was drafted.
struct FittedList {
  InstructionList list{};
  std::size_t device_peak = 0, host_peak = 0, disk_peak = 0;  ///< variables included
  double seconds = 0;                                         ///< that it is predicted to take
  std::vector<std::string> notes{};                           ///< what was chosen, for people
  /// Of a list that does not fit: others may do with less of the device, but host memory or the disk has no room for
  /// what they offload.
  bool others_lack_capacity = false;

  bool fits(const TierBudgets& budgets) const {
    return device_peak <= budgets.device && host_peak <= budgets.host && disk_peak <= budgets.disk;
  }
};

/// fit_list for one list under several budgets, one after the other: what does not depend on them is searched for once,
/// when it is first wanted.
class ListFitter {
 public:
  /// List, tools, and the profile of the request must outlive this.
  ListFitter(const InstructionList& list, PlanningTools& tools, const FitRequest& request);
  ~ListFitter();
  ListFitter(const ListFitter&) = delete;
  ListFitter& operator=(const ListFitter&) = delete;

  /// For the budgets of the tools, as they are now.
  FittedList fitted();
  /// Whether a list is within them.
  bool fits(const FittedList& list) const;
  /// Where the last one is not: the least device memory that any list it tried came to. Where host memory or the disk
  /// has no room for some of these, the least that is not known to be too little.
  std::size_t least_device_bytes() const;
  /// Whether that will do, and no less: nothing depended on a search of what is computed again, nor on other tiers.
  bool least_is_exact() const;
  /// Whether that will do: a list for so much was found.
  bool least_is_enough() const;
  /// Whether the last one was searched for by less than the usual effort, so that this may find what fits.
  bool has_searched_little() const;
  /// Of what is computed again in the least memory that the search has a plan for.
  double seconds_of_least_memory() const;
  /// The list with everything once, as it would be with all memory.
  const FittedList& as_it_is() const;

 private:
  class Fitting;
  std::unique_ptr<Fitting> fitting_;
};

/// The list with what the budgets demand, and no more: values are dropped and computed again, or offloaded to host
/// memory and disk, or chains of operations run in parts (PartsFitter), as is predicted to take the least time, and as
/// the request's policies allow: what these offload in
/// any case is offloaded. A list that fits stays as it is, and so does one that begins with values that were there
/// before, or that has offloads of its own, but for more of them. Where nothing fits, the result is what comes closest.
/// The tools' notes tell what was chosen, their predicted_seconds how long it is going to take, and, where it does not
/// fit, their least_device_bytes what would do.
///
/// Deterministic: list, budgets, profile and effort decide. More memory of any tier is never predicted to be slower,
/// nor refused, whatever the effort is. What is not proven: where only a plan for the least device memory and a limited
/// host fits (SwapPlanner::plan), budgets for which something else fits do not look for such plans again.
FittedList fit_list(const InstructionList& list, PlanningTools& tools, const FitRequest& request = {});

}  // namespace sectionflow
