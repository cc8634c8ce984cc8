#include "train/early_stopping.h"

#include <glog/logging.h>

#include <cmath>
#include <utility>

#include "graph/graph.h"
#include "train/saved_numbers.h"

namespace sectionflow {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options, Where where) : options_(std::move(options)) {
  call_at(where, [&] {
    SF_CHECK(options_.patience >= 0 && options_.min_delta >= 0 && options_.start_epoch >= 0, ArgumentError,
             "EarlyStopping: patience is ", options_.patience, ", min_delta ", options_.min_delta, " and start_epoch ",
             options_.start_epoch, "; wanted 0 or more of each");
  });
}

/// A training that begins anew has no best yet; one that goes on from a position has what restore() has read, and was
/// perhaps ended by that.
void EarlyStopping::on_begin(const TrainerState& state) {
  check_monitored(state, options_.monitor, "EarlyStopping");
  variables_.clear();
  if (std::exchange(is_restored_, false)) {
    const auto ended = [&](const std::string& why, const char* instead) {
      state.stop(text_of("nothing is trained: an earlier start was ended since ", why, "; ", instead, " goes on"));
    };
    best_is_earlier_ = false;  // the variables that an earlier start has ended with are those of its best epoch
    if (best_epoch_ > 0 && is_target(best_)) {
      ended(target_text(best_), "another target");
    } else if (bad_epochs_ > options_.patience && state.epoch - 1 > options_.start_epoch) {
      ended(patience_text(), "more patience");
    } else {
      best_is_earlier_ = best_epoch_ > 0;
      LOG_IF(WARNING, options_.restore_best && best_is_earlier_)
          << "EarlyStopping: the best so far, '" << options_.monitor << "' " << best_ << " of epoch " << best_epoch_
          << ", was before this start, which has no copy of its variables: restore_best sets again only what is better "
             "from here on. CheckpointOptions::best_metric keeps the checkpoint of the best";
    }
    return;
  }
  best_is_earlier_ = false;
  best_ = 0;
  best_epoch_ = bad_epochs_ = 0;
}

bool EarlyStopping::is_target(double value) const {
  return options_.has_target && !std::isnan(value) &&
         (options_.maximize ? value >= options_.target : value <= options_.target);
}

std::string EarlyStopping::target_text(double value) const {
  return text_of("'", options_.monitor, "' is ", value, ", as good as the target ", options_.target);
}

std::string EarlyStopping::patience_text() const {
  return text_of("'", options_.monitor, "' has not improved for ", bad_epochs_, " epochs",
                 best_epoch_ == 0 ? std::string() : text_of(": its best was ", best_, " in epoch ", best_epoch_),
                 options_.restore_best && best_is_earlier_ ? ", before this start, which cannot set it again" : "");
}

void EarlyStopping::on_epoch(const TrainerState& state) {
  if (is_evaluated_later(state, options_.monitor)) return;
  const double value = monitored(state.logs, options_.monitor, "EarlyStopping");
  const double gain = options_.maximize ? value - best_ : best_ - value;
  const bool is_better = !std::isnan(value) && (best_epoch_ == 0 || gain > options_.min_delta);
  if (is_better) {
    best_ = value;
    best_epoch_ = state.epoch;
    best_is_earlier_ = false;
    bad_epochs_ = 0;
    if (options_.restore_best) {
      for (Value variable : state.session.graph().values(kVariables)) {
        variables_[variable.name()] = state.session.read(variable);
      }
    }
  } else {
    ++bad_epochs_;
  }
  if (is_target(value)) {
    state.stop(target_text(value));
  } else if (bad_epochs_ > options_.patience && state.epoch > options_.start_epoch) {
    state.stop(patience_text());
  }
}

void EarlyStopping::on_end(const TrainerState& state) {
  if (state.reason == StopReason::completed || state.reason == StopReason::callback) {
    for (Value variable : state.session.graph().values(kVariables)) {
      const auto kept = variables_.find(variable.name());
      if (kept != variables_.end()) state.session.write(variable, kept->second);
    }
  }
  variables_.clear();
}

std::string EarlyStopping::save() const {
  return saved_numbers({best_, static_cast<double>(best_epoch_), static_cast<double>(bad_epochs_)});
}

void EarlyStopping::restore(const std::string& saved) {
  const std::vector<double> numbers = read_numbers(saved, 3, "EarlyStopping");
  best_ = numbers[0];
  best_epoch_ = count_from(numbers[1]);
  bad_epochs_ = count_from(numbers[2]);
  is_restored_ = true;
}

}  // namespace sectionflow
