#pragma once

#include <vector>

namespace sectionflow {

/// Whether the executions of a program have come to take longer than is expected of them, by their seconds alone. The
/// first few do not count: pages are touched then, and libraries load code.
class DriftWatch {
 public:
  static constexpr int kNotCounted = 3;
  /// Executions that set what is expected, where nothing else does.
  static constexpr int kFirst = 9;
  /// Times what is expected: longer is too long.
  static constexpr double kTolerance = 1.1;

  /// What a profile of this machine predicts is expected.
  static DriftWatch by_prediction(double seconds) { return {true, seconds}; }
  /// The median of the first ones that count is expected, but not less than so much.
  static DriftWatch by_first(double least_seconds = 0) { return {false, least_seconds}; }

  /// After each execution. Whether it and those before it, so many in a row, took too long.
  bool add(double seconds, int in_a_row);

  double expected_seconds() const { return expected_; }
  /// The mean of those that took too long.
  double measured_seconds() const;

 private:
  DriftWatch(bool is_known, double expected) : is_known_(is_known), expected_(expected) {}

  bool is_known_;
  double expected_;  // at least, until it is known
  int passed_over_ = 0;
  std::vector<double> first_;
  int too_long_ = 0;  // in a row
  double too_long_seconds_ = 0;
};

}  // namespace sectionflow
