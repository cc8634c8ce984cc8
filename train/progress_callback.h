#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "train/callback.h"
#include "train/progress.h"

namespace SF_API sectionflow {

/// One line about a running training, redrawn in place on a terminal (ProgressLine), and a line of results after each
/// evaluation and epoch:
///
///     epoch 1/3  step 120/240  loss 0.4312  accuracy 0.8562  1234 examples/s  ETA 0:42  peak 312 MiB  swapped 20 MiB
///     epoch 1:  accuracy 0.8211  loss 0.498  val_accuracy 0.8402  val_loss 0.4461  21.3 s
///
/// The line tells of the last step, and of an epoch that is over the means over it, as the line of results does. Peak
/// and swapped bytes are those of training, whatever has been evaluated since: the highest peak of its steps, and what
/// the last of them has swapped. Steps for which a program had to be planned, such as the first, are left out of speed
/// and remaining time, and are a line where they took more than a second. A training that is
/// complete before it begins is one line that says so. Waiting for data is told where it took more than a tenth of an
/// epoch's time.
class Progress final : public Callback {
 public:
  explicit Progress(ProgressOptions options = {});
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_step(const TrainerState& state) override;
  void on_evaluation(const TrainerState& state, const Logs& results) override;
  void on_epoch(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }
  bool shows_logs() const override { return true; }

 private:
  ProgressState progress_of(const TrainerState& state) const;
  void note_planning(const TrainerState& state);
  void show_step();
  void print(const std::string& line);
  double now() const;

  ProgressOptions options_;
  std::optional<ProgressLine> line_;
  std::optional<ProgressState> step_;  // the last of an epoch, which gives way to the means if they follow
  std::size_t reclaimed_before_ = 0;
  std::int64_t programs_before_ = 0;  // a step: planned up to then
  double step_begun_ = 0;
  double planning_seconds_ = 0;                              // of this fit, with the steps that followed at once,
  std::int64_t planning_steps_ = 0, planning_examples_ = 0;  // which were so many, of so many examples
  std::size_t peak_bytes_ = 0, swapped_bytes_ = 0;           // of steps; an evaluation behind one is another program
  bool has_line_ = false;                                    // of this fit
  double epoch_begun_ = 0, data_seconds_ = 0;
};

}  // namespace sectionflow
