#include "train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

bool is_a_terminal(const std::ostream& stream) {
  if (&stream == &std::cerr) return isatty(STDERR_FILENO) == 1;
  if (&stream == &std::cout) return isatty(STDOUT_FILENO) == 1;
  return false;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string formatted(const char* format, double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

/// Four decimals where they show at least two digits that count, else an exponent.
std::string loss_text(double loss) {
  if (std::isnan(loss)) return "nan";  // whose sign says nothing
  const double size = std::abs(loss);
  const bool is_ordinary = loss == 0 || !std::isfinite(loss) || (size >= 0.001 && size < 1e5);
  return formatted(is_ordinary ? "%.4f" : "%.3e", loss);
}

/// "0:42", "12:03", "1:00:00"
std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  std::array<char, 64> buffer{};
  if (whole < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld", whole / 60, whole % 60);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return buffer.data();
}

std::string fraction_text(const char* name, std::int64_t part, std::int64_t whole) {
  return whole > 0 ? text_of(name, " ", part, "/", whole) : text_of(name, " ", part);
}

double steps_of_run(const ProgressState& state) {
  return static_cast<double>(std::max<std::int64_t>(state.epoch, 1) - 1) * static_cast<double>(state.num_steps) +
         static_cast<double>(state.step);
}

bool is_end_of_run(const ProgressState& state) {
  return state.num_steps > 0 && state.step >= state.num_steps && state.epoch >= state.num_epochs;
}

}  // namespace

ProgressLine::ProgressLine(ProgressOptions options)
    : stream_(options.stream != nullptr ? *options.stream : std::cerr),
      is_terminal_(options.is_terminal.value_or(is_a_terminal(stream_))),
      min_interval_seconds_(options.min_interval_seconds.value_or(is_terminal_ ? 0.1 : 3.0)),
      counted_(options.counted.empty() ? "images" : std::move(options.counted)),
      now_seconds_(options.now_seconds ? std::move(options.now_seconds) : steady_seconds) {}

ProgressLine::~ProgressLine() {
  try {
    finish();
  } catch (...) {  // A stream or clock that throws must not end the program from a destructor.
  }
}

void ProgressLine::update(const ProgressState& state) {
  const double now = now_seconds_();
  const bool is_first = !first_.has_value();
  if (is_first) {
    first_ = state;
    first_time_ = now;
  }
  last_ = state;
  last_time_ = now;
  last_is_printed_ = false;
  if (is_first || is_end_of_run(state) || now - printed_time_ >= min_interval_seconds_) print(now);
}

void ProgressLine::finish() {
  if (!first_.has_value()) return;
  if (!last_is_printed_) print(last_time_);
  if (is_terminal_) stream_ << '\n' << std::flush;
  first_.reset();
}

void ProgressLine::print(double now) {
  const std::string line = line_of(last_, now);
  if (is_terminal_) {
    // Back to the first column, the text, and what a longer line left behind it erased (ECMA-48 EL).
    stream_ << '\r' << line << "\x1b[K" << std::flush;
  } else {
    stream_ << line << '\n' << std::flush;
  }
  printed_time_ = now;
  last_is_printed_ = true;
}

std::string ProgressLine::line_of(const ProgressState& state, double now) const {
  std::string line;
  const auto add = [&line](const std::string& part) {
    if (!line.empty()) line += "  ";
    line += part;
  };
  if (state.epoch > 0) add(fraction_text("epoch", state.epoch, state.num_epochs));
  add(fraction_text("step", state.step, state.num_steps));
  if (state.loss.has_value()) add("loss " + loss_text(*state.loss));
  for (const auto& [name, value] : state.metrics) add(name + " " + loss_text(value));

  const double seconds = now - first_time_ - (state.planning_seconds - first_->planning_seconds);
  const auto images = static_cast<double>(state.images_done - first_->images_done);
  if (seconds > 0 && images > 0)
    add(formatted(images / seconds < 10 ? "%.1f " : "%.0f ", images / seconds) + counted_ + "/s");

  const double steps =
      steps_of_run(state) - steps_of_run(*first_) - static_cast<double>(state.planning_steps - first_->planning_steps);
  const bool has_end = state.num_epochs > 0 || state.epoch == 0;
  if (seconds > 0 && steps > 0 && state.num_steps > 0 && has_end) {
    const double all_steps =
        static_cast<double>(std::max<std::int64_t>(state.num_epochs, 1)) * static_cast<double>(state.num_steps);
    add("ETA " + duration_text(std::max(0.0, all_steps - steps_of_run(state)) * seconds / steps));
  }
  if (state.peak_bytes > 0) add("peak " + bytes_text(state.peak_bytes));
  if (state.swapped_bytes > 0) add("swapped " + bytes_text(state.swapped_bytes));
  return line;
}

}  // namespace sectionflow
