#include "train/early_stopping.h"

#include <glog/logging.h>

#include <cmath>
#include <utility>

#include "graph/graph.h"
#include "train/saved_numbers.h"

namespace sectionflow {
namespace {

/// Numbers that are kept; positions of earlier versions have the first three.
constexpr std::size_t kNumbers = 6, kEarlierNumbers = 3;

}  // namespace

EarlyStopping::EarlyStopping(EarlyStoppingOptions options, Where where) : options_(std::move(options)) {
  call_at(where, [&] {
    SF_CHECK(options_.patience >= 0 && options_.min_delta >= 0 && options_.start_epoch >= 0, ArgumentError,
             "EarlyStopping: patience is ", options_.patience, ", min_delta ", options_.min_delta, " and start_epoch ",
             options_.start_epoch, "; wanted 0 or more of each");
  });
}

/// Whether the fit that begins is of the training whose counts these are.
bool EarlyStopping::goes_on(const TrainerState& state) {
  if (std::exchange(is_restored_, false)) {
    variables_.clear();
    is_over_ = false;
    return true;
  }
  return !is_over_ && place_ == TrainingPlace::of(state);
}

/// Whether what was decided still stands under these options.
bool EarlyStopping::is_ended(const TrainerState& state) const {
  switch (counts_.decision) {
    case Decision::patience:
      return counts_.bad_epochs > options_.patience && state.epoch - 1 > options_.start_epoch;
    case Decision::target:
      return is_target(counts_.decided_by);
    case Decision::none:
      break;
  }
  return false;
}

/// Whether the best variables are to be set again, and are neither here nor in the session.
bool EarlyStopping::lacks_best(const TrainerState& state) const {
  return options_.restore_best && counts_.best_epoch > 0 && variables_.empty() && counts_.best_step != state.step;
}

void EarlyStopping::on_begin(const TrainerState& state) {
  check_monitored(state, options_.monitor, "EarlyStopping");
  if (!std::exchange(has_warned_, true)) {
    warn_of_direction(options_.monitor, options_.higher_is_better, "EarlyStopping");
  }
  if (!goes_on(state)) {
    counts_ = {};
    variables_.clear();
    is_over_ = false;
    return;
  }
  const bool was_ended = is_ended(state);
  const std::string lost = text_of("the session has the variables of step ", state.step, ", not those of the best, '",
                                   options_.monitor, "' ", counts_.best, " of epoch ", counts_.best_epoch);
  if (was_ended) {
    state.stop(text_of("nothing is trained: an earlier start was ended since ", why_text(), "; ",
                       counts_.decision == Decision::target ? "another target" : "more patience", " goes on",
                       lacks_best(state) ? "; " + lost : ""));
  } else {
    counts_.decision = Decision::none;
  }
  LOG_IF(WARNING, lacks_best(state)) << "EarlyStopping: " << lost << ", of which this start has no copy: "
                                     << (was_ended ? "an earlier start was ended before it had set them again"
                                                   : "restore_best sets again only what is better from here on")
                                     << (counts_.best_step > 0
                                             ? text_of(". Look for a checkpoint 'step-", counts_.best_step, "'")
                                             : "")
                                     << ". CheckpointOptions::best_metric keeps the checkpoint of the best";
  const bool has_best = counts_.best_epoch > 0 && counts_.best_step == state.step;
  if (options_.restore_best && has_best && variables_.empty() && !was_ended) copy_variables(state);
}

void EarlyStopping::copy_variables(const TrainerState& state) {
  for (Value variable : state.session.graph().values(kVariables)) {
    variables_[variable.name()] = state.session.read(variable);
  }
}

bool EarlyStopping::is_target(double value) const {
  return options_.has_target && !std::isnan(value) &&
         (options_.higher_is_better ? value >= options_.target : value <= options_.target);
}

std::string EarlyStopping::why_text() const {
  if (counts_.decision == Decision::target) {
    return text_of("'", options_.monitor, "' is ", counts_.decided_by, ", as good as the target ", options_.target);
  }
  return text_of("'", options_.monitor, "' has not improved for ", counts_.bad_epochs, " epochs",
                 counts_.best_epoch == 0 ? std::string()
                                         : text_of(": its best was ", counts_.best, " in epoch ", counts_.best_epoch));
}

void EarlyStopping::on_epoch(const TrainerState& state) {
  if (is_evaluated_later(state, options_.monitor)) return;
  const double value = monitored(state.logs, options_.monitor, "EarlyStopping");
  const double gain = options_.higher_is_better ? value - counts_.best : counts_.best - value;
  // What reaches the target is better, by however little.
  const double least_gain = is_target(value) ? 0 : options_.min_delta;
  const bool is_better = !std::isnan(value) && (counts_.best_epoch == 0 || gain > least_gain);
  if (is_better) {
    counts_ = {.best = value, .best_epoch = state.epoch, .best_step = state.step};
    if (options_.restore_best) copy_variables(state);
  } else {
    ++counts_.bad_epochs;
  }
  if (is_target(value)) {
    counts_.decision = Decision::target;
  } else if (counts_.bad_epochs > options_.patience && state.epoch > options_.start_epoch) {
    counts_.decision = Decision::patience;
  } else {
    return;
  }
  counts_.decided_by = value;
  state.stop(text_of(why_text(), lacks_best(state) ? ", before this start, which cannot set it again" : ""));
}

void EarlyStopping::on_end(const TrainerState& state) {
  place_ = TrainingPlace::of(state);
  if (state.reason != StopReason::completed && state.reason != StopReason::callback) return;
  is_over_ = counts_.decision != Decision::none;
  LOG_IF(WARNING, lacks_best(state) && state.num_examples > 0)
      << "EarlyStopping: the training ends with the variables of its last step: those of the best, of epoch "
      << counts_.best_epoch << ", were before this start, which has no copy of them";
  if (!variables_.empty() && counts_.best_step != state.step) {
    for (Value variable : state.session.graph().values(kVariables)) {
      const auto kept = variables_.find(variable.name());
      if (kept != variables_.end()) state.session.write(variable, kept->second);
    }
    // Who gives more epochs later goes on from here.
    LOG_IF(WARNING, !is_over_) << "EarlyStopping: the session has the variables of the best again, of epoch "
                               << counts_.best_epoch << ": more epochs would go on from these, not from those of step "
                               << state.step;
    counts_.best_step = state.step;
  }
  variables_.clear();
}

std::string EarlyStopping::save() const {
  return saved_numbers({counts_.best, static_cast<double>(counts_.best_epoch), static_cast<double>(counts_.bad_epochs),
                        static_cast<double>(counts_.decision), counts_.decided_by,
                        static_cast<double>(counts_.best_step)}) +
         watched_text(options_.monitor, options_.higher_is_better);
}

void EarlyStopping::restore(const std::string& saved) {
  std::string text = saved;
  const std::string now = watched_text(options_.monitor, options_.higher_is_better);
  const std::string then = take_watched(text).value_or(now);
  std::vector<double> numbers = read_numbers(text, kAnyCount, "EarlyStopping");
  if (numbers.size() != kEarlierNumbers) numbers = read_numbers(text, kNumbers, "EarlyStopping");
  numbers.resize(kNumbers);
  const std::int64_t decision = count_from(numbers[3]);
  SF_CHECK_CODE(decision <= static_cast<std::int64_t>(Decision::target), DataError, ErrorCode::training_position,
                "EarlyStopping: what it is to go on from is not what it has saved",
                hint("give positions to trainings with the same callbacks"));
  counts_ = {.best = numbers[0],
             .best_epoch = count_from(numbers[1]),
             .bad_epochs = count_from(numbers[2]),
             .decision = static_cast<Decision>(decision),
             .decided_by = numbers[4],
             .best_step = count_from(numbers[5])};
  if (then != now) {
    warn_of_watched("EarlyStopping", then, now);
    counts_ = {};
  }
  is_restored_ = true;
}

}  // namespace sectionflow
