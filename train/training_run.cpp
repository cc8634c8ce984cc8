#include "train/training_run.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/error.h"
#include "runtime/engine.h"
#include "train/fit_options.h"

namespace sectionflow {
namespace {

double seconds_from(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The session traces to one trace for a while.
class SetTrace {
 public:
  SetTrace(Engine& engine, Trace& trace) : engine_(engine), others_(engine.trace()) { engine_.set_trace(&trace); }
  SetTrace(const SetTrace&) = delete;
  SetTrace& operator=(const SetTrace&) = delete;
  ~SetTrace() { engine_.set_trace(others_); }

 private:
  Engine& engine_;
  Trace* const others_;
};

}  // namespace

TrainingRun::TrainingRun(TrainerCore& core, BatchSource& source, const FitOptions& options, Where where)
    : core_(core), source_(source), options_(options), where_(where), progress_(core.progress()) {
  check_fit_options(options, source);
  const std::int64_t per_pass = source.batches_per_pass().value_or(0);
  known_per_pass_ = per_pass > 0 ? per_pass : progress_.batches_per_pass;
}

History TrainingRun::train() {
  if (options_.handle_signals) signals_.emplace();
  begin();
  try {
    each_callback([](Callback& callback, const TrainerState& state) { callback.on_begin(state); });
    try {
      train_to_end();
    } catch (const Error& error) {
      // Of the step whose plan was searched for nothing has run.
      if (error.code() != ErrorCode::planning_stopped || history_.steps == 0) throw;
      go_back();
      break_off();
    }
    finish();
  } catch (...) {
    fail();
    throw;
  }
  return std::move(history_);
}

void TrainingRun::train_to_end() {
  // The last step of before, whose position was taken or which was broken off between it and its evaluation.
  if (progress_.is_to_evaluate && options_.validation != nullptr) validate();
  // Where a limit is reached already, too: the end of an epoch that is over may be all that is left.
  if (progress_.step_in_epoch > 0) train_epoch();
  while (!is_to_stop()) train_epoch();
  if (is_to_evaluate_at_end() && !validate()) break_off(history_.why);
}

void TrainingRun::begin() {
  const bool is_restored = core_.take_restored();
  if (!core_.trains_on(source_) && !is_restored) forget_pass();
  if (is_restored) {
    try {
      source_.restore(progress_.data.text());
      restore_callbacks(options_.callbacks, progress_.callbacks);
      // What a pass has been is surer than what its source says of it.
      if (progress_.batches_per_pass > 0) known_per_pass_ = progress_.batches_per_pass;
    } catch (...) {
      core_.set_restored();
      throw;
    }
  }
  progress_.data.set_later(source_.position_later());
  core_.set_trains_on(source_);
  first_step_ = progress_.step;
}

/// What a pass has been is known of the source that it was of. Another one may be given amid an epoch.
void TrainingRun::forget_pass() {
  progress_.batches_per_pass = 0;
  known_per_pass_ = std::max<std::int64_t>(source_.batches_per_pass().value_or(0), 0);
  counts_pass_ = progress_.step_in_epoch == 0;
}

/// on_begin and the rest: a callback takes part once its on_begin has returned.
template <class Call>
void TrainingRun::each_callback(const Call& call) {
  const bool is_begin = num_begun_ < options_.callbacks.size();
  for (Callback* callback : options_.callbacks) {
    call(*callback, state());
    if (is_begin) ++num_begun_;
  }
}

/// on_step and on_epoch: what shows numbers comes behind those that log them, and when one of these has thrown, too.
template <class Call>
void TrainingRun::log_and_show(const Call& call) {
  std::exception_ptr first_error;
  for (const bool shows : {false, true}) {
    try {
      for (Callback* callback : options_.callbacks) {
        if (callback->shows_logs() == shows) call(*callback, state());
      }
    } catch (...) {
      if (first_error == nullptr) first_error = std::current_exception();
    }
  }
  if (first_error != nullptr) std::rethrow_exception(first_error);
}

void TrainingRun::train_epoch() {
  epoch_begun_ = Clock::now();
  epoch_data_seconds_ = 0;
  steps_of_epoch_ = 0;
  logs_.clear();
  for (;;) {
    if (options_.steps_per_epoch > 0 && progress_.step_in_epoch >= options_.steps_per_epoch) break;
    if (is_to_stop()) {
      if (history_.reason != StopReason::completed || !pass_is_over()) return;
      break;
    }
    if (!train_step()) break;
  }
  end_epoch();
}

/// Whether a pass that a limit ends with its last batch is over: then the epoch ends as well.
bool TrainingRun::pass_is_over() {
  if (options_.steps_per_epoch > 0 || known_per_pass_ == 0 || progress_.step_in_epoch != known_per_pass_) return false;
  if (!source_.next()) return true;
  source_.restore(progress_.data.text());
  return false;
}

std::optional<Example> TrainingRun::next_batch() {
  auto batch = source_.next();
  // Epochs of a number of steps go on into the next pass; and a source may be given at the end of one.
  const bool goes_on = options_.steps_per_epoch > 0 || progress_.step_in_epoch == 0;
  if (batch || !goes_on) return batch;
  batch = source_.next();
  SF_CHECK_CODE(batch.has_value(), ArgumentError, ErrorCode::nothing_to_train_on,
                "fit: the source gives no batch: a "
                "pass of it is empty",
                hint("look at its data, at drop_remainder, and at what it filters or leaves out as damaged "
                     "(DatasetBatches::statistics)"));
  return batch;
}

bool TrainingRun::train_step() {
  const auto data_begun = Clock::now();
  const auto batch = next_batch();
  if (!batch) return false;
  BatchFeeds::Bound bound = core_.training_feeds(*batch);
  data_seconds_ = seconds_from(data_begun);
  batch_size_ = bound.num_examples;
  wants_trace_ = false;
  step_begins_ = true;
  each_callback([&](Callback& callback, const TrainerState& state) { callback.on_step_begin(state, bound.feeds); });
  step_begins_ = false;

  // Behind the callbacks, which may change the graph before the first step.
  if (history_.steps == 0) {
    core_.warn_of_updates();
    if (validates(options_) || evaluates_at_end(options_)) core_.check_evaluation_fits(*options_.validation, where_);
  }
  // The source stands behind the batch already; once the step is done, nothing may keep it from being counted.
  auto position = source_.position_later();
  run_step(bound.feeds);
  const double weight = batch_weight_;
  if (!FetchedNumbers::is_weight(weight)) batch_weight_ = 0;
  // The step is done. From here on counts, sums and the source's position tell of it, and what is still to follow it,
  // whatever throws.
  progress_.data.set_later(std::move(position));
  ++progress_.step;
  ++progress_.step_in_epoch;
  ++steps_of_epoch_;
  progress_.num_examples += batch_size_;
  progress_.weight += batch_weight_;
  for (const std::string& name : core_.training_numbers()) {
    progress_.totals[name] += weighted(logs_[name], batch_weight_);
  }
  const std::int64_t every = options_.validate_every_steps;
  progress_.is_to_evaluate = options_.validation != nullptr && every > 0 && progress_.step % every == 0;
  progress_.evaluation.clear();
  ++history_.steps;
  history_.num_examples += batch_size_;
  history_.data_seconds += data_seconds_;
  epoch_data_seconds_ += data_seconds_;
  core_.check_weight(weight);
  warn_of_loss();
  for (const auto& [name, value] : extras_) logs_[name] = value;
  log_and_show([](Callback& callback, const TrainerState& state) { callback.on_step(state); });
  history_.last_step = logs_;
  if (progress_.is_to_evaluate) validate();
  return true;
}

void TrainingRun::run_step(const Feeds& feeds) {
  std::optional<SetTrace> tracing;
  if (wants_trace_) tracing.emplace(engine(core_.session()), step_trace_);
  const auto begun = Clock::now();
  batch_weight_ = core_.train(source_, feeds, batch_size_, logs_, where_);
  step_seconds_ = seconds_from(begun);
}

/// Once a fit: of weights that are not finite no later loss is.
void TrainingRun::warn_of_loss() {
  const auto loss = logs_.find("loss");
  if (has_warned_of_loss_ || loss == logs_.end() || std::isfinite(loss->second)) return;
  has_warned_of_loss_ = true;
  LOG(WARNING) << "fit: the loss of step " << progress_.step << " is "
               << (std::isnan(loss->second) ? "nan" : text_of(loss->second))
               << "; the training goes on. A FiniteCheck among the callbacks names the first operation whose result is "
                  "not finite";
}

/// False where a signal, or who has stopped the search for its plan, has broken it off behind a step: it is made again
/// where the training goes on.
bool TrainingRun::validate() {
  const TrainerState around = state();
  const EvaluateOptions options{.steps = options_.validation_steps, .callbacks = options_.callbacks};
  try {
    auto evaluation = core_.evaluate(*options_.validation, options, &around, where_, [&] { return signal() != 0; });
    is_broken_off_ = !evaluation;
    if (is_broken_off_) return false;
    history_.evaluation = *std::move(evaluation);
    core_.note_evaluated();
  } catch (Error& error) {
    is_broken_off_ = error.code() == ErrorCode::planning_stopped && history_.steps > 0;
    if (is_broken_off_) return false;
    error.add_fact("during", text_of("the evaluation of FitOptions::validation behind step ", progress_.step));
    throw;
  }
  history_.evaluated_step = progress_.step;
  Logs results;
  for (const auto& [name, value] : history_.evaluation) results["val_" + name] = value;
  each_callback([&](Callback& callback, const TrainerState& state) { callback.on_evaluation(state, results); });
  progress_.evaluated_step = progress_.step;
  progress_.evaluation = history_.evaluation;
  progress_.is_to_evaluate = false;
  return true;
}

bool TrainingRun::is_to_evaluate_at_end() const {
  return evaluates_at_end(options_) && history_.reason != StopReason::signal && progress_.step > 0 &&
         !core_.is_evaluated();
}

void TrainingRun::end_epoch() {
  const std::int64_t epoch = progress_.epoch + 1;
  const bool is_due = options_.validate_every > 0 && epoch % options_.validate_every == 0;
  // An evaluation of an earlier step of the epoch is none of its end, nor is one of variables that are gone.
  const auto is_evaluated = [&] { return !progress_.evaluation.empty() && core_.is_evaluated(); };
  const bool lacks_evaluation = progress_.is_to_evaluate || (is_due && !is_evaluated());
  if (options_.validation != nullptr && lacks_evaluation && !validate()) {
    // The epoch ends where the training goes on; until then the source stands behind its last batch.
    source_.restore(progress_.data.text());
    return;
  }
  Logs logs = progress_.means();
  for (const Logs& numbers : {added(), extras_}) {
    for (const auto& [name, value] : numbers) logs[name] = value;
  }
  if (options_.validation != nullptr && is_evaluated()) {
    for (const auto& [name, value] : progress_.evaluation) logs["val_" + name] = value;
  }
  auto position = source_.position_later();
  history_.epochs.push_back({.epoch = epoch,
                             .step = progress_.step,
                             .seconds = seconds_from(epoch_begun_),
                             .data_seconds = epoch_data_seconds_,
                             .logs = logs});
  const bool is_pass = std::exchange(counts_pass_, true) && options_.steps_per_epoch == 0;
  if (is_pass) known_per_pass_ = progress_.batches_per_pass = progress_.step_in_epoch;
  if (steps_of_epoch_ > 0) ++num_epochs_;
  // The epoch is done.
  state_epoch_ = epoch;
  state_steps_ = progress_.step_in_epoch;
  progress_.epoch = epoch;
  progress_.step_in_epoch = 0;
  progress_.num_examples = 0;
  progress_.weight = 0;
  progress_.totals.clear();
  progress_.data.set_later(std::move(position));
  progress_.evaluation.clear();
  logs_ = std::move(logs);
  log_and_show([](Callback& callback, const TrainerState& state) { callback.on_epoch(state); });
  history_.epochs.back().logs = logs_;
  state_epoch_ = 0;
}

/// What is over is over, though a signal has come as well: on_end then does what is to be done at the end of a
/// training. An evaluation that the signal has broken off is still to come.
bool TrainingRun::is_to_stop() {
  if (history_.reason != StopReason::none && history_.reason != StopReason::completed) return true;
  const int signal = this->signal();
  const auto is_reached = [](std::int64_t count, std::int64_t limit) { return limit > 0 && count >= limit; };
  if (is_broken_off_) {
    break_off();
  } else if (stop_why_) {
    end(StopReason::callback, *stop_why_);
  } else if (is_reached(history_.steps, options_.steps) || is_reached(progress_.step, options_.max_steps)) {
    end(StopReason::completed, text_of("completed ", history_.steps, history_.steps == 1 ? " step" : " steps"));
  } else if (is_reached(num_epochs_, options_.epochs) || is_reached(progress_.epoch, options_.max_epochs)) {
    end(StopReason::completed, text_of("completed ", num_epochs_, num_epochs_ == 1 ? " epoch" : " epochs"));
  } else if (signal != 0) {
    end(StopReason::signal, text_of("got ", name_of_signal(signal)));
  }
  history_.signal = signal;
  return history_.reason != StopReason::none;
}

/// Ends by a signal, or since a search for a plan was stopped. `why`: what had ended it before its last evaluation.
void TrainingRun::break_off(std::string why) {
  history_.signal = signal();
  const std::string what = history_.signal != 0 ? name_of_signal(history_.signal) : "a stop of planning (SF-E103)";
  const char* const at_end = " came in the evaluation at the end, which is made where the training goes on";
  why = why.empty() ? "got " + what : text_of(why, "; ", what, at_end);
  end(history_.signal != 0 ? StopReason::signal : StopReason::callback, std::move(why));
}

void TrainingRun::end(StopReason reason, std::string why) {
  history_.reason = reason;
  history_.why = std::move(why);
}

void TrainingRun::finish() {
  history_.seconds = seconds_from(begun_);
  const std::exception_ptr error = call_on_end();
  progress_.callbacks = callback_states(options_.callbacks);
  progress_.added = added();
  // Told while the source lives: of what it holds nothing is kept beyond the fit.
  (void)progress_.data.text();
  if (history_.reason == StopReason::signal) {
    history_.why += text_of("; ended behind step ", progress_.step,
                            notes_.empty() ? "; no CheckpointCallback has saved it" : notes_);
  }
  if (error != nullptr) std::rethrow_exception(error);
  // A signal that has come after the last step ends the program as well.
  if (signals_ && history_.signal == 0) history_.signal = signals_->received();
}

/// Of every callback that takes part: the training has ended as it has, and what is thrown first, which comes back,
/// keeps no other from saving it.
std::exception_ptr TrainingRun::call_on_end() {
  std::exception_ptr first_error;
  while (num_ended_ < num_begun_) {
    Callback& callback = *options_.callbacks[num_ended_++];
    try {
      callback.on_end(state());
    } catch (...) {
      if (first_error == nullptr) first_error = std::current_exception();
    }
  }
  return first_error;
}

/// A batch that was taken and not trained comes again.
void TrainingRun::go_back() {
  const std::string& position = progress_.data.text();
  if (source_.position() != position) source_.restore(position);
}

/// An error is on its way: whatever else is thrown must neither hide it nor keep what follows from being done.
void TrainingRun::fail() noexcept {
  history_.reason = StopReason::error;
  const auto attempt = [](const char* what, const auto& call) {
    try {
      call();
    } catch (const std::exception& error) {
      LOG(WARNING) << "fit: " << what << ": " << error.what();
    } catch (...) {
      LOG(WARNING) << "fit: " << what;
    }
  };
  attempt("the source cannot go back to the batch that was not trained", [&] { go_back(); });
  attempt("on_end after an error has thrown", [&] {
    if (const auto error = call_on_end(); error != nullptr) std::rethrow_exception(error);
  });
  attempt("what a callback keeps is not known", [&] {
    progress_.added = added();
    progress_.callbacks = callback_states(options_.callbacks);
  });
}

}  // namespace sectionflow
