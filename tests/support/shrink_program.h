#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace sectionflow::testing {

/// The programs that are one simplification away, the boldest first: without half of the calls, without one, without an
/// addition, with a simpler model. Each is simpler, so that shrinking comes to an end.
std::vector<ProgramSpec> simpler_programs(const ProgramSpec& spec);

/// A failing program with the smallest that was found to fail in the same way.
struct ProgramReport {
  ProgramSpec original, shrunk;
  ProgramFailure failure, shrunk_failure;
  int tried = 0;

  /// Both failures, the listing of both programs, and the text of the smaller one.
  std::string text() const;
};

/// Runs a program; one that fails is shrunk, by at most `most_tries` others. `before_try` is called before each is run.
std::optional<ProgramReport> examine(const ProgramSpec& spec, const ProgramHooks& hooks = {}, int most_tries = 300,
                                     const std::function<void(const ProgramSpec&)>& before_try = {});

}  // namespace sectionflow::testing
