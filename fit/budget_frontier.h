#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

/// What fit_budget makes of a step under one budget of device memory.
struct BudgetPoint {
  std::size_t budget_bytes = 0;
  bool fits = false;  ///< if not, the figures are those of what comes closest
  double seconds = 0;
  /// No plan for this step takes less (docs/planning.md); infinite: there is none.
  double bound_seconds = 0;
  std::size_t peak_bytes = 0, host_peak_bytes = 0, disk_peak_bytes = 0;
  int recomputed_operations = 0;
  std::size_t bytes_out = 0;  ///< copied from device to host
};

/// A plan to be marked in a picture.
struct PlanMark {
  std::string name{};
  std::size_t bytes = 0;  ///< of device memory
  double overhead = 0;    ///< 0.12: takes 12 % longer than with all memory
};

/// Time against device memory, from the smallest budget in which anything fits to what the step takes with all memory.
/// Times are predicted.
struct BudgetFrontier {
  double whole_seconds = 0;          ///< with all memory
  std::size_t whole_peak_bytes = 0;  ///< what that takes
  std::size_t variables_bytes = 0;   ///< of it, whatever is planned
  /// What the operation takes that needs most at once, with the variables: nothing runs below it. Of what may run in
  /// parts it is one of them.
  std::size_t working_set_bytes = 0;
  std::string working_set_of{};  ///< that operation: "conv2d 'stem'"
  std::vector<BudgetPoint> points{};

  /// What a time is beyond `whole_seconds`, as a share of it.
  double overhead(double seconds) const;
  /// A table for people.
  std::string text() const;
  std::string json() const;
  /// Overhead in percent over device memory, as SVG: the points, the curve of the bound, and the marks.
  std::string picture(const std::vector<PlanMark>& marks = {}) const;
};

}  // namespace sectionflow
