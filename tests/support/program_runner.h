#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/program_run.h"

// A part of find_failure.

namespace sectionflow::testing {

/// What was called ended so.
enum class Ending { done, refused, skipped };

/// Makes the calls of a program on two sessions that share a graph and a manager, and on a plain session beside each.
class ProgramRunner {
 public:
  ProgramRunner(const ProgramSpec& spec, const ProgramHooks& hooks);
  void run_calls();

 private:
  using Call = std::function<void()>;
  struct Pair {
    std::unique_ptr<Session> session, plain;
    std::int64_t step = 0;                  ///< of the next training batch
    std::optional<std::int64_t> pending{};  ///< the step of a forward half that has no backward half yet
    bool saved = false;
  };

  Pair& pair_of(const CallSpec& call) { return pairs_.at(static_cast<std::size_t>(call.session)); }
  bool any_pending() const;
  void count(CallKind kind, Ending ending) const;
  std::size_t device_memory();
  Ending make(const CallSpec& call);
  void forget_plain_programs(std::size_t call);

  bool refused(const Pair& pair, const Call& call, const Call& plain,
               const std::function<bool(std::size_t budget)>& fits = {});
  void expect_same_state(Pair& pair);
  void expect_memory(const Pair& pair, const std::string& who) const;

  // Steps and runs.
  Ending train(Pair& pair, const CallSpec& call);
  /// A step of the whole graph or a cycle; `wanted`: what the plain session has left, if the step was made.
  Ending train(Pair& pair, const CallSpec& call, bool whole, std::optional<Outcome>& wanted);
  Ending run_forward(Pair& pair, const CallSpec& call);
  Ending run_backward(Pair& pair, const CallSpec& call);
  std::vector<std::vector<std::size_t>> placed(const CallSpec& call, const std::vector<Value>& fetches);
  Ending run(Pair& pair, const CallSpec& call);

  // Other calls.
  Ending roll_back(Pair& pair, const CallSpec& call);
  Ending prepare(const CallSpec& call);
  Ending initialize(Pair& pair);
  Ending write(Pair& pair, const CallSpec& call);
  Ending save_or_load(Pair& pair, const CallSpec& call);
  Ending reload(Pair& pair, const CallSpec& call);
  Ending set_options(const CallSpec& call);
  Ending hold(const CallSpec& call);

  ProgramRun run_;
  const ProgramSpec& spec_;
  std::array<Pair, 2> pairs_;
};

}  // namespace sectionflow::testing
