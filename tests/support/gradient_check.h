#pragma once

#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "autodiff/gradient_registry.h"
#include "tests/support/gradient_subjects.h"

namespace sectionflow::testing_support {

/// One derivative beside what differences in double give, both along random directions.
struct DifferenceCheck {
  double found = 0, wanted = 0;
  double allowed = 0;  ///< from the terms of which `found` is the sum, in epsilons of f32

  double share() const { return std::abs(found - wanted) / allowed; }  ///< of what is allowed
};

/// What was found of a subject for one seed.
struct GradientFinding {
  bool is_smooth = true;  ///< otherwise a kink lies within the step: differences tell nothing, and nothing was checked
  DifferenceCheck first, second;
  std::string error;  ///< what was thrown instead
  /// Inputs through which gradients went, of every operation: "matmul:1".
  std::set<std::string> covered;

  bool is_right() const { return error.empty() && first.share() <= 1 && second.share() <= 1; }
  std::string text() const;
};

/// Makes a function of a subject, f = sum of smooth functions of its results and of its sources, and compares
/// - the gradient of f along a random direction v with the central difference of f, evaluated in double;
/// - the gradient of s = <gradient of f, u> for a random u along v, a second derivative through the rules of gradient
///   operations, with the mixed central difference of f along u and v.
/// Differences never ask for a gradient operation; those are judged, and do not judge. Rules come from `registry`.
GradientFinding check_gradients(const GradientRegistry& registry, const GradientSubject& subject, std::uint64_t seed);

}  // namespace sectionflow::testing_support
