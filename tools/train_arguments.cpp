#include "tools/train_arguments.h"

#include <charconv>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "bench/named_paths.h"
#include "compare/strategy_names.h"
#include "examples/models/command_line.h"
#include "tools/command.h"
#include "tools/labelled_source.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

void add_data_arguments(CLI::App& app, TrainingDataArguments& data) {
  app.add_option("--data", data.data,
                 "KIND:PATH; kinds: " + joined(training_data_kinds()) + "; mnist alone: Debian's Fashion-MNIST")
      ->capture_default_str();
  app.add_option("--validation", data.validation,
                 "a share, as in 10%, of what would be trained on is kept apart and evaluated after each epoch, in "
                 "place of a part of the data that is there for it")
      ->check(not_empty());
  app.add_option("--on-error", data.on_error,
                 "what becomes of a damaged record: " + joined(error_policies()) +
                     "; skip_file leaves out what is behind it in its file too. How many is told at the end")
      ->capture_default_str();
  app.add_option("--batch", data.batch, "examples in a batch")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str();
}

void add_memory_arguments(CLI::App& app, TrainArguments& arguments) {
  add_session_arguments(app, arguments.session, "hard budget");
  app.add_option("--profile", arguments.profile, "a file with this machine's speeds; a nominal machine's if absent")
      ->check(not_empty());
  app.add_option("--plan", arguments.plan,
                 "a file of what --strategy auto has planned: read, so that nothing is searched for, and written where "
                 "there is none yet")
      ->check(not_empty());
  app.add_flag("--replan", arguments.replan,
               "have --strategy auto plan again where steps come to take over 10 % longer than expected");
}

void add_output_arguments(CLI::App& app, TrainArguments& arguments) {
  CLI::Option* const checkpoints =
      app.add_option("--checkpoints", arguments.checkpoints,
                     "a folder, which gets a checkpoint after each epoch; none of --data, nor in one of pictures")
          ->check(not_empty());
  app.add_option("--checkpoint-every", arguments.checkpoint_every, "a checkpoint every so many steps too")
      ->check(number_argument<std::int64_t>(0));
  app.add_option("--keep", arguments.keep, "so many of the last checkpoints stay")
      ->check(number_argument(1))
      ->capture_default_str()
      ->needs(checkpoints);
  app.add_flag("--resume", arguments.resume, "go on from the last checkpoint, where there is one");
  CLI::Option* const tensorboard =
      app.add_option("--tensorboard", arguments.tensorboard, "a folder, which gets what TensorBoard shows")
          ->check(not_empty());
  app.add_option("--tensorboard-every", arguments.tensorboard_every, "steps from one point of a curve to the next")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str()
      ->needs(tensorboard);
  app.add_option("--statistics", arguments.statistics, "write what each step took into this CSV file")
      ->check(not_empty());
  add_json_argument(app, arguments.json);
}

}  // namespace

void add_train_arguments(CLI::App& app, TrainArguments& arguments) {
  add_zoo_arguments(app, arguments.zoo);
  add_data_arguments(app, arguments.data);
  const CLI::Validator from_one = number_argument<std::int64_t>(1);
  app.add_option("--epochs", arguments.epochs,
                 "passes over the data in all, those before --resume included; 1 if neither these nor --steps")
      ->check(from_one);
  app.add_option("--steps", arguments.steps, "steps in all, counted as these")->check(from_one);
  app.add_option("--strategy", arguments.strategy, joined(strategy_forms()) + "; N: 1, 2, 4, ... or blocks")
      ->capture_default_str();
  add_memory_arguments(app, arguments);
  app.add_option("--seed", arguments.data.seed, "of initial values, random operations and the order of examples")
      ->check(number_argument<std::uint64_t>(0))
      ->capture_default_str();
  add_output_arguments(app, arguments);
}

bool has_plan_file(const TrainArguments& arguments) {
  std::error_code failed;
  return !arguments.plan.empty() && fs::exists(arguments.plan, failed);
}

void check(const TrainArguments& arguments) {
  check_known(arguments.zoo.model, zoo_names(), "--model: '" + arguments.zoo.model + "' is no model");
  (void)error_policy_named(arguments.data.on_error);
  const bool wants_checkpoints = arguments.resume || arguments.checkpoint_every > 0;
  SF_CHECK(!wants_checkpoints || !arguments.checkpoints.empty(), ArgumentError,
           arguments.resume ? "--resume" : "--checkpoint-every", " is of checkpoints, and there is no folder of them",
           hint("add --checkpoints FOLDER"));
  const DataArgument data = data_argument(arguments.data.data, training_data_kinds(), "--data");
  // A training that goes on is told how its checkpoint was trained.
  SF_CHECK(data.kind != "synthetic" || arguments.resume || arguments.data.on_error == "fail", ArgumentError,
           "--on-error ", arguments.data.on_error, ": synthetic data are never damaged", hint("leave it out"));
  std::vector<NamedPath> read = places_of_data("--data", data);
  read.push_back({"--profile", arguments.profile});
  std::vector<NamedPath> written = {{"--checkpoints", arguments.checkpoints, Extent::checkpoints},
                                    {"--tensorboard", arguments.tensorboard, Extent::own_names},
                                    {"--statistics", arguments.statistics},
                                    {"--json", arguments.json}};
  (has_plan_file(arguments) ? read : written).push_back({"--plan", arguments.plan});
  check_apart(read, written);
  check_json(arguments.json);
  if (!arguments.statistics.empty()) check_output(arguments.statistics, "--statistics");
  if (arguments.session.effort > 0) check_plans_by_search("--effort", {arguments.strategy});
  if (arguments.replan) check_plans_by_search("--replan", {arguments.strategy});
  if (!arguments.plan.empty()) {
    check_plans_by_search("--plan", {arguments.strategy});
    if (!has_plan_file(arguments)) check_output(arguments.plan, "--plan");
  }
  if (!arguments.tensorboard.empty()) check_output(fs::path(arguments.tensorboard) / "events.out", "--tensorboard");
}

std::map<std::string, std::string> binding_options(const TrainArguments& arguments) {
  const ZooArguments& zoo = arguments.zoo;
  const TrainingDataArguments& data = arguments.data;
  std::map<std::string, std::string> options = {{"--model", zoo.model},        {"--optimizer", zoo.optimizer},
                                                {"--data", data.data},         {"--batch", std::to_string(data.batch)},
                                                {"--on-error", data.on_error}, {"--seed", std::to_string(data.seed)}};
  if (!data.validation.empty()) options["--validation"] = data.validation;
  for (const ZooSize& size : zoo_sizes()) {
    const std::int64_t given = zoo.options.*size.number;
    if (given > 0) options[size.option] = std::to_string(given);
  }
  if (zoo.options.precision == Dtype::bf16) options["--bf16"] = "";
  if (!zoo.options.dropout) options["--no-dropout"] = "";
  return options;
}

ZooArguments zoo_of(const std::map<std::string, std::string>& options, const ZooArguments& now) {
  ZooArguments zoo{.learning_rate = now.learning_rate};
  for (const auto& [name, value] : options) {
    if (name == "--model") zoo.model = value;
    if (name == "--optimizer") zoo.optimizer = value;
    if (name == "--bf16") zoo.options.precision = Dtype::bf16;
    if (name == "--no-dropout") zoo.options.dropout = false;
    for (const ZooSize& size : zoo_sizes()) {
      if (name == size.option) std::from_chars(value.data(), value.data() + value.size(), zoo.options.*size.number);
    }
  }
  return zoo;
}

}  // namespace sectionflow
