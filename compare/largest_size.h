#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/export.h"
#include "compare/strategy.h"

namespace SF_API sectionflow {

/// The largest multiple of `unit`, from `least` to `limit`, that `fits`: from `start` on doubled until one does not, or
/// halved until one does, then by bisection. Takes for granted that what fits also fits smaller. 0: not even the least
/// fits. Throws: ArgumentError unless 1 <= unit, least <= start <= limit; what `fits` throws.
std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits, std::int64_t start, std::int64_t limit,
                               std::int64_t unit = 1, std::int64_t least = 1);

/// What find_largest_sizes looks for.
struct LargestOptions {
  std::string what = "batch";  ///< "batch", "side"
  std::int64_t start = 1, limit = 1 << 20, unit = 1;
  std::int64_t least = 1;  ///< what is smaller is not tried, as images that a network is not made for
  SessionOptions session{};
  /// All strategies, for a model and a batch of that size.
  std::function<std::vector<Strategy>(std::int64_t size)> strategies{};
  /// A batch of that size.
  std::function<Batch(std::int64_t size)> batch{};
  /// Whether the size is the number of examples; then only small batches are made for planning.
  bool is_batch = true;
  bool train = true;  ///< one step of the size found; false: it is what the plans say
  /// Called when a strategy is done.
  std::function<void(const std::string& strategy, std::int64_t size)> on_found{};
};

/// The largest size that one strategy trains within the budgets.
struct LargestSize {
  std::string name;
  std::int64_t size = 0;                ///< 0: not even the smallest
  double ratio = 0;                     ///< to the size of the strategy "whole", or of the first; 0: that trains none
  std::size_t planned_peak_bytes = 0;   ///< of device memory
  std::size_t measured_peak_bytes = 0;  ///< in one real step of that size
  bool proved = false;      ///< a real step was trained: it took the planned bytes, and its loss is a finite number
  double step_ms = 0;       ///< of that step, the first one
  std::string next_misfit;  ///< why the next size does not fit; empty at the limit
};

/// Of every strategy.
struct LargestSizes {
  std::string what;
  std::vector<LargestSize> strategies;

  /// A table for people.
  std::string text() const;
};

/// Finds for each strategy the largest size whose plan fits the budgets, then trains one step of it, if it is to.
/// Throws: ArgumentError without a budget of device memory; what building and training throw but for a BudgetError.
LargestSizes find_largest_sizes(const LargestOptions& options);

}  // namespace sectionflow
