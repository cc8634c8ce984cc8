#pragma once

#include <cstdint>

#include "train/trainer.h"

namespace sectionflow {

/// Whether a fit evaluates now and then.
inline bool validates(const FitOptions& options) {
  return options.validation != nullptr && (options.validate_every > 0 || options.validate_every_steps > 0);
}

/// Whether it evaluates once more where it ends.
inline bool evaluates_at_end(const FitOptions& options) {
  return options.validate_at_end && options.validation != nullptr;
}

/// Refuses options of a fit of that source that mean nothing, before anything is read. Throws: ArgumentError, with
/// SF-E603 without a limit, and SF-E616 for epochs or evaluations that would have no end; for callbacks that are given
/// twice, or keep something and stand behind a CheckpointCallback.
void check_fit_options(const FitOptions& options, const BatchSource& source);

/// Refuses to evaluate a whole pass, which `steps` of 0 mean, of a source whose pass has no end. Throws: ArgumentError
/// (SF-E616).
void check_evaluation_ends(const BatchSource& source, std::int64_t steps);

}  // namespace sectionflow
