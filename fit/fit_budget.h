#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/export.h"
#include "fit/plan_file.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// How far planning is.
struct PlanningProgress {
  std::string what{};  ///< what is counted: "budgets searched"
  int done = 0, of = 0;
  double seconds = 0;  ///< since planning began
};
/// Called once planning has taken a second, and then once a second at most.
using OnPlanning = std::function<void(const PlanningProgress&)>;

/// Planning that was ended from outside before it had a plan (SF-E103). Nothing has run or changed.
class StoppedError : public Error {
 public:
  explicit StoppedError(ErrorText text, ErrorCode code = ErrorCode::planning_stopped)
      : Error(std::move(text), code, "StoppedError") {}
};

/// When a program that has a plan is planned again.
enum class Replan {
  never,
  /// Once its steps take over 10 % longer than is expected of them, 20 times in a row: the next one is timed operation
  /// by operation, and between two cycles what is quicker by the speeds that it shows takes the old plan's place. After
  /// that it takes twice as many each time, and six times it is done at most. docs/planning.md tells what is expected.
  on_drift,
};

/// How a session fits its programs into its budgets.
struct FitBudgetOptions {
  /// Absent: that of the checkpoint that the session goes on from, or else Profile::nominal().
  std::optional<Profile> profile{};
  bool may_recompute = true;  ///< values may be dropped and computed again
  bool may_swap = true;       ///< values may be offloaded to host memory and disk
  /// Chains of operations may run in parts, one part of all of them after the other, so that what they hand on is never
  /// there as a whole: the logits of a large vocabulary, for one. On the CPU, of programs that run as a whole and keep
  /// to no options of sections.
  bool may_split = true;
  /// How many changes of a plan are tried, the same on every machine; 0: what is worth its time, from some seconds for
  /// hundreds of operations to minutes for thousands. Planned is once, when a program is compiled.
  std::int64_t effort = 0;
  OnPlanning progress{};  ///< none: what takes long is logged
  /// Asked many times a second while a plan is searched for: true ends the search by StoppedError (SF-E103), as where a
  /// signal has come. What has been planned before stays planned. None: nothing ends it.
  std::function<bool()> stop{};
  /// Of load_plan: programs that it has are planned as it says, without a search; what is said above is for all others.
  FitPlan plan{};
  /// Not one bit of the results changes, and budgets hold. Statistics::programs_replanned counts.
  Replan replan = Replan::never;
};

/// Has every program that the session compiles from here on do what its budgets demand, with the least predicted time:
/// of the values that an operation leaves for later some stay, some are dropped and computed again, some are offloaded.
/// Whatever is chosen, not one bit of the results changes. Programs that fit as they are stay so, and in a cycle over
/// sections stays, or is offloaded, what their options keep or offload in any case. Takes the place of insert_swaps and
/// of an earlier fit_budget. Throws: ArgumentError (SF-E010) for an effort below 0, or where neither recomputing nor
/// swapping is allowed, or for a profile of numbers that none can have. With a plan, what compiles a program throws
/// DataError (SF-E102) where the plan is of a model with other trained variables, or cannot be executed. What it has no
/// program for, as for batches of other sizes, is searched for, which the log tells. Checkpoints of the session have
/// its plan, and the profile where that is not the nominal one; where it goes on from such a checkpoint, before this
/// call or behind it, the plan serves as far as it is for these budgets, which never is an error. Programs that read
/// variables which ranks hold in shards and do not fit as they are are refused when they are compiled (SF-E036), unless
/// may_recompute is false.
void fit_budget(Session& session, const FitBudgetOptions& options = {}, Where where = Where::here());

}  // namespace sectionflow
