#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "schedule/planning_tools.h"
#include "swap/profile.h"

namespace sectionflow {

/// What fit_list is asked for.
struct FitRequest {
  const Profile* profile = nullptr;  ///< nullptr: Profile::nominal()
  bool may_recompute = true;
  bool may_swap = true;
  bool order_fixed = false;  ///< first executions stay in the list's order
  std::int64_t effort = 0;   ///< moves of the search for what is computed again; 0: default_frontier_effort
  /// What is counted, how many are done, of how many, and seconds since the planner was made: once these are more than
  /// one, and then once a second at most.
  std::function<void(const char* what, int done, int of, double seconds)> progress{};
};

/// A list that was drafted.
struct FittedList {
  InstructionList list{};
  std::size_t device_peak = 0, host_peak = 0, disk_peak = 0;  ///< variables included
  double seconds = 0;                                         ///< that it is predicted to take
  std::vector<std::string> notes{};                           ///< what was chosen, for people
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
  /// The list with everything once, as it would be with all memory.
  const FittedList& as_it_is() const;

 private:
  class Fitting;
  std::unique_ptr<Fitting> fitting_;
};

/// The list with what the budgets demand, and no more: values are dropped and computed again, or offloaded to host
/// memory and disk, as is predicted to take the least time. A list that fits stays as it is, and so does one that
/// begins with values that were there before, or that offloads by itself, but for more offloads. Where nothing fits,
/// the result is what comes closest. The tools' notes tell what was chosen, and their predicted_seconds how long it is
/// going to take.
///
/// Deterministic: list, budgets, profile and effort decide. More device or host memory is never predicted to be slower.
FittedList fit_list(const InstructionList& list, PlanningTools& tools, const FitRequest& request = {});

}  // namespace sectionflow
