#include "train/checkpoint_callback.h"

#include <glog/logging.h>

#include <utility>

#include "train/trainer_core.h"
#include "train/training_progress.h"

namespace sectionflow {

CheckpointCallback::CheckpointCallback(Checkpoints& checkpoints, CheckpointCallbackOptions options, Where where)
    : checkpoints_(checkpoints), options_(std::move(options)) {
  call_at(where, [&] {
    SF_CHECK(options_.every_steps >= 0 && options_.every_epochs >= 0, ArgumentError,
             "CheckpointCallback: every_steps is ", options_.every_steps, " and every_epochs ", options_.every_epochs,
             "; wanted 0 (not by these) or more");
    SF_CHECK(options_.every_steps > 0 || options_.every_epochs > 0 || options_.at_end, ArgumentError,
             "CheckpointCallback: by these options nothing is ever saved",
             hint("set every_steps or every_epochs, or leave at_end"));
  });
}

void CheckpointCallback::save_at(const TrainerState& state, Place place) {
  // A save that has failed is tried again when the next one is due.
  saved_.reset();
  if (checkpoints_.save(state.session, {.step = state.step,
                                        .data_position = state.position(),
                                        .metrics = state.logs,
                                        .profile = options_.profile,
                                        .strategy = options_.strategy})) {
    saved_ = place;
  }
}

/// Where a training begins that has been restored, or goes on after another fit, there is nothing new to save.
void CheckpointCallback::on_begin(const TrainerState& state) {
  saved_ = Place{state.step, state.epoch - 1};
}

void CheckpointCallback::on_step(const TrainerState& state) {
  if (options_.every_steps > 0 && state.step % options_.every_steps == 0) save_at(state, {state.step, state.epoch - 1});
}

void CheckpointCallback::on_epoch(const TrainerState& state) {
  if (options_.every_epochs > 0 && state.epoch % options_.every_epochs == 0) save_at(state, {state.step, state.epoch});
}

void CheckpointCallback::on_end(const TrainerState& state) {
  if (state.reason == StopReason::error) {
    checkpoints_.wait();
    return;
  }
  // What an asynchronous save has come to is known only now.
  const bool is_written = checkpoints_.wait();
  const Place place{state.step, state.epoch - 1};
  if (!options_.at_end || (is_written && saved_ && *saved_ == place)) return;
  save_at(state, place);
  checkpoints_.wait();
}

std::optional<RestoredCheckpoint> resume(Trainer& trainer, Checkpoints& checkpoints, Where where) {
  return call_at(where, [&]() -> std::optional<RestoredCheckpoint> {
    // Before anything changes: which of them turns out to be the newest sound one is not known yet.
    for (const CheckpointInfo& info : checkpoints.list()) {
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
    auto restored = checkpoints.restore_latest(trainer.session());
    if (!restored) return std::nullopt;
    trainer.restore(restored->checkpoint.data_position);
    LOG(INFO) << "resumed '" << restored->checkpoint.path << "': " << trainer.step() << " steps, " << trainer.epoch()
              << " epochs";
    return restored;
  });
}

}  // namespace sectionflow
