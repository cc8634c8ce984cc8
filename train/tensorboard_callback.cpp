#include "train/tensorboard_callback.h"

#include <glog/logging.h>

#include <utility>

#include "base/whole_file.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "sections/graph_section_manager.h"

namespace sectionflow {

TensorBoard::TensorBoard(const std::string& folder, TensorBoardOptions options, Where where)
    : folder_(absolute_path(folder).string()), options_(std::move(options)) {
  call_at(where, [&] {
    SF_CHECK(options_.every_steps >= 0 && options_.histogram_steps >= 0 && options_.profile_step >= 0, ArgumentError,
             "TensorBoard: every_steps is ", options_.every_steps, ", histogram_steps ", options_.histogram_steps,
             " and profile_step ", options_.profile_step, "; wanted 0 (none) or more of each");
  });
}

void TensorBoard::note_failure(const DataError& error) {
  LOG_IF(WARNING, failures_ == 0) << "TensorBoard: training goes on without what cannot be written: "
                                  << error.message();
  ++failures_;
}

/// Made when there is something to write: a start that trains nothing leaves no file. Tried once a fit: each try may
/// leave an empty one.
void TensorBoard::open() {
  if (writer_ || !std::exchange(is_to_open_, false)) return;
  try {
    writer_.emplace(folder_, options_.file);
  } catch (const DataError& error) {
    note_failure(error);
  }
}

/// Pictures are worth less than the training.
bool TensorBoard::write(const std::function<void(EventWriter&)>& events) {
  open();
  if (!writer_) {
    ++failures_;
    return false;
  }
  try {
    if (is_to_start_) writer_->start(first_step_);
    is_to_start_ = false;
    events(*writer_);
    return true;
  } catch (const DataError& error) {
    note_failure(error);
    return false;
  }
}

void TensorBoard::on_begin(const TrainerState& state) {
  first_step_ = state.step + 1;
  last_step_ = written_step_ = state.step;
  num_examples_ = 0;
  seconds_ = data_seconds_ = 0;
  wants_graph_ = options_.graph && !has_graph_;
  is_to_open_ = true;
  // A training that has gone back makes steps again that are in the same file.
  is_to_start_ = !writer_ || is_to_start_ || most_step_ > state.step;
  if (!writer_) check_writable_in(folder_, "events.out", "TensorBoard");
}

void TensorBoard::on_step_begin(const TrainerState& state, Feeds&) {
  if (options_.profile_step != 0 && state.step + 1 == options_.profile_step) state.trace_step();
}

void TensorBoard::write_step(const TrainerState& state) {
  Logs numbers = last_logs_;
  const double seconds = seconds_ + data_seconds_;
  if (seconds > 0) {
    numbers["speed/examples_per_second"] = static_cast<double>(num_examples_) / seconds;
    numbers["speed/data_share"] = data_seconds_ / seconds;
  }
  numbers["memory/peak_bytes"] = static_cast<double>(state.session.statistics().peak_bytes_in_use);
  write([&](EventWriter& events) { events.scalars(numbers, last_step_); });
  written_step_ = last_step_;
  num_examples_ = 0;
  seconds_ = data_seconds_ = 0;
}

void TensorBoard::on_step(const TrainerState& state) {
  if (options_.profile_step == state.step && state.trace != nullptr) {
    write([&](EventWriter& events) {
      events.run_metadata(text_of("step ", state.step), *state.trace, state.session.graph(), state.step);
    });
  }
  // Some callbacks edit the graph before the first step.
  if (std::exchange(wants_graph_, false)) {
    has_graph_ = write([&](EventWriter& events) { events.graph(state.session.graph()); });
  }
  num_examples_ += state.batch_size;
  seconds_ += state.step_seconds;
  data_seconds_ += state.data_seconds;
  // Of the last step nobody knows that it is, before the fit ends.
  most_step_ = last_step_ = state.step;
  last_logs_ = state.logs;
  const bool is_due = state.step == first_step_ || (options_.every_steps > 0 && state.step % options_.every_steps == 0);
  if (options_.every_steps > 0 && is_due) write_step(state);
  if (options_.histogram_steps > 0 && state.step % options_.histogram_steps == 0) {
    write([&](EventWriter& events) {
      events.weights(state.session, state.step);
      if (state.manager != nullptr) events.gradients(*state.manager, state.step);
    });
  }
}

void TensorBoard::on_evaluation(const TrainerState& state, const Logs& results) {
  write([&](EventWriter& events) { events.scalars(results, state.step); });
}

void TensorBoard::on_epoch(const TrainerState& state) {
  Logs means;
  for (const auto& [name, value] : state.logs) {
    if (!name.starts_with("val_")) means["epoch/" + name] = value;
  }
  write([&](EventWriter& events) { events.scalars(means, state.step); });
}

void TensorBoard::on_end(const TrainerState& state) {
  if (options_.every_steps > 0 && last_step_ != written_step_) write_step(state);
  if (writer_) write([](EventWriter& events) { events.flush(); });
}

}  // namespace sectionflow
