#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

/// Where a training run stands. What is left at its default is not printed.
struct ProgressState {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t num_epochs = 0;
  std::int64_t step = 0;       ///< completed in this epoch
  std::int64_t num_steps = 0;  ///< in an epoch
  std::optional<double> loss = std::nullopt;
  std::int64_t images_done = 0;  ///< in the whole run; only its growth counts
  std::size_t peak_bytes = 0;    ///< of the device's memory, the highest so far
  /// What the run has taken for planning, and the steps that were made with it: no part of speed and remaining time.
  double planning_seconds = 0;
  std::int64_t planning_steps = 0;
  std::size_t swapped_bytes = 0;                          ///< copied to the host in the last step
  std::vector<std::pair<std::string, double>> metrics{};  ///< printed behind the loss
};

/// Where a ProgressLine writes, and how often.
struct ProgressOptions {
  std::ostream* stream = nullptr;  ///< nullptr: std::cerr
  /// Whether lines are redrawn in place; by itself true only for std::cerr and std::cout on a terminal.
  std::optional<bool> is_terminal = std::nullopt;
  /// The least time between two lines; by itself 0.1 s on a terminal and 3 s else, which keeps log files short.
  std::optional<double> min_interval_seconds = std::nullopt;
  std::string counted{};  ///< what `images_done` counts; empty: "images", of a trainer's Progress "examples"
  std::function<double()> now_seconds = nullptr;  ///< a clock that never goes back; nullptr: the steady clock
};

/// One line about a running training, redrawn in place on a terminal and as whole lines in a file or pipe:
///
///     epoch 1/3  step 120/240  loss 0.4312  1234 images/s  ETA 0:42  peak 312 MiB
///
/// Without epochs a run is `num_steps` steps. The first and the last state are always printed, others only as often as
/// `min_interval_seconds` allows. Speed and remaining time are means since the first state, without planning. Threads:
/// one at a time.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressOptions options = {});
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Finishes, so that an error is printed below the line and not into it.
  ~ProgressLine();

  void update(const ProgressState& state);

  /// Prints the last state unless it is there, and ends the line. A later update begins a new run.
  void finish();

 private:
  std::string line_of(const ProgressState& state, double now) const;
  void print(double now);

  std::ostream& stream_;
  bool is_terminal_;
  double min_interval_seconds_;
  std::string counted_;
  std::function<double()> now_seconds_;

  std::optional<ProgressState> first_;  // nothing before the first update, as are the following
  ProgressState last_;
  double first_time_ = 0;
  double last_time_ = 0;     // when last_ came
  double printed_time_ = 0;  // when a line was last printed
  bool last_is_printed_ = false;
};

}  // namespace sectionflow
