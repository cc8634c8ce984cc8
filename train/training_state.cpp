// What callbacks see of a training, and ask of it.

#include <limits>
#include <utility>

#include "train/fit_options.h"
#include "train/training_run.h"

namespace sectionflow {
namespace {

/// The smaller of two limits, of which 0 is none.
std::int64_t smaller_limit(std::int64_t a, std::int64_t b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

/// The limit on counts over all fits that lets this one do `limit` more from `begin` on; 0 is none.
std::int64_t limit_from(std::int64_t begin, std::int64_t limit) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return limit == 0 ? 0 : limit > kMost - begin ? kMost : begin + limit;
}

}  // namespace

TrainerState TrainingRun::state() {
  return {.session = core_.session(),
          .logs = logs_,
          .epoch = state_epoch_ > 0 ? state_epoch_ : progress_.epoch + 1,
          .last_epoch = smaller_limit(limit_from(progress_.epoch - num_epochs_, options_.epochs), options_.max_epochs),
          .step = progress_.step,
          .last_step = smaller_limit(limit_from(first_step_, options_.steps), options_.max_steps),
          .step_in_epoch = state_epoch_ > 0 ? state_steps_ : progress_.step_in_epoch,
          .steps_per_epoch = options_.steps_per_epoch > 0 ? options_.steps_per_epoch : known_per_pass_,
          .batch_size = batch_size_,
          .num_examples = history_.num_examples,
          .step_seconds = step_seconds_,
          .data_seconds = data_seconds_,
          .in_sections = core_.in_sections(),
          .validates = validates(options_),
          .reason = history_.reason,
          .run = this,
          .manager = core_.manager(),
          .trace = wants_trace_ && !step_trace_.events().empty() ? &step_trace_ : nullptr};
}

void TrainingRun::stop(const std::string& why) {
  if (!stop_why_) stop_why_ = why;
}

void TrainingRun::note(const std::string& text) {
  notes_ += "; " + text;
}

void TrainingRun::log(const std::string& name, double value) {
  extras_[name] = value;
  logs_[name] = value;
}

void TrainingRun::trace_step() {
  SF_CHECK(step_begins_, ArgumentError, "trace_step(): no step begins here", hint("call it in on_step_begin"));
  if (!std::exchange(wants_trace_, true)) step_trace_.clear();
}

std::optional<Logs> TrainingRun::known_names(LogsOf of) const {
  auto known = core_.known_names(options_, of);
  if (known) known->merge(Logs(added()));
  return known;
}

std::string TrainingRun::position() const {
  (void)progress_.data.text();  // once, whoever asks next
  TrainingProgress progress = core_.progress_to_keep();
  progress.callbacks = callback_states(options_.callbacks);
  progress.added = added();
  return progress.text();
}

}  // namespace sectionflow
