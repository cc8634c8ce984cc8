#include "train/progress_callback.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "base/error.h"

namespace sectionflow {
namespace {

/// Of an epoch's time, from which on waiting for data is worth a word.
constexpr double kNotableWait = 0.1;

std::string short_number(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof(text), format, number);
  return text;
}

std::string logs_text(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) text += text_of("  ", name, " ", short_number("%.4g", value));
  return text;
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
  ProgressState progress{.images_done = state.num_examples,
                         .peak_bytes = state.session.statistics().planned_peak_bytes,
                         .swapped_bytes = state.session.statistics().bytes_reclaimed - reclaimed_before_};
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
  reclaimed_before_ = state.session.statistics().bytes_reclaimed;
  epoch_begun_ = now();
  data_seconds_ = 0;
  ProgressState progress = progress_of(state);
  // Of the session's last program, which is none of this training.
  progress.peak_bytes = 0;
  line_->update(progress);
}

void Progress::on_step_begin(const TrainerState& state, Feeds&) {
  reclaimed_before_ = state.session.statistics().bytes_reclaimed;
}

void Progress::on_step(const TrainerState& state) {
  data_seconds_ += state.data_seconds;
  line_->update(progress_of(state));
}

void Progress::print(const std::string& line) {
  line_->finish();
  (options_.stream != nullptr ? *options_.stream : std::cerr) << line << '\n' << std::flush;
}

void Progress::on_evaluation(const TrainerState& state, const Logs& results) {
  // That of an epoch's end stands in the epoch's line.
  if (state.last_epoch == 0 && state.last_step > 0) print(text_of("step ", state.step, ":", logs_text(results)));
}

void Progress::on_epoch(const TrainerState& state) {
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
  line_.reset();
}

}  // namespace sectionflow
