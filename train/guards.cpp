#include "train/guards.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "train/saved_numbers.h"
#include "train/training_run.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMostOutliers = 1000;
/// Below this share of the mean a deviation is noise of rounding.
constexpr double kLeastDeviation = 1e-3;

ValueChecks with_those_of(const FiniteCheckOptions& options, ValueChecks checks) {
  checks.nan |= options.nan;
  checks.infinity |= options.infinity;
  return checks;
}

}  // namespace

void FiniteCheck::on_begin(const TrainerState& state) {
  is_looking_ = false;
  before_ = state.session.value_checks();
}

void FiniteCheck::on_step_begin(const TrainerState& state, Feeds&) {
  is_looking_ = looks_behind(state.step);
  // Beside what others look for.
  if (is_looking_) state.session.set_value_checks(with_those_of(options_, state.session.value_checks()));
}

void FiniteCheck::on_step(const TrainerState& state) {
  // Evaluations between two steps that are looked at are looked at as well.
  if (!is_looking_ || looks_behind(state.step)) return;
  is_looking_ = false;
  ValueChecks checks = before_;
  if (state.run != nullptr) {
    for (const Callback* callback : state.run->callbacks()) {
      const auto* const other = dynamic_cast<const FiniteCheck*>(callback);
      // Whether its on_step has been called or not.
      const bool goes_on = other != nullptr && other->is_looking_ && other->looks_behind(state.step);
      if (goes_on) checks = with_those_of(other->options_, checks);
    }
  }
  state.session.set_value_checks(checks);
}

bool FiniteCheck::looks_behind(std::int64_t step) const {
  return step >= options_.first_step && (options_.last_step == 0 || step <= options_.last_step);
}

void FiniteCheck::on_end(const TrainerState& state) {
  state.session.set_value_checks(before_);
}

OutlierGuard::OutlierGuard(OutlierGuardOptions options, Where where)
    : options_(std::move(options)), windows_(options_.monitors.size()) {
  call_at(where, [&] {
    SF_CHECK(!options_.monitors.empty(), ArgumentError,
             "OutlierGuard: there is nothing to watch; wanted the names of "
             "numbers, such as 'loss'");
    SF_CHECK(options_.window >= 2 && options_.window >= options_.least && options_.least >= 2, ArgumentError,
             "OutlierGuard: window is ", options_.window, " and least ", options_.least,
             "; wanted a window of 2 steps or more, and 2 to as many as the least");
    SF_CHECK(options_.z_score > 0, ArgumentError, "OutlierGuard: z_score is ", options_.z_score,
             "; wanted a positive number");
  });
}

void OutlierGuard::on_begin(const TrainerState& state) {
  const auto known = state.run != nullptr ? state.run->known_names(LogsOf::steps) : std::nullopt;
  for (const std::string& monitor : options_.monitors) {
    if (known) (void)monitored(*known, monitor, "OutlierGuard");
  }
  outliers_.clear();
  if (std::exchange(is_restored_, false) || place_ == TrainingPlace::of(state)) return;
  for (auto& window : windows_) window.clear();
}

double OutlierGuard::z_score(const std::deque<double>& window, double value) const {
  if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
  if (window.size() < options_.least) return 0;
  const auto count = static_cast<double>(window.size());
  double mean = 0, squares = 0;
  for (double earlier : window) mean += earlier / count;
  // Two passes: a mean of squares less a squared mean cancels badly.
  for (double earlier : window) squares += (earlier - mean) * (earlier - mean);
  const double deviation = std::max(std::sqrt(squares / count), kLeastDeviation * std::abs(mean));
  return deviation > 0 ? (value - mean) / deviation : value > mean ? std::numeric_limits<double>::infinity() : 0;
}

void OutlierGuard::on_step(const TrainerState& state) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const std::string& monitor = options_.monitors[i];
    const double value = monitored(state.logs, monitor, "OutlierGuard");
    const double z = z_score(windows_[i], value);
    const std::size_t num_before = windows_[i].size();
    // What is not finite would make every later mean so.
    if (std::isfinite(value)) windows_[i].push_back(value);
    while (windows_[i].size() > options_.window) windows_[i].pop_front();
    if (z <= options_.z_score) continue;
    if (outliers_.size() < kMostOutliers) outliers_.push_back({state.step, monitor, value, z});
    const std::string text = text_of("'", monitor, "' is ", value, " in step ", state.step, ", ", z,
                                     " standard deviations above the mean of the ", num_before, " steps before it");
    SF_CHECK_CODE(options_.action != OutlierAction::fail, ArgumentError, ErrorCode::training_outlier,
                  "OutlierGuard: ", text,
                  hint("look at the batch of this step, lower the learning rate, or clip the gradients"));
    if (options_.action == OutlierAction::stop) {
      state.stop(text);
    } else {
      LOG(WARNING) << text;
    }
  }
}

void OutlierGuard::on_end(const TrainerState& state) {
  place_ = TrainingPlace::of(state);
}

std::string OutlierGuard::save() const {
  std::vector<double> numbers;
  for (const auto& window : windows_) {
    numbers.push_back(static_cast<double>(window.size()));
    numbers.insert(numbers.end(), window.begin(), window.end());
  }
  return saved_numbers(numbers);
}

void OutlierGuard::restore(const std::string& saved) {
  const std::vector<double> numbers = read_numbers(saved, kAnyCount, "OutlierGuard");
  std::vector<std::deque<double>> windows;
  for (std::size_t at = 0; at < numbers.size();) {
    const auto count = static_cast<std::size_t>(count_from(numbers[at++]));
    if (count > numbers.size() - at) break;
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(at);
    windows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    at += count;
  }
  SF_CHECK_CODE(windows.size() == windows_.size(), DataError, ErrorCode::training_position,
                "OutlierGuard: what it is to go on from has ", windows.size(), " windows; wanted ", windows_.size(),
                hint("give it the monitors that it had"));
  windows_ = std::move(windows);
  for (auto& window : windows_) {
    // That of a guard whose window was longer.
    while (window.size() > options_.window) window.pop_front();
  }
  is_restored_ = true;
}

}  // namespace sectionflow
