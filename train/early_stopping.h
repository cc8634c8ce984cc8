#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/host_tensor.h"
#include "train/callback.h"

namespace SF_API sectionflow {

/// When EarlyStopping ends a training.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";  ///< a number of the epochs' logs
  bool maximize = false;             ///< whether larger is better, as of an accuracy
  std::int64_t patience = 0;         ///< epochs without improvement that are borne
  double min_delta = 0;              ///< less than that is no improvement
  std::int64_t start_epoch = 0;      ///< epochs that are only watched: none of these ends the training
  /// Ends the training also where it goes on as it should, once the number is as good as this.
  bool has_target = false;
  double target = 0;
  /// Keeps a copy of every variable, optimiser slots and statistics included, of the best epoch in host memory, and
  /// sets them again when the training is completed or a callback ends it. The count of cycles stays. What a signal
  /// ends is to go on later, and is left as it is.
  bool restore_best = false;
};

/// Ends a training when a number has not improved for more than `patience` epochs. What it counts is part of positions:
/// a training that it has ended is ended at once where it goes on from a checkpoint, unless it is given more patience
/// or another target. Copies of variables are not: the best to be set again is then the best of the epochs since, as a
/// warning says.
class EarlyStopping final : public Callback {
 public:
  /// Throws: ArgumentError for negative numbers.
  explicit EarlyStopping(EarlyStoppingOptions options = {}, Where where = Where::here());

  void on_begin(const TrainerState& state) override;
  void on_epoch(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::string name() const override { return "EarlyStopping"; }
  std::string save() const override;
  void restore(const std::string& saved) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

  /// The best number so far, and the epoch that had it; 0: none yet.
  double best() const { return best_; }
  std::int64_t best_epoch() const { return best_epoch_; }

 private:
  bool is_target(double value) const;
  std::string target_text(double value) const;
  std::string patience_text() const;

  EarlyStoppingOptions options_;
  double best_ = 0;
  std::int64_t best_epoch_ = 0, bad_epochs_ = 0;
  std::map<std::string, HostTensor> variables_;
  bool is_restored_ = false;
  bool best_is_earlier_ = false;  // of an epoch before this start, which nobody has a copy of
};

}  // namespace sectionflow
