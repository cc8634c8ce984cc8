#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/training_spec.h"

namespace sectionflow::testing {

/// What a program adds to a trained model by itself.
enum class ExtraKind {
  average,  ///< a moving average of a trained variable, of its value before the cycle
  count,    ///< a counter
  collect,  ///< adds up the sum of a gradient
  copy,     ///< assigns the mean of a value
  follow,   ///< adds up the mean of a value, behind another update
  wait,     ///< a value that waits for an update
  mix,      ///< a value outside of all sections, of values of several and a variable
};
inline constexpr int kNumExtraKinds = 7;

/// One addition. Which values and updates it takes is counted round among those that there are, so that every number is
/// good for every model.
struct ExtraSpec {
  ExtraKind kind = ExtraKind::count;
  int source = 0, other = 0;
  bool trains = false;  ///< an update counts as one that applies gradients: running it is a training cycle
};

/// What is called on a program.
enum class CallKind {
  whole,       ///< a training step by Session::run
  cycle,       ///< by run_full_cycle
  forward,     ///< run_forward
  backward,    ///< run_backward, with fetches of its own or without
  discard,     ///< discard_forward
  evaluate,    ///< the forward pass alone, in evaluation mode
  compute,     ///< any values, without the updates
  add,         ///< nodes for the graph
  roll_back,   ///< nodes for the graph that are run and then taken out again
  prepare,     ///< prepare_training once more, behind another update, value or entry of a collection
  initialize,  ///< Session::initialize once more
  write,       ///< another value for a variable
  save,        ///< save_variables
  load,        ///< load_variables, of what was saved last
  reload,      ///< the graph and the variables by way of files into another graph and session, and a step there too
  lms,         ///< a step of a copy of the graph, edited by Lms, in a session of its own
  swap,        ///< a step of the whole graph with insert_swaps in the smallest budget, in a session of its own
  options,     ///< set_section_options
  hold,        ///< tensors that a section is to keep beside those that it must
  smallest,    ///< a cycle in the smallest budgets of device and host memory, in a session of its own
};
inline constexpr int kNumCallKinds = 20;
const char* name_of(CallKind kind);
const char* name_of(ExtraKind kind);

// CallSpec::fetches: the loss; the latest of all values; both; all that additions and calls have made.
inline constexpr int kFetchesLoss = 0, kFetchesTheLatest = 1, kFetchesLossAndLatest = 2, kFetchesAllMade = 3,
                     kFirstDrawnFetches = 4;

/// One call. Which values it fetches, and what else it does, is drawn from its numbers.
struct CallSpec {
  CallKind kind = CallKind::cycle;
  int session = 0;  ///< of two that share the graph and the manager
  int fetches = 0;  ///< one of those below, or from kFirstDrawnFetches on the seed of a draw
  int option = 0;
};

/// Values are counted from the last one back by numbers from this one on.
inline constexpr int kFromTheBack = 1000;

/// What CallKind::add and CallKind::roll_back make: CallSpec::option modulo this says which operation, the rest of it
/// says what that reads.
inline constexpr int kDerivations = 9;
/// What is done with nodes before they are rolled back.
enum class RolledBackUse { run, cycle, forward, plan };
RolledBackUse rolled_back_use(const CallSpec& call);

/// A model, what is added to its training, the sessions, and what is called on them, as plain data.
struct ProgramSpec {
  TrainingSpec model{};  ///< `steps` is the step with a smaller batch
  std::vector<ExtraSpec> extras{};
  std::vector<CallSpec> calls{};
  bool swap_variables = false;
  bool random_delays = false;
  bool poison = false;
  bool forgets_programs = false;  ///< sessions keep no more programs than they must
};

/// The model with its cut, then additions and calls, one a line.
std::string listing(const ProgramSpec& spec);

/// All that differs from a plain spec, as JSON in one line.
std::string text_of_spec(const ProgramSpec& spec);
/// The spec of that text. Throws: ArgumentError for a text that is none.
ProgramSpec spec_of_text(const std::string& text);

/// A random program: the same for the same seed on every machine.
ProgramSpec random_program(std::uint64_t seed);

}  // namespace sectionflow::testing
