#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "runtime/trace.h"
#include "train/stop_signals.h"
#include "train/trainer_core.h"

namespace sectionflow {

/// One fit: batches, steps, epochs and callbacks in their order. TrainingProgress and the source always tell of the
/// same steps, whatever throws in between.
class TrainingRun {
 public:
  TrainingRun(TrainerCore& core, BatchSource& source, const FitOptions& options, Where where);

  History train();

  TrainerCore& core() { return core_; }
  /// Those that take part.
  const std::vector<Callback*>& callbacks() const { return options_.callbacks; }

  // What callbacks ask of it, by TrainerState.
  void stop(const std::string& why);
  void note(const std::string& text);
  void log(const std::string& name, double value);
  void trace_step();
  std::string position() const;
  /// The names that the logs of its steps or epochs will have, with no numbers yet; nothing where a callback's are not
  /// known.
  std::optional<Logs> known_names(LogsOf of) const;

 private:
  using Clock = std::chrono::steady_clock;

  void begin();
  void forget_pass();
  void train_epoch();
  bool train_step();
  void run_step(const Feeds& feeds);
  void warn_of_loss();
  std::optional<Example> next_batch();
  void end_epoch();
  bool validate();
  bool is_to_stop();
  /// Noted so far; 0: none, or nobody notes any.
  int signal() const { return signals_ ? signals_->received() : 0; }
  void train_to_end();
  void go_back();
  void break_off(std::string why = {});
  /// Where no signal has ended it: what stands at its end has not been evaluated, by whatever start.
  bool is_to_evaluate_at_end() const;
  bool pass_is_over();
  void finish();
  void fail() noexcept;
  std::exception_ptr call_on_end();
  TrainerState state();
  template <class Call>
  void each_callback(const Call& call);
  template <class Call>
  void log_and_show(const Call& call);
  /// Until a step of this fit, those of the training that it goes on with.
  const Logs& added() const { return history_.steps > 0 ? extras_ : progress_.added; }
  void end(StopReason reason, std::string why);

  TrainerCore& core_;
  BatchSource& source_;
  const FitOptions& options_;
  Where where_;  // fit is called
  std::optional<StopSignals> signals_;
  TrainingProgress& progress_;
  History history_;
  Logs logs_;    // what callbacks see
  Logs extras_;  // that callbacks have added
  std::int64_t first_step_ = 0;
  std::int64_t num_epochs_ = 0;      // that count
  std::int64_t steps_of_epoch_ = 0;  // of the epoch, those that this fit has trained
  std::int64_t known_per_pass_ = 0;  // batches; 0: not known
  bool counts_pass_ = true;          // whether the epoch began with the source
  std::int64_t batch_size_ = 0;
  double batch_weight_ = 0;  // in means
  double step_seconds_ = 0, data_seconds_ = 0;
  Trace step_trace_;
  bool step_begins_ = false;  // callbacks are told so
  bool wants_trace_ = false;  // of the step that begins or is done
  double epoch_data_seconds_ = 0;
  Clock::time_point begun_ = Clock::now(), epoch_begun_ = begun_;
  std::size_t num_begun_ = 0, num_ended_ = 0;  // callbacks
  std::optional<std::string> stop_why_;
  bool is_broken_off_ = false;  // the last evaluation, by a signal or since the search for its plan was stopped
  bool has_warned_of_loss_ = false;
  std::string notes_;
  std::int64_t state_epoch_ = 0, state_steps_ = 0;  // of the epoch that on_epoch is told of; 0: there is none
};

}  // namespace sectionflow
