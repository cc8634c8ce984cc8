#include "tools/training_results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "train/training_progress.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

Json skipped_json(const DatasetStatistics& skipped) {
  return {{"records", skipped.skipped_records}, {"files", skipped.skipped_files}, {"last", skipped.last_skipped}};
}

/// A line for each part of the data of which something was left out.
std::string skipped_text(const TrainingData& data) {
  std::string text;
  for (const auto& [part, skipped] :
       {std::pair("training", data.train_statistics()), std::pair("validation", data.validation_statistics())}) {
    if (skipped.skipped_records == 0) continue;
    text += text_of(part, ": left out ", skipped.skipped_records,
                    skipped.skipped_records == 1 ? " damaged record" : " damaged records", " over all passes",
                    skipped.skipped_files == 0 ? ""
                                               : text_of(", and what is behind them in ", skipped.skipped_files,
                                                         skipped.skipped_files == 1 ? " file" : " files"),
                    "; the last: ", skipped.last_skipped.substr(0, skipped.last_skipped.find('\n')), "\n");
  }
  return text;
}

/// The sign of what is no number tells nobody anything.
std::string number_text(double number) {
  return std::isnan(number) ? "nan" : text_of(number);
}

/// The step of the newest checkpoint of the folder whose manifest can be read.
std::optional<std::int64_t> newest_step(const Checkpoints& checkpoints) {
  std::optional<std::int64_t> newest;
  try {
    for (const CheckpointInfo& info : checkpoints.list()) {
      if (info.problem.empty()) newest = std::max(newest.value_or(info.step), info.step);
    }
  } catch (const DataError&) {
    // A folder that is not there any more has none.
  }
  return newest;
}

}  // namespace

void LossNote::on_step(const TrainerState& state) {
  const auto loss = state.logs.find("loss");
  if (!first_ && loss != state.logs.end() && !std::isfinite(loss->second)) first_ = state.step;
}

std::vector<std::string> problems_of(const History& history, const Trainer& trainer, const Checkpoints* checkpoints,
                                     const LossNote& loss) {
  std::vector<std::string> problems;
  const bool has_failed = checkpoints != nullptr && checkpoints->statistics().failures_in_a_row > 0;
  const auto newest = has_failed ? newest_step(*checkpoints) : std::nullopt;
  // Where that of the end is there, what is lost is its evaluation, which --resume makes again.
  if (has_failed && newest != trainer.step()) {
    problems.push_back(text_of("--checkpoints: that of step ", trainer.step(), ", the end of the training, is lost: ",
                               checkpoints->statistics().last_failure, "; '", checkpoints->folder(), "' has ",
                               newest ? text_of("that of step ", *newest, ", from which --resume goes on") : "none"));
  }
  const auto last = history.last_step.find("loss");
  if (loss.first_not_finite() && last != history.last_step.end() && !std::isfinite(last->second)) {
    problems.push_back(
        text_of("the loss is ", std::isnan(last->second) ? "nan" : "infinite", " at the end, step ", trainer.step(),
                "; the first that was not finite was that of step ", *loss.first_not_finite(),
                *loss.first_not_finite() > trainer.step() - history.steps + 1
                    ? "; a smaller --learning-rate may help"
                    : ", the first of this start: look at the data, and at the weights that it began with"));
  }
  return problems;
}

void add_kept_evaluation(History& history, const Trainer& trainer, const Checkpoints& checkpoints) {
  if (history.steps > 0 || history.evaluated_step >= 0 || trainer.step() == 0) return;
  const TrainingProgress kept = TrainingProgress::read(trainer.position());
  if (kept.evaluated_step != kept.step) return;
  Logs evaluation = kept.evaluation;
  // Where an epoch ended with it, it is among what the checkpoint tells of that.
  const auto saved = evaluation.empty() ? checkpoints.list() : std::vector<CheckpointInfo>();
  for (const CheckpointInfo& info : saved) {
    if (info.step != trainer.step() || !info.problem.empty()) continue;
    for (const auto& [name, value] : info.metrics) {
      if (name.starts_with("val_")) evaluation[name.substr(4)] = value;
    }
  }
  if (evaluation.empty()) return;
  history.evaluation = std::move(evaluation);
  history.evaluated_step = kept.evaluated_step;
}

std::string results_text(const History& history, const Trainer& trainer, const TrainingData& data) {
  std::string text = text_of(history.why, "; step ", trainer.step());
  // Means over the epoch, where the training ended with one.
  const bool ends_epoch = !history.epochs.empty() && history.epochs.back().step == trainer.step();
  for (const auto& [name, value] : ends_epoch ? history.epochs.back().logs : history.last_step) {
    if (!name.starts_with("val_")) text += "  " + name + " " + number_text(value);
  }
  for (const auto& [name, value] : history.evaluation) text += "  val_" + name + " " + number_text(value);
  // Of a training that a signal has ended it is an earlier one.
  const bool is_earlier = !history.evaluation.empty() && history.evaluated_step != trainer.step();
  if (is_earlier) text += text_of(" (of step ", history.evaluated_step, ")");
  return text + "\n" + skipped_text(data);
}

std::string results_json(const TrainArguments& arguments, const History& history, const Trainer& trainer,
                         const TrainingData& data, const std::vector<std::string>& problems) {
  Json names = Json::array();
  for (const auto& [label, name] : data.classes) names.push_back({{"label", label}, {"name", name}});
  Json epochs = Json::array();
  for (const EpochRecord& epoch : history.epochs) {
    epochs.push_back({{"epoch", epoch.epoch},
                      {"step", epoch.step},
                      {"seconds", epoch.seconds},
                      {"data_seconds", epoch.data_seconds},
                      {"logs", epoch.logs}});
  }
  const Json json = {
      {"model", arguments.zoo.model},
      {"strategy", arguments.strategy},
      {"step", trainer.step()},
      {"steps", history.steps},
      {"examples", history.num_examples},
      {"seconds", history.seconds},
      {"why", history.why},
      {"signal", history.signal},
      {"classes", names},
      {"skipped",
       {{"train", skipped_json(data.train_statistics())}, {"validation", skipped_json(data.validation_statistics())}}},
      {"epochs", epochs},
      {"last_step", history.last_step},
      {"evaluation", history.evaluation},
      {"evaluated_step", history.evaluated_step},
      {"problems", problems}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sectionflow
