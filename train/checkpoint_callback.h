#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "swap/profile.h"
#include "train/callback.h"
#include "train/checkpoints.h"
#include "train/trainer.h"

namespace SF_API sectionflow {

struct TrainingMoment;

/// When CheckpointCallback saves, and what besides.
struct CheckpointCallbackOptions {
  std::int64_t every_steps = 0;   ///< of all fits; 0: not by steps
  std::int64_t every_epochs = 1;  ///< 0: not by epochs
  bool at_end = true;             ///< when a fit ends, by a signal too, but not after an error
  // Of SaveOptions:
  std::optional<Profile> profile{};
  std::string strategy{};
};

/// Saves a training by Checkpoints while it runs: variables, TrainerState::position(), and the logs as metrics, those
/// of the epoch with "val_..." where an epoch ends. What is saved already is not saved again, unless variables were
/// written since, or it was evaluated since when the fit ends. Give it behind all callbacks that keep something, so
/// that it saves what they know after the step. Behind EarlyStopping{restore_best}, what is saved at the end of a
/// training that is complete is the best variables, without metrics: those of the last epoch are of others. As a fit
/// begins it makes and locks the folder. Owns: nothing; the checkpoints must outlive it. Throws in its calls: as
/// Checkpoints::open and Checkpoints::save; as a fit begins, ArgumentError (SF-E608) for a
/// CheckpointOptions::best_metric that its logs will not have, and ArgumentError where the folder has checkpoints of
/// steps and the trainer neither saved nor resumed there nor was restored: they are another training's, which resume()
/// goes on with.
class CheckpointCallback final : public Callback {
 public:
  /// Throws: ArgumentError for negative numbers, and for options by which nothing would ever be saved.
  explicit CheckpointCallback(Checkpoints& checkpoints, CheckpointCallbackOptions options = {},
                              Where where = Where::here());
  void on_begin(const TrainerState& state) override;
  void on_step(const TrainerState& state) override;
  void on_evaluation(const TrainerState& state, const Logs& results) override;
  void on_epoch(const TrainerState& state) override;
  /// Waits for what is being written, too.
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

 private:
  /// What the folder has of this training.
  std::optional<TrainingMoment>& saved_of(const TrainerState& state);
  void note_owner(const TrainerState& state);
  bool are_logs_of(const TrainerState& state) const;
  Logs metrics_of(const TrainerState& state);
  void save_at(const TrainerState& state);

  Checkpoints& checkpoints_;
  CheckpointCallbackOptions options_;
  Where where_;                     // whose the errors of its calls are
  std::uint64_t logged_write_ = 0;  // the session's last when the logs were made
  bool has_warned_ = false;         // of a best metric that the logs do not have
  bool has_warned_of_direction_ = false;
};

/// Sets a trainer and its session to the newest sound checkpoint that a CheckpointCallback has saved: variables and
/// cycles at once, and at the next fit the place in the data and what callbacks keep. With the limits in FitOptions
/// that count over all fits (max_steps, max_epochs), a program that begins with it trains what is left, bit for bit as
/// if it had never ended, by whatever strategy. Call it behind Session::initialize. Nothing comes back where the folder
/// has no checkpoint: the training begins. Throws: as Checkpoints::restore_latest; DataError (SF-E617) where a
/// checkpoint of the folder is not a trainer's; ArgumentError within fit. Nothing has changed then.
std::optional<RestoredCheckpoint> resume(Trainer& trainer, Checkpoints& checkpoints, Where where = Where::here());

}  // namespace sectionflow
