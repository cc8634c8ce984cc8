#include "tools/training_results.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

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

}  // namespace

std::string results_text(const History& history, const Trainer& trainer, const TrainingData& data) {
  std::string text = text_of(history.why, "; step ", trainer.step());
  // Means over the epoch, where the training ended with one.
  const bool ends_epoch = !history.epochs.empty() && history.epochs.back().step == trainer.step();
  for (const auto& [name, value] : ends_epoch ? history.epochs.back().logs : history.last_step) {
    if (!name.starts_with("val_")) text += text_of("  ", name, " ", value);
  }
  for (const auto& [name, value] : history.evaluation) text += text_of("  val_", name, " ", value);
  // Of a training that a signal has ended it is an earlier one.
  const bool is_earlier = !history.evaluation.empty() && history.evaluated_step != trainer.step();
  if (is_earlier) text += text_of(" (of step ", history.evaluated_step, ")");
  return text + "\n" + skipped_text(data);
}

std::string results_json(const TrainArguments& arguments, const History& history, const Trainer& trainer,
                         const TrainingData& data) {
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
      {"evaluated_step", history.evaluated_step}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sectionflow
