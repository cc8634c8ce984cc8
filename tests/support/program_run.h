#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/program_world.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

// Parts of find_failure.

namespace sectionflow::testing {

/// Ends the run of a program.
struct ProgramFault {
  ProgramFailure failure;
};
[[noreturn]] void fail(Failure::Kind kind, const std::string& mark, const std::string& text);

/// A call that was refused.
struct Refusal {
  ErrorCode code;
  std::string text;
  std::optional<std::size_t> minimum{};  ///< of a BudgetError
};
/// The refusal that `call` ends with; a fault where it ends with what nobody may refuse with.
std::optional<Refusal> refusal_of(const std::function<void()>& call);

/// What a step has left.
struct Outcome {
  std::vector<HostTensor> fetched;
  std::map<std::string, HostTensor> variables;
};
/// Fails unless both are the same bytes; `who` is the one that is in question.
void expect_same(const std::string& who, const Outcome& found, const Outcome& wanted,
                 const std::vector<Value>& fetches);
/// Fails unless the last execution, which was measured, took the memory that was planned for it.
void expect_planned_memory(const std::string& who, const Session& session);

/// Of the sessions that are in question, and of those that they are compared with.
SessionOptions session_options(const ProgramSpec& spec, std::size_t device_memory);
SessionOptions plain_options(const ProgramSpec& spec);
inline constexpr std::size_t kAmpleMemory = 64U << 20U;

/// Calls `attempt` with growing budgets, each the smallest that the last refusal has asked for, until it is done; then
/// with a byte less, which must be refused for the same smallest budget.
void run_in_smallest_budget(const std::string& who, const std::function<void(std::size_t budget)>& attempt);

/// Both worlds of a program.
struct ProgramRun {
  explicit ProgramRun(const ProgramSpec& spec_in, const ProgramHooks& hooks_in)
      : spec(spec_in), hooks(hooks_in), subject(spec_in), plain(spec_in) {}

  const ProgramSpec& spec;
  const ProgramHooks& hooks;
  ProgramWorld subject;  ///< the program as it is called
  ProgramWorld plain;    ///< the same graph, for the whole-graph sessions that it is compared with
  TemporaryFolder folder;

  void plant(const Graph& graph, Session& session) const {
    if (hooks.on_session) hooks.on_session(graph, session);
  }
  RunOptions targets(ProgramWorld& world) const { return {.targets = world.manager().training_operations()}; }
};

// Calls in sessions of their own; they leave the run as it was. True: done; false: rightly refused.

bool simulate_lms(ProgramRun& run, const CallSpec& call);
bool run_swap(ProgramRun& run, const CallSpec& call);
bool run_smallest(ProgramRun& run, const CallSpec& call);

/// A step of the graph and the session in another graph and session, by way of files.
/// `refused`, if it was, instead of an outcome.
struct Reloaded {
  std::optional<Refusal> refused{};
  Outcome outcome{};
};
Reloaded run_reloaded(ProgramRun& run, Session& session, const CallSpec& call, std::int64_t step);

}  // namespace sectionflow::testing
