#include "train/checkpoint_callback.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "runtime/engine.h"
#include "train/trainer_core.h"
#include "train/training_progress.h"
#include "train/training_run.h"
#include "train/variable_snapshot.h"

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

/// Whether the logs are of the variables that are there: behind EarlyStopping{restore_best} these are others.
bool CheckpointCallback::are_logs_of(const TrainerState& state) const {
  return engine(state.session).last_write() == logged_write_;
}

/// The logs, with the evaluation of this step where there is one; and where nothing but an evaluation has come to what
/// is saved already, what that has.
Logs CheckpointCallback::metrics_of(const TrainerState& state) {
  if (!are_logs_of(state)) return {};
  Logs metrics = state.logs;
  const TrainerCore& core = state.run->core();
  if (core.is_evaluated()) {
    for (const auto& [name, value] : core.progress().evaluation) metrics.emplace("val_" + name, value);
  }
  std::optional<TrainingMoment> saved = saved_of(state);
  const TrainingMoment now = core.moment();
  if (saved) saved->evaluated_step = now.evaluated_step;
  if (saved != now) return metrics;
  for (const CheckpointInfo& info : checkpoints_.list(where_)) {
    if (info.step == state.step && info.problem.empty()) metrics.insert(info.metrics.begin(), info.metrics.end());
  }
  return metrics;
}

void CheckpointCallback::save_at(const TrainerState& state) {
  std::optional<TrainingMoment>& saved = saved_of(state);
  const Logs metrics = metrics_of(state);
  // A save that has failed is tried again when the next one is due.
  saved.reset();
  if (checkpoints_.save(state.session,
                        {.step = state.step,
                         .data_position = state.position(),
                         .metrics = metrics,
                         .profile = options_.profile,
                         .strategy = options_.strategy},
                        where_)) {
    saved = state.run->core().moment();
  }
}

/// Whoever has merely opened a folder, or failed to save into it, has nothing there.
void CheckpointCallback::note_owner(const TrainerState& state) {
  if (checkpoints_.has_saved(state.session)) state.run->core().note_owner_of(checkpoints_.identity());
}

std::optional<TrainingMoment>& CheckpointCallback::saved_of(const TrainerState& state) {
  return state.run->core().saved()[checkpoints_.identity()];
}

void CheckpointCallback::on_begin(const TrainerState& state) {
  check_has_no_shards(state.session, "CheckpointCallback");
  const std::string& best = checkpoints_.options().best_metric;
  if (!best.empty()) {
    check_monitored(state, best, "CheckpointOptions::best_metric");
    if (!std::exchange(has_warned_of_direction_, true)) {
      warn_of_direction(best, checkpoints_.options().higher_is_better, "CheckpointOptions::best_metric");
    }
  }
  checkpoints_.open(where_);
  logged_write_ = engine(state.session).last_write();
  TrainerCore& core = state.run->core();
  const bool is_known = core.is_owner_of(checkpoints_.identity());
  (void)checkpoints_.wait(where_);  // of what was saved by hand
  // A position that was restored by hand may be from any folder, and checkpoints may have been saved by hand.
  const bool may_be_its = is_known || core.is_restored_by_hand() || checkpoints_.has_saved(state.session);
  std::int64_t latest = 0;
  bool has_step = false;
  for (const CheckpointInfo& info : checkpoints_.list(where_)) {
    if (!info.problem.empty()) continue;
    // The checkpoints of both would be taken for one training's, and the others go as these come.
    SF_CHECK(info.step == 0 || (state.step > 0 && may_be_its), ArgumentError, "CheckpointCallback: this training ",
             state.step > 0 ? text_of("is at step ", state.step, " of its own") : std::string("begins"), ", and '",
             checkpoints_.folder(), "' has checkpoints of another, that of step ", info.step, " among them",
             hint("resume(trainer, checkpoints) goes on with it; another folder begins anew"));
    has_step |= info.step == state.step;
    latest = std::max(latest, info.step);
  }
  // Of what neither this trainer has saved nor resume() has loaded nobody knows whose variables it has.
  if (!has_step) saved_of(state).reset();
  LOG_IF(WARNING, latest > state.step) << "CheckpointCallback: this training goes on from step " << state.step
                                       << ", and '" << checkpoints_.folder() << "' has checkpoints up to step "
                                       << latest << ", which go as new ones come";
}

void CheckpointCallback::on_step(const TrainerState& state) {
  logged_write_ = engine(state.session).last_write();
  if (options_.every_steps > 0 && state.step % options_.every_steps == 0) save_at(state);
}

void CheckpointCallback::on_evaluation(const TrainerState& state, const Logs&) {
  logged_write_ = engine(state.session).last_write();
}

void CheckpointCallback::on_epoch(const TrainerState& state) {
  logged_write_ = engine(state.session).last_write();
  const std::string& best = checkpoints_.options().best_metric;
  const bool lacks_best = !best.empty() && !state.logs.contains(best) && !is_evaluated_later(state, best);
  LOG_IF(WARNING, lacks_best && !has_warned_)
      << "CheckpointCallback: there is no '" << best << "', CheckpointOptions::best_metric, in the logs of epoch "
      << state.epoch << ": the best checkpoint does not stay";
  has_warned_ |= lacks_best;
  if (options_.every_epochs > 0 && state.epoch % options_.every_epochs == 0) save_at(state);
}

void CheckpointCallback::on_end(const TrainerState& state) {
  // What an asynchronous save has come to is known only now.
  std::optional<TrainingMoment>& saved = saved_of(state);
  if (!checkpoints_.wait(where_)) saved.reset();
  note_owner(state);
  if (state.reason == StopReason::error) return;
  const auto is_saved = [&] { return saved == state.run->core().moment(); };
  if (state.step == 0 && !is_saved()) {
    state.note("nothing is trained yet");
    return;
  }
  if (options_.at_end && !is_saved()) {
    save_at(state);
    if (!checkpoints_.wait(where_)) saved.reset();
    note_owner(state);
  }
  state.note(is_saved() ? text_of("'", checkpoints_.folder(), "' has a checkpoint of it")
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
    trainer.core_->note_resumed(checkpoints.identity());
    LOG(INFO) << "resumed '" << restored->checkpoint.path << "': " << trainer.step() << " steps, " << trainer.epoch()
              << " epochs";
    return restored;
  });
}

}  // namespace sectionflow
