#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/executable.h"
#include "schedule/planning_tools.h"

namespace SF_API sectionflow {

/// Texts by name that a part above a session keeps with its variables: checkpoints save them and give them back, and
/// read none of them.
using KeptTexts = std::map<std::string, std::string>;
/// The name of a Profile::json among them, for which checkpoints have a place of their own.
inline constexpr const char* kKeptProfile = "profile";
/// What all of them may come to.
inline constexpr std::size_t kMostKeptBytes = 16'000'000;

/// How long an execution of a whole program took.
struct ExecutionTimes {
  double seconds = 0;           ///< of both halves together, where it was executed by halves
  std::vector<double> steps{};  ///< one a step, by itself; empty unless they are wanted
};

/// What a planner wants to know of an execution.
enum class TimesWanted { none, whole, steps };

/// Who has the last word on what each program of a session executes, and what it knows for that. A session asks it, and
/// tells it how long executions took. Threads: that of the session.
class ProgramPlanner {
 public:
  virtual ~ProgramPlanner() = default;

  /// The list that is executed in the place of the written one. Other than the writer's it may be any that fits.
  virtual InstructionList planned(const InstructionList& written, PlanningTools& tools) = 0;

  /// What checkpoints are to keep.
  virtual KeptTexts kept() const = 0;
  /// Takes what a checkpoint had kept, of which nobody vouches for anything, in the place of what another had; `from`:
  /// its path, for people. What it cannot use is a warning, and no error.
  virtual void take(const KeptTexts& texts, const std::string& from) = 0;

  /// Asked before each execution of a whole program.
  virtual TimesWanted times_wanted(Executable& program) = 0;
  /// Told behind it, where that went well, was wanted, and nobody else has slowed it down by looking at it.
  virtual void note_times(Executable& program, const ExecutionTimes& times) = 0;
  /// Whether it wants to plan the program again. Asked when the program is looked for, and nothing is pending.
  virtual bool is_due(const Executable& program) const = 0;
  /// Plans it again. False: it stays as it is; otherwise planned() is asked next, and the program goes.
  virtual bool plan_again(Executable& program) = 0;
  /// Told where planned() was stopped then (ErrorCode::planning_stopped), after which the program stays, and is due as
  /// before; or where what it gave could not be compiled or prepared, after which it stays. nullptr: of memory, or of a
  /// callback, and what goes on is up to the caller.
  virtual void undo_plan_again(Executable& program, const Error* why) = 0;
};

}  // namespace sectionflow
