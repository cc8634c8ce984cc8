#include "train/progress_callback.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "base/error.h"

namespace sectionflow {
namespace {

/// Of an epoch's time, from which on waiting for data is worth a word.
constexpr double kNotableWait = 0.1;

/// From which on planning is worth a line.
constexpr double kNotablePlanning = 1;

/// Programs that a session has planned so far.
std::int64_t num_planned(const Session& session) {
  const Statistics& figures = session.statistics();
  return figures.programs_kept + figures.programs_evicted + figures.programs_replanned;
}

std::string short_number(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof(text), format, number);
  return text;
}

std::string logs_text(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) {
    text += text_of("  ", name, " ", std::isnan(value) ? "nan" : short_number("%.4g", value));
  }
  return text;
}

/// Whether a limit is reached before a step is made.
bool is_complete(const TrainerState& state) {
  return (state.last_epoch > 0 && state.epoch > state.last_epoch) ||
         (state.last_step > 0 && state.step >= state.last_step);
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (options_.counted.empty()) options_.counted = "examples";
}

double Progress::now() const {
  if (options_.now_seconds) return options_.now_seconds();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressState Progress::progress_of(const TrainerState& state) const {
  ProgressState progress{.images_done = state.num_examples - planning_examples_,
                         .peak_bytes = peak_bytes_,
                         .planning_seconds = planning_seconds_,
                         .planning_steps = planning_steps_,
                         .swapped_bytes = swapped_bytes_};
  if (state.last_epoch == 0 && state.last_step > 0) {
    progress.step = state.step;
    progress.num_steps = state.last_step;
  } else {
    progress.epoch = state.epoch;
    progress.num_epochs = state.last_epoch;
    progress.step = state.step_in_epoch;
    progress.num_steps = state.steps_per_epoch;
  }
  for (const auto& [name, value] : state.logs) {
    if (name == "loss") {
      progress.loss = value;
    } else {
      progress.metrics.emplace_back(name, value);
    }
  }
  return progress;
}

void Progress::on_begin(const TrainerState& state) {
  line_.emplace(options_);
  step_.reset();
  // Of the session's last program nothing is told: it is none of this training.
  peak_bytes_ = swapped_bytes_ = 0;
  planning_seconds_ = 0;
  planning_steps_ = planning_examples_ = 0;
  epoch_begun_ = now();
  data_seconds_ = 0;
  if (is_complete(state)) {
    print(text_of("nothing is left to train: ", state.step, " steps and ", state.epoch - 1, " epochs are completed"));
  }
  has_line_ = false;
}

/// The first line stands before the first step, where there is one: another callback may have ended the training.
void Progress::on_step_begin(const TrainerState& state, Feeds&) {
  if (!std::exchange(has_line_, true)) line_->update(progress_of(state));
  reclaimed_before_ = state.session.statistics().bytes_reclaimed;
  programs_before_ = num_planned(state.session);
  step_begun_ = now();
}

/// A batch of another size, as the first of all is, has its program planned within its step.
void Progress::note_planning(const TrainerState& state) {
  if (num_planned(state.session) == programs_before_) return;
  const double seconds = now() - step_begun_;
  planning_seconds_ += seconds;
  ++planning_steps_;
  planning_examples_ += state.batch_size;
  if (seconds <= kNotablePlanning) return;
  print(text_of("planning, and step ", state.step, " by the new plan: ", short_number("%.1f s", seconds)));
}

void Progress::on_step(const TrainerState& state) {
  data_seconds_ += state.data_seconds;
  const Statistics& figures = state.session.statistics();
  peak_bytes_ = std::max(peak_bytes_, figures.planned_peak_bytes);
  swapped_bytes_ = figures.bytes_reclaimed - reclaimed_before_;
  note_planning(state);
  if (state.step_in_epoch == state.steps_per_epoch) {
    step_ = progress_of(state);
  } else {
    line_->update(progress_of(state));
  }
}

void Progress::show_step() {
  if (step_) line_->update(*step_);
  step_.reset();
}

void Progress::print(const std::string& line) {
  line_->finish();
  (options_.stream != nullptr ? *options_.stream : std::cerr) << line << '\n' << std::flush;
}

void Progress::on_evaluation(const TrainerState& state, const Logs& results) {
  // That of an epoch's end stands in the epoch's line.
  if (state.last_epoch > 0 || state.last_step == 0) return;
  show_step();
  print(text_of("step ", state.step, ":", logs_text(results)));
}

void Progress::on_epoch(const TrainerState& state) {
  step_.reset();
  ProgressState means = progress_of(state);
  std::erase_if(means.metrics, [](const auto& metric) { return metric.first.starts_with("val_"); });
  line_->update(means);
  const double seconds = now() - epoch_begun_;
  std::string line = text_of("epoch ", state.epoch, ":", logs_text(state.logs), "  ", short_number("%.1f s", seconds));
  if (data_seconds_ > kNotableWait * seconds) {
    line += short_number(", of which %.1f s waiting for data", data_seconds_);
  }
  print(line);
  epoch_begun_ = now();
  data_seconds_ = 0;
}

void Progress::on_end(const TrainerState&) {
  show_step();
  line_.reset();
}

}  // namespace sectionflow
