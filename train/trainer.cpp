#include "train/trainer.h"

#include <glog/logging.h>

#include <string_view>
#include <utility>

#include "base/nearest.h"
#include "train/fit_options.h"
#include "train/trainer_core.h"
#include "train/training_run.h"

namespace sectionflow {

double monitored(const Logs& logs, const std::string& name, const std::string& who) {
  const auto found = logs.find(name);
  if (found != logs.end()) return found->second;
  std::vector<std::string> known;
  std::string names;
  for (const auto& [known_name, value] : logs) {
    known.push_back(known_name);
    names += text_of(names.empty() ? "'" : ", '", known_name, "'");
  }
  const bool wants_validation = name.starts_with("val_") && logs.contains(name.substr(4));
  const auto nearest = wants_validation ? std::nullopt : nearest_spelling(name, known);
  throw ArgumentError(
      error_text_of(who, ": there is no '", name, "'; there are ", names.empty() ? "no numbers" : names,
                    hint(nearest ? text_of("is '", *nearest, "' the one that is meant?")
                                 : std::string("name the loss or a metric of the trainer; of those that begin with "
                                               "val_ FitOptions::validation is the source"))),
      ErrorCode::unknown_monitor);
}

std::optional<Logs> TrainerCore::known_names(const FitOptions& options, LogsOf of) const {
  Logs known;
  for (const std::string& name : training_.names()) known[name] = 0;
  if (validates(options) && of == LogsOf::epochs) {
    for (const std::string& name : evaluation_.names()) known["val_" + name] = 0;
  }
  for (const Callback* callback : options.callbacks) {
    const auto names = callback->logged_names();
    if (!names) return std::nullopt;
    for (const std::string& name : *names) known[name] = 0;
  }
  return known;
}

void check_monitored(const TrainerState& state, const std::string& name, const std::string& who) {
  const auto known = state.run != nullptr ? state.run->known_names(LogsOf::epochs) : std::nullopt;
  if (known) (void)monitored(*known, name, who);
}

void warn_of_direction(const std::string& name, bool higher_is_better, const std::string& who) {
  const std::string_view wrong = higher_is_better ? "loss" : "accuracy";
  LOG_IF(WARNING, name.find(wrong) != std::string::npos)
      << who << ": the best '" << name << "' is the " << (higher_is_better ? "largest" : "smallest")
      << "; set higher_is_better = " << (higher_is_better ? "false" : "true") << " unless that is meant";
}

bool is_evaluated_later(const TrainerState& state, const std::string& name) {
  return state.validates && name.starts_with("val_") && !state.logs.contains(name) &&
         state.logs.contains(name.substr(4));
}

void TrainerState::stop(const std::string& why) const {
  if (run != nullptr) run->stop(why);
}

void TrainerState::note(const std::string& text) const {
  if (run != nullptr) run->note(text);
}

void TrainerState::log(const std::string& name, double value) const {
  if (run != nullptr) run->log(name, value);
}

void TrainerState::trace_step() const {
  SF_CHECK(run != nullptr, ArgumentError, "trace_step(): this is an evaluation outside of fit",
           hint("call it in on_step_begin"));
  run->trace_step();
}

std::string TrainerState::position() const {
  SF_CHECK(run != nullptr, ArgumentError, "position(): this is an evaluation outside of fit",
           hint("ask Trainer::position()"));
  return run->position();
}

std::vector<double> History::of(const std::string& name) const {
  std::vector<double> numbers;
  for (const EpochRecord& record : epochs) {
    const auto found = record.logs.find(name);
    if (found != record.logs.end()) numbers.push_back(found->second);
  }
  if (numbers.empty()) monitored(epochs.empty() ? Logs{} : epochs.back().logs, name, "History::of");
  return numbers;
}

Trainer::Trainer(Session& session, GraphSectionManager& manager, TrainerOptions options, Where where) {
  core_ = call_at(where, [&] {
    return std::make_unique<TrainerCore>(session, &manager, manager.training_operations(), std::move(options));
  });
}

Trainer::Trainer(Session& session, std::vector<Operation> training_operations, TrainerOptions options, Where where) {
  core_ = call_at(where, [&] {
    return std::make_unique<TrainerCore>(session, nullptr, std::move(training_operations), std::move(options));
  });
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

History Trainer::fit(BatchSource& source, const FitOptions& options, Where where) {
  return call_at(where, [&] { return core_->fit(source, options, where); });
}

Logs Trainer::evaluate(BatchSource& source, const EvaluateOptions& options, Where where) {
  return call_at(where, [&] { return *core_->evaluate(source, options, nullptr, where); });
}

Example Trainer::predict(BatchSource& source, const EvaluateOptions& options, Where where) {
  return call_at(where, [&] { return core_->predict(source, options, where); });
}

Session& Trainer::session() const {
  return core_->session();
}

std::int64_t Trainer::step() const {
  return core_->progress().step;
}

TrainingProgress TrainerCore::progress_to_keep() const {
  TrainingProgress progress = progress_;
  progress.evaluated_step = evaluated_step_to_keep();
  return progress;
}

std::int64_t TrainerCore::evaluated_step_to_keep() const {
  return progress_.evaluated_step != progress_.step || is_evaluated() ? progress_.evaluated_step : 0;
}

std::int64_t Trainer::epoch() const {
  return core_->progress().epoch;
}

std::string Trainer::position() const {
  return core_->progress_to_keep().text();
}

void Trainer::restore(const std::string& position, Where where) {
  call_at(where, [&] { core_->restore(position); });
}

TrainedAndEvaluated train_and_evaluate(Trainer& trainer, const TrainSpec& train, const EvaluateSpec& evaluate,
                                       Where where) {
  return call_at(where, [&] {
    SF_CHECK(train.source != nullptr && evaluate.source != nullptr, ArgumentError,
             "train_and_evaluate: a source is missing; wanted one to train on and one to evaluate on");
    SF_CHECK(train.max_steps > 0 && evaluate.every_steps > 0, ArgumentError, "train_and_evaluate: max_steps is ",
             train.max_steps, " and every_steps ", evaluate.every_steps, "; wanted 1 or more of both");
    TrainedAndEvaluated done;
    // One epoch, however many passes that takes.
    done.history = trainer.fit(*train.source,
                               {.max_steps = train.max_steps,
                                .steps_per_epoch = train.max_steps,
                                .validation = evaluate.source,
                                .validation_steps = evaluate.steps,
                                .validate_every = 0,
                                .validate_every_steps = evaluate.every_steps,
                                .callbacks = train.callbacks,
                                .handle_signals = train.handle_signals},
                               where);
    const bool is_evaluated = done.history.evaluated_step == trainer.step() || done.history.signal != 0;
    done.results =
        is_evaluated ? done.history.evaluation : trainer.evaluate(*evaluate.source, {.steps = evaluate.steps}, where);
    return done;
  });
}

}  // namespace sectionflow
