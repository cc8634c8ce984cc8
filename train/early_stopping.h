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
  bool higher_is_better = false;     ///< of that number: true for an accuracy, false for a loss
  std::int64_t patience = 0;         ///< epochs without improvement that are borne
  double min_delta = 0;              ///< less than that is no improvement
  std::int64_t start_epoch = 0;      ///< epochs that are only watched: none of these ends the training
  /// Ends the training also where it goes on as it should, once the number is as good as this.
  bool has_target = false;
  double target = 0;
  /// Keeps a copy of every variable, optimiser slots and statistics included, of the best epoch in host memory, and
  /// sets them again when the training is completed or a callback ends it. The count of cycles stays. What a signal or
  /// an error ends is to go on later: it is left as it is, and so is the copy.
  bool restore_best = false;
};

/// Ends a training when a number has not improved for more than `patience` epochs. What it counts, and that it has
/// ended the training, is part of positions: a training that it has ended is ended at once where it goes on from a
/// checkpoint, unless it is given more patience or another target. Copies of variables are not: where the variables
/// that a start begins with are those of the best epoch, it copies them again; else a warning tells at which step they
/// were, and that the best to be set again is then the best of the epochs since. Where another number was watched, or
/// the same for its other side, a warning says so, and it begins anew.
///
/// A further fit of the same training, after an error too, goes on with what it has counted; one that follows a fit
/// that it has ended begins anew, and so does another training.
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
  double best() const { return counts_.best; }
  std::int64_t best_epoch() const { return counts_.best_epoch; }

 private:
  enum class Decision { none, patience, target };
  /// What positions have of it.
  struct Counts {
    double best = 0;
    std::int64_t best_epoch = 0, bad_epochs = 0;
    Decision decision = Decision::none;
    double decided_by = 0;       // the number at that epoch
    std::int64_t best_step = 0;  // behind which the session's variables are, or were, those of the best epoch
  };
  bool goes_on(const TrainerState& state);
  bool is_ended(const TrainerState& state) const;
  bool lacks_best(const TrainerState& state) const;
  void copy_variables(const TrainerState& state);
  bool is_target(double value) const;
  std::string why_text() const;

  EarlyStoppingOptions options_;
  Counts counts_;
  std::map<std::string, HostTensor> variables_;  // of the best epoch
  bool is_restored_ = false;
  TrainingPlace place_{};    // at the end of the last fit
  bool is_over_ = false;     // that fit was ended by what was decided here
  bool has_warned_ = false;  // of the side on which the best is sought
};

}  // namespace sectionflow
