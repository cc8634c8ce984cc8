#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "tests/support/program_spec.h"

namespace sectionflow::testing {

/// What is wrong with a program.
struct ProgramFailure {
  Failure::Kind kind = Failure::Kind::difference;
  std::string mark{};  ///< by which failures of one cause are known: the code of an error, what differs
  std::string text{};
};

/// How often calls were made and how often they were rightly refused, by kind.
struct CallCounts {
  std::array<int, kNumCallKinds> done{}, refused{}, skipped{};
};

/// What tests do with a program that is run.
struct ProgramHooks {
  /// Called for each session that is compared with plain ones, before it is used. Faults are planted here.
  std::function<void(const Graph&, Session&)> on_session{};
  CallCounts* counts = nullptr;  ///< counted up, where it is there
};

/// Runs a program, and beside it the same training by a plain session of the whole graph, of a graph that was made
/// anew: all fetches, variables and counters must be the same bytes. Memory that is measured must be what was planned,
/// and only what has to be may be refused. Nothing is thrown.
std::optional<ProgramFailure> find_failure(const ProgramSpec& spec, const ProgramHooks& hooks = {});

}  // namespace sectionflow::testing
