#include "train/checkpoint_callback.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "runtime/engine.h"
#include "train/trainer_core.h"
#include "train/training_progress.h"

namespace sectionflow {

CheckpointCallback::CheckpointCallback(Checkpoints& checkpoints, CheckpointCallbackOptions options, Where where)
    : checkpoints_(checkpoints), options_(std::move(options)), where_(where) {
  call_at(where, [&] {
    SF_CHECK(options_.every_steps >= 0 && options_.every_epochs >= 0, ArgumentError,
             "CheckpointCallback: every_steps is ", options_.every_steps, " and every_epochs ", options_.every_epochs,
             "; wanted 0 (not by these) or more");
    SF_CHECK(options_.every_steps > 0 || options_.every_epochs > 0 || options_.at_end, ArgumentError,
             "CheckpointCallback: by these options nothing is ever saved",
             hint("set every_steps or every_epochs, or leave at_end"));
  });
}

CheckpointCallback::Place CheckpointCallback::place_of(const TrainerState& state, std::int64_t epochs) const {
  return {state.step, epochs, engine(state.session).variable_writes(), evaluations_};
}

/// Whether the logs are of the variables that are there: behind EarlyStopping{restore_best} these are others.
bool CheckpointCallback::are_logs_of(const TrainerState& state) const {
  return engine(state.session).variable_writes() == logged_writes_;
}

void CheckpointCallback::save_at(const TrainerState& state, std::int64_t epochs) {
  // A save that has failed is tried again when the next one is due.
  saved_.reset();
  if (checkpoints_.save(state.session,
                        {.step = state.step,
                         .data_position = state.position(),
                         .metrics = are_logs_of(state) ? state.logs : Logs(),
                         .profile = options_.profile,
                         .strategy = options_.strategy},
                        where_)) {
    saved_ = place_of(state, epochs);
  }
}

/// Where a training begins that has been restored, there is nothing new to save: the folder has that step.
void CheckpointCallback::on_begin(const TrainerState& state) {
  const std::string& best = checkpoints_.options().best_metric;
  if (!best.empty()) {
    check_monitored(state, best, "CheckpointOptions::best_metric");
    if (!std::exchange(has_warned_of_direction_, true)) {
      warn_of_direction(best, checkpoints_.options().higher_is_better, "CheckpointOptions::best_metric");
    }
  }
  checkpoints_.open(where_);
  saved_.reset();
  evaluations_ = 0;
  logged_writes_ = engine(state.session).variable_writes();
  std::int64_t latest = 0;
  for (const CheckpointInfo& info : checkpoints_.list(where_)) {
    if (!info.problem.empty()) continue;
    // The checkpoints of both would be taken for one training's, and the others go as these come.
    SF_CHECK(state.step > 0 || info.step == 0, ArgumentError, "CheckpointCallback: this training begins, and '",
             checkpoints_.folder(), "' has checkpoints of another, that of step ", info.step, " among them",
             hint("resume(trainer, checkpoints) goes on with it; another folder begins anew"));
    if (info.step == state.step) saved_ = place_of(state, state.epoch - 1);
    latest = std::max(latest, info.step);
  }
  LOG_IF(WARNING, latest > state.step) << "CheckpointCallback: this training goes on from step " << state.step
                                       << ", and '" << checkpoints_.folder() << "' has checkpoints up to step "
                                       << latest << ", which go as new ones come";
}

void CheckpointCallback::on_step(const TrainerState& state) {
  logged_writes_ = engine(state.session).variable_writes();
  if (options_.every_steps > 0 && state.step % options_.every_steps == 0) save_at(state, state.epoch - 1);
}

void CheckpointCallback::on_evaluation(const TrainerState& state, const Logs&) {
  ++evaluations_;
  logged_writes_ = engine(state.session).variable_writes();
}

void CheckpointCallback::on_epoch(const TrainerState& state) {
  logged_writes_ = engine(state.session).variable_writes();
  const std::string& best = checkpoints_.options().best_metric;
  const bool lacks_best = !best.empty() && !state.logs.contains(best) && !is_evaluated_later(state, best);
  LOG_IF(WARNING, lacks_best && !has_warned_)
      << "CheckpointCallback: there is no '" << best << "', CheckpointOptions::best_metric, in the logs of epoch "
      << state.epoch << ": the best checkpoint does not stay";
  has_warned_ |= lacks_best;
  if (options_.every_epochs > 0 && state.epoch % options_.every_epochs == 0) save_at(state, state.epoch);
}

void CheckpointCallback::on_end(const TrainerState& state) {
  if (state.reason == StopReason::error) {
    checkpoints_.wait(where_);
    return;
  }
  // What an asynchronous save has come to is known only now.
  const bool is_written = checkpoints_.wait(where_);
  bool is_saved = is_written && saved_ && *saved_ == place_of(state, state.epoch - 1);
  if (state.step == 0 && !is_saved) {
    state.note("nothing is trained yet");
    return;
  }
  if (options_.at_end && !is_saved) {
    save_at(state, state.epoch - 1);
    is_saved = checkpoints_.wait(where_) && saved_.has_value();
  }
  state.note(is_saved ? text_of("'", checkpoints_.folder(), "' has a checkpoint of it")
                      : text_of("'", checkpoints_.folder(), "' has no checkpoint of it"));
}

std::optional<RestoredCheckpoint> resume(Trainer& trainer, Checkpoints& checkpoints, Where where) {
  return call_at(where, [&]() -> std::optional<RestoredCheckpoint> {
    // Before anything changes: which of them turns out to be the newest sound one is not known yet.
    for (const CheckpointInfo& info : checkpoints.list(where)) {
      if (!info.problem.empty()) continue;
      try {
        (void)TrainingProgress::read(info.data_position);
      } catch (const DataError&) {
        throw DataError(
            error_text_of("resume: '", info.path, "' was not saved by a CheckpointCallback: its data position is ",
                          info.data_position.empty() ? "empty" : "none of a Trainer's",
                          hint("go on by Checkpoints::restore_latest in a loop of your own, or take another folder")),
            ErrorCode::no_training_position);
      }
    }
    trainer.core_->check_not_fitting("resume");
    auto restored = checkpoints.restore_latest(trainer.session(), {}, where);
    if (!restored) return std::nullopt;
    trainer.restore(restored->checkpoint.data_position);
    LOG(INFO) << "resumed '" << restored->checkpoint.path << "': " << trainer.step() << " steps, " << trainer.epoch()
              << " epochs";
    return restored;
  });
}

}  // namespace sectionflow
