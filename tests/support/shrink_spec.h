#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/training_spec.h"

namespace sectionflow::testing {

using SpecTest = std::function<bool(const TrainingSpec&)>;

/// The specs that are one simplification away, the boldest first: without half of the layers, without one, without a
/// border, a skip connection, a shared variable, a step. Each is simpler, so that shrinking comes to an end.
std::vector<TrainingSpec> simpler_specs(const TrainingSpec& spec);

/// Simplifies a failing spec while it `fails`. No single simplification of the result fails, unless `most_tries` were
/// used up.
TrainingSpec shrink(TrainingSpec spec, const SpecTest& fails, int most_tries = 1000);

/// A failure with the smallest spec that was found to fail in the same way.
struct Report {
  TrainingSpec original, shrunk;
  Failure failure, shrunk_failure;
  int tried = 0;  ///< specs while shrinking

  std::string text() const;
};

/// Changes the options of a spec's trainings: faults are planted so.
using ChangeOptions = std::function<void(TrainOptions&)>;

/// Trains by all strategies; a spec that fails is shrunk.
std::optional<Report> examine(const TrainingSpec& spec, const ChangeOptions& change = {});

}  // namespace sectionflow::testing
