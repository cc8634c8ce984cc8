#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/whole_file.h"
#include "bench/zoo_arguments.h"
#include "compare/contender.h"
#include "compare/strategy_names.h"
#include "examples/models/command_line.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "sectionflow.h"
#include "tools/command.h"
#include "tools/training_data.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

struct TrainArguments {
  ZooArguments zoo;
  TrainingDataArguments data{};
  std::string strategy = "sections:blocks";
  std::optional<std::int64_t> epochs, steps;
  DeviceArguments device{};
  std::string device_memory, host_memory, disk, profile;
  int threads = 0;
  std::string checkpoints, tensorboard, statistics, json;
  std::int64_t checkpoint_every = 0, tensorboard_every = 10;
  int keep = 3;
  bool resume = false;
};

/// A model as it is trained here: with what it is fed, and the share of labels that it tells.
struct TrainedModel {
  ModelInputs inputs;
  Feeds training_feeds, evaluation_feeds;  ///< besides the batch
  std::map<std::string, Value> metrics;
};

/// The share of labels whose class has the largest logit.
Value accuracy_of(Value logits, Value labels) {
  const Value scores = logits.dtype() == Dtype::f32 ? logits : cast(logits, Dtype::f32);
  const bool are_rows = logits.shape().rank() != labels.shape().rank() + 1;
  return mean(cast(equal(argmax(scores), are_rows ? reshape(labels, {-1}) : labels), Dtype::f32));
}

/// Which placeholders a batch feeds shows in the feeds of one.
TrainedModel inputs_of(const TrainableModel& model, const Batch& batch) {
  TrainedModel trained;
  for (const Feed& feed : model.feeds(batch)) {
    if (feed.data.bytes() == batch.images.bytes()) {
      trained.inputs.image = feed.value;
    } else if (feed.data.bytes() == batch.labels.bytes()) {
      trained.inputs.label = feed.value;
    } else {
      trained.training_feeds.push_back(feed);
      const bool is_flag = feed.value.dtype() == Dtype::boolean && feed.value.shape().rank() == 0;
      trained.evaluation_feeds.push_back(is_flag ? Feed(feed.value, false) : feed);
    }
  }
  SF_CHECK(trained.inputs.image.valid() && trained.inputs.label.valid() && model.logits.valid(), InternalError,
           "train: a model of the zoo does not say what it is fed");
  trained.inputs.classes = model.logits.shape()[-1];
  return trained;
}

Strategy strategy_of(const TrainArguments& arguments, TrainedModel& trained, const Batch& one) {
  const CutModel cut_model = [&](const std::string& cut) -> ModelBuilder {
    return [build = model_of(arguments.zoo, cut_named(cut)).build, &trained, &one](Graph& graph,
                                                                                   GraphSectionManager& manager) {
      TrainableModel model = build(graph, manager);
      trained = inputs_of(model, one);
      trained.metrics = {{"accuracy", accuracy_of(model.logits, trained.inputs.label)}};
      manager.prepare_training();
      return model;
    };
  };
  std::optional<Profile> profile;
  if (!arguments.profile.empty()) profile = Profile::load(arguments.profile);
  return strategy_named(arguments.strategy, {.model = cut_model, .profile = profile});
}

SessionOptions session_of(const TrainArguments& arguments) {
  const auto bytes = [](const std::string& text) { return text.empty() ? 0 : parse_bytes(text); };
  return {.device = device_of(arguments.device),
          .device_memory = bytes(arguments.device_memory),
          .host_memory = bytes(arguments.host_memory),
          .disk = bytes(arguments.disk),
          .threads = arguments.threads,
          .seed = arguments.data.seed};
}

/// What would only show after training is refused before it.
void check(const TrainArguments& arguments) {
  check_known(arguments.zoo.model, zoo_names(), "--model: '" + arguments.zoo.model + "' is no model");
  (void)error_policy_named(arguments.data.on_error);
  const bool wants_checkpoints = arguments.resume || arguments.checkpoint_every > 0;
  SF_CHECK(!wants_checkpoints || !arguments.checkpoints.empty(), ArgumentError,
           arguments.resume ? "--resume" : "--checkpoint-every", " is of checkpoints, and there is no folder of them",
           hint("add --checkpoints FOLDER"));
  check_json(arguments.json);
  if (!arguments.tensorboard.empty()) check_writable_in(arguments.tensorboard, "events.out", "--tensorboard");
}

Trainer trainer_of(Contender& contender, const TrainedModel& trained) {
  TrainerOptions options{.loss = contender.model().loss,
                         .metrics = trained.metrics,
                         .inputs = {{.tensor = "image", .placeholder = trained.inputs.image},
                                    {.tensor = "label", .placeholder = trained.inputs.label}},
                         .training_feeds = trained.training_feeds,
                         .evaluation_feeds = trained.evaluation_feeds};
  if (!contender.strategy().whole_graph) return {contender.session(), contender.manager(), std::move(options)};
  return {contender.session(), contender.manager().training_operations(), std::move(options)};
}

/// Keeps the learning rate in checkpoints. A training that goes on takes the rate of its own command, as one wants who
/// lowers it on the way, and is told where that is another.
class RateNote final : public Callback {
 public:
  explicit RateNote(float rate) : rate_(rate) {}
  std::string name() const override { return "learning rate"; }
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }
  std::string save() const override {
    std::array<char, 32> digits{};
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), rate_).ptr};
  }
  void restore(const std::string& saved) override {
    float before = 0;
    const char* const end = saved.data() + saved.size();
    const auto [stop, failed] = std::from_chars(saved.data(), end, before);
    SF_CHECK_CODE(failed == std::errc() && stop == end, DataError, ErrorCode::training_position,
                  "--resume: what the checkpoint has kept of its learning rate is no number");
    if (before == rate_) return;
    std::cerr << "--learning-rate: steps from here on are made with " << save() << "; those before were made with "
              << saved << "\n";
  }

 private:
  float rate_;
};

std::optional<RestoredCheckpoint> resume_or_throw(Checkpoints& checkpoints, Trainer& trainer) {
  try {
    return resume(trainer, checkpoints);
  } catch (const DataError& error) {
    if (error.code() != ErrorCode::other_variables) throw;
    throw DataError(
        error_text_of("--resume: ", error.message(),
                      hint("give --model, its sizes and --optimizer as the checkpoint was trained with "
                           "('sectionflow inspect ",
                           checkpoints.folder(), "' tells), or another folder of --checkpoints, to begin anew")),
        ErrorCode::other_variables);
  }
}

/// Goes on from the last checkpoint, where there is one.
void begin_or_resume(const TrainArguments& arguments, Checkpoints& checkpoints, Trainer& trainer) {
  if (!arguments.resume) {
    SF_CHECK(checkpoints.list().empty(), ArgumentError, "--checkpoints: '", arguments.checkpoints,
             "' has checkpoints of a training already", hint("--resume goes on with it; another folder begins anew"));
    return;
  }
  const auto restored = resume_or_throw(checkpoints, trainer);
  if (!restored) {
    std::cerr << "no checkpoint in '" << arguments.checkpoints << "': training begins\n";
    return;
  }
  const CheckpointInfo& found = restored->checkpoint;
  SF_CHECK(found.seed == arguments.data.seed, ArgumentError, "--resume: the checkpoint was trained with --seed ",
           found.seed, ", got ", arguments.data.seed);
  std::cerr << "goes on from step " << found.step << "\n";
}

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

std::string json_of(const TrainArguments& arguments, const TrainingData& data, const History& history,
                    const Trainer& trainer) {
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

/// Says behind a signal how the next training is kept.
class UnsavedNote final : public Callback {
 public:
  void on_end(const TrainerState& state) override {
    if (state.reason == StopReason::signal) state.note("nothing has saved it; --checkpoints FOLDER does");
  }
};

/// Trains what is left. A position that the data do not have tells what of the command differs.
History fit(const TrainArguments& arguments, Trainer& trainer, const TrainingData& data,
            const std::vector<Callback*>& callbacks) {
  const bool has_limit = arguments.epochs || arguments.steps;
  try {
    return trainer.fit(*data.train, {.max_epochs = has_limit ? arguments.epochs.value_or(0) : 1,
                                     .max_steps = arguments.steps.value_or(0),
                                     .validation = data.validation.get(),
                                     .validate_at_end = true,
                                     .callbacks = callbacks,
                                     .handle_signals = true});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::other_position || !arguments.resume) throw;
    throw ArgumentError(
        error_text_of("--resume: ", error.message(),
                      hint("give --data, --batch and --validation as the checkpoint was trained with, or another "
                           "folder of --checkpoints, to begin anew")),
        ErrorCode::other_position);
  }
}

int run_train(const TrainArguments& arguments) {
  check(arguments);
  const ZooModel zoo = model_of(arguments.zoo, {});
  const Batch one = zoo.batch({.batch = 1});
  TrainedModel trained;
  Contender contender(strategy_of(arguments, trained, one), session_of(arguments), arguments.data.batch);
  Session& session = contender.session();
  TrainingData data = training_data(arguments.data, trained.inputs, zoo);
  Trainer trainer = trainer_of(contender, trained);

  Progress progress({.counted = "examples"});
  RateNote rate(learning_rate_of(arguments.zoo));
  std::vector<Callback*> callbacks = {&progress, &rate};
  std::optional<StatisticsCsv> statistics;
  if (!arguments.statistics.empty()) callbacks.push_back(&statistics.emplace(arguments.statistics, Where::here()));
  std::optional<TensorBoard> tensorboard;
  if (!arguments.tensorboard.empty()) {
    const TensorBoardOptions board{.every_steps = arguments.tensorboard_every};
    callbacks.push_back(&tensorboard.emplace(arguments.tensorboard, board, Where::here()));
  }
  session.initialize();
  std::optional<Checkpoints> checkpoints;
  std::optional<CheckpointCallback> saver;
  if (!arguments.checkpoints.empty()) {
    checkpoints.emplace(arguments.checkpoints, CheckpointOptions{.keep = arguments.keep}, Where::here());
    begin_or_resume(arguments, *checkpoints, trainer);
    const CheckpointCallbackOptions saving{.every_steps = arguments.checkpoint_every, .strategy = arguments.strategy};
    callbacks.push_back(&saver.emplace(*checkpoints, saving, Where::here()));
  }
  UnsavedNote unsaved;
  if (!saver) callbacks.push_back(&unsaved);
  const History history = fit(arguments, trainer, data, callbacks);
  if (!is_standard_output(arguments.json)) {
    std::cout << history.why << "; step " << trainer.step();
    // Means over the epoch, where the training ended with one.
    const bool ends_epoch = !history.epochs.empty() && history.epochs.back().step == trainer.step();
    for (const auto& [name, value] : ends_epoch ? history.epochs.back().logs : history.last_step) {
      if (!name.starts_with("val_")) std::cout << "  " << name << " " << value;
    }
    for (const auto& [name, value] : history.evaluation) std::cout << "  val_" << name << " " << value;
    // Of a training that a signal has ended it is an earlier one.
    const bool is_earlier = !history.evaluation.empty() && history.evaluated_step != trainer.step();
    if (is_earlier) std::cout << " (of step " << history.evaluated_step << ")";
    std::cout << "\n" << skipped_text(data) << std::flush;
  }
  write_json(arguments.json, json_of(arguments, data, history, trainer));
  return history.exit_code();
}

}  // namespace

void add_train_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand(
      "train", "Trains a model on data of files; may be interrupted, and goes on from its checkpoints.");
  const auto arguments = std::make_shared<TrainArguments>();
  TrainingDataArguments& data = arguments->data;
  const CLI::Validator from_one = number_argument<std::int64_t>(1);
  add_zoo_arguments(*app, arguments->zoo);
  app->add_option("--data", data.data,
                  "KIND:PATH; kinds: " + joined(training_data_kinds()) + "; mnist alone: Debian's Fashion-MNIST")
      ->capture_default_str();
  app->add_option("--validation", data.validation,
                  "a share, as in 10%, of what would be trained on is kept apart and evaluated after each epoch, in "
                  "place of a part of the data that is there for it");
  app->add_option("--on-error", data.on_error,
                  "what becomes of a damaged record: " + joined(error_policies()) +
                      "; skip_file leaves out what is behind it in its file too. How many is told at the end")
      ->capture_default_str();
  app->add_option("--batch", data.batch, "examples in a batch")->check(from_one)->capture_default_str();
  app->add_option("--epochs", arguments->epochs, "trained in all, those before --resume included; 1 if absent")
      ->check(from_one);
  app->add_option("--steps", arguments->steps, "trained in all, those before --resume included")->check(from_one);
  app->add_option("--strategy", arguments->strategy, joined(strategy_forms()) + "; N: 1, 2, 4, ... or blocks")
      ->capture_default_str();
  add_device_arguments(*app, arguments->device);
  app->add_option("--device-memory", arguments->device_memory, "hard budget, as in 512MiB; all of it if absent")
      ->check(size_argument());
  app->add_option("--host-memory", arguments->host_memory, "budget of host memory for what is offloaded")
      ->check(size_argument());
  app->add_option("--disk", arguments->disk, "size of the swap file")->check(size_argument());
  app->add_option("--profile", arguments->profile, "a file with this machine's speeds; a nominal machine's if absent");
  app->add_option("--threads", arguments->threads, "compute threads; 0: every core")
      ->check(number_argument(0, 1024))
      ->capture_default_str();
  app->add_option("--seed", data.seed, "of initial values, random operations and the order of examples")
      ->check(number_argument<std::uint64_t>(0))
      ->capture_default_str();
  app->add_option("--checkpoints", arguments->checkpoints, "a folder, which gets a checkpoint after each epoch");
  app->add_option("--checkpoint-every", arguments->checkpoint_every, "a checkpoint every so many steps too")
      ->check(number_argument<std::int64_t>(0));
  app->add_option("--keep", arguments->keep, "so many of the last checkpoints stay")
      ->check(number_argument(1))
      ->capture_default_str();
  app->add_flag("--resume", arguments->resume, "go on from the last checkpoint, where there is one");
  app->add_option("--tensorboard", arguments->tensorboard, "a folder, which gets what TensorBoard shows");
  app->add_option("--tensorboard-every", arguments->tensorboard_every, "steps from one point of a curve to the next")
      ->check(from_one)
      ->capture_default_str();
  app->add_option("--statistics", arguments->statistics, "write what each step took into this CSV file");
  add_json_argument(*app, arguments->json);
  app->callback([arguments, &run] { run = [arguments] { return run_train(*arguments); }; });
}

}  // namespace sectionflow
