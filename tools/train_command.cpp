#include <glog/logging.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compare/contender.h"
#include "compare/strategy_names.h"
#include "fit/plan_content.h"
#include "sectionflow.h"
#include "tools/command.h"
#include "tools/labelled_source.h"
#include "tools/resumed_training.h"
#include "tools/stopped_planning.h"
#include "tools/train_arguments.h"
#include "tools/trained_model.h"
#include "tools/training_data.h"
#include "tools/training_results.h"
#include "train/memory_share.h"

namespace sectionflow {
namespace {

/// The plan of a file, and what it is good for.
FitPlan plan_of(const std::string& path) {
  FitPlan plan = load_plan(path);
  if (plan.empty()) return plan;
  std::cerr << "--plan: '" << path << "' goes before any other plan, for the programs that it has\n";
  const auto& programs = plan.content()->programs;
  const auto trains = [](const ProgramPlan& program) { return program.facts.updates > 0; };
  const auto has_metrics = [&](const ProgramPlan& program) {
    return trains(program) && program.facts.fetches.size() > 1;
  };
  if (std::ranges::any_of(programs, trains) && std::ranges::none_of(programs, has_metrics)) {
    std::cerr << "--plan: '" << path << "' has a training step of the loss alone; where a model has logits train tells "
              << "the accuracy too, which sectionflow plan --metrics plans\n";
  }
  return plan;
}

Strategy strategy_of(const TrainArguments& arguments, const FitPlan& plan, TrainedModel& trained, const Batch& one) {
  const CutModel cut_model = [&](const std::string& cut) -> ModelBuilder {
    return [build = model_of(arguments.zoo, cut_named(cut)).build, &trained, &one](Graph& graph,
                                                                                   GraphSectionManager& manager) {
      TrainableModel model = build(graph, manager);
      trained = with_metrics(model, one, manager);
      return model;
    };
  };
  std::optional<Profile> profile;
  if (!arguments.profile.empty()) profile = Profile::load(arguments.profile);
  const Replan replan = arguments.replan ? Replan::on_drift : Replan::never;
  return strategy_named(arguments.strategy, {.model = cut_model,
                                             .profile = profile,
                                             .stop = stops_planning(),
                                             .plan = plan,
                                             .replan = replan,
                                             .effort = arguments.session.effort});
}

SessionOptions session_of(const TrainArguments& arguments, const ZooModel& zoo) {
  SessionOptions session = session_options(arguments.session);
  session.seed = arguments.data.seed;
  const Batch batch = is_share(arguments.session.device_memory) ? zoo.batch({.batch = arguments.data.batch}) : Batch{};
  session.device_memory = device_memory_of(arguments.session.device_memory, arguments.zoo, batch, session,
                                           [&](const TrainableModel& model) { return metrics_of(model, batch); });
  return session;
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

/// Says behind a signal how the next training is kept.
class UnsavedNote final : public Callback {
 public:
  void on_end(const TrainerState& state) override {
    if (state.reason == StopReason::signal) state.note("nothing has saved it; --checkpoints FOLDER does");
  }
};

/// The folders that a file lies in, made where they are not there. What of them is empty in the end, since nothing was
/// trained, goes again. Owns: them as long as they are empty.
class FoldersOfFile {
 public:
  FoldersOfFile(const std::filesystem::path& file, const std::string& option) {
    std::error_code failed;
    for (auto folder = file.parent_path(); !folder.empty() && !std::filesystem::exists(folder, failed);
         folder = folder.parent_path()) {
      made_.push_back(folder);
    }
    try {
      make_folder_of(file, option);
    } catch (...) {
      // A constructor that throws leaves no destructor to do it.
      remove();
      throw;
    }
  }
  FoldersOfFile(const FoldersOfFile&) = delete;
  FoldersOfFile& operator=(const FoldersOfFile&) = delete;
  ~FoldersOfFile() { remove(); }

 private:
  void remove() const {
    std::error_code ignored;
    for (const std::filesystem::path& folder : made_) std::filesystem::remove(folder, ignored);
  }

  std::vector<std::filesystem::path> made_;  // the innermost first
};

/// What a damaged record is left out by.
[[noreturn]] void throw_with_policy(const DataError& error) {
  const std::string advice = error.fact("hint");
  DataError told(error_text_of(error.message(), hint(advice, advice.empty() ? "" : "; ",
                                                     "--on-error skip_record leaves out what is damaged")),
                 error.code());
  told.add_fact("during", error.fact("during"));
  throw told;
}

bool is_damage(const Error& error) {
  return error.code() == ErrorCode::damaged_record || error.code() == ErrorCode::damaged_image ||
         error.code() == ErrorCode::example_mismatch;
}

/// Trains what is left. `then`: the options of the checkpoint that the training goes on from.
History fit(const TrainArguments& arguments, Trainer& trainer, const TrainingData& data,
            const std::map<std::string, std::string>& then, const std::vector<Callback*>& callbacks) {
  const bool has_limit = arguments.epochs || arguments.steps;
  try {
    return trainer.fit(*data.train, {.max_epochs = has_limit ? arguments.epochs.value_or(0) : 1,
                                     .max_steps = arguments.steps.value_or(0),
                                     .validation = data.validation.get(),
                                     .validate_at_end = true,
                                     .callbacks = callbacks,
                                     .handle_signals = true});
  } catch (const DataError& error) {
    if (arguments.resume && is_other_data(error)) throw_with_differences(error, then, arguments);
    if (is_damage(error) && error_policy_named(arguments.data.on_error) == ErrorPolicy::fail) throw_with_policy(error);
    throw;
  } catch (const ArgumentError& error) {
    if (arguments.resume && is_other_data(error)) throw_with_differences(error, then, arguments);
    throw;
  }
}

/// Saves what was planned: behind the first step, so that it outlives whatever ends the training, and at its end, when
/// evaluations are planned too. What somebody has put there meanwhile stays, unless it is a plan.
class PlanSaver final : public Callback {
 public:
  explicit PlanSaver(std::string path) : path_(std::move(path)), folders_(path_, "--plan") {}
  void on_step(const TrainerState& state) override {
    if (!std::exchange(is_saved_, true)) write(state);
  }
  void on_end(const TrainerState& state) override {
    if (is_saved_) write(state);
  }

 private:
  /// A plan is worth less than the training.
  void write(const TrainerState& state) const {
    try {
      std::error_code failed;
      if (std::filesystem::exists(path_, failed)) (void)load_plan(path_);
      save_plan(state.session, path_);
    } catch (const DataError& error) {
      LOG(WARNING) << "--plan: the training goes on without the file: " << error.message();
    }
  }

  std::string path_;
  FoldersOfFile folders_;
  bool is_saved_ = false;
};

/// The callbacks that are asked for. A folder is made when there is something to write.
class Outputs {
 public:
  explicit Outputs(const TrainArguments& arguments) {
    if (!arguments.statistics.empty()) {
      folders_.emplace(arguments.statistics, "--statistics");
      statistics_.emplace(arguments.statistics, Where::here());
    }
    if (!arguments.plan.empty() && !has_plan_file(arguments)) plan_.emplace(arguments.plan);
    if (arguments.tensorboard.empty()) return;
    const TensorBoardOptions board{.every_steps = arguments.tensorboard_every};
    tensorboard_.emplace(arguments.tensorboard, board, Where::here());
  }
  void add_to(std::vector<Callback*>& callbacks) {
    if (statistics_) callbacks.push_back(&*statistics_);
    if (plan_) callbacks.push_back(&*plan_);
    if (tensorboard_) callbacks.push_back(&*tensorboard_);
  }

 private:
  std::optional<FoldersOfFile> folders_;
  std::optional<StatisticsCsv> statistics_;
  std::optional<PlanSaver> plan_;
  std::optional<TensorBoard> tensorboard_;
};

/// With what the data decide where nothing is said.
TrainArguments completed(TrainArguments arguments) {
  const bool is_text = data_argument(arguments.data.data, training_data_kinds(), "--data").kind == "text";
  std::int64_t& vocabulary = arguments.zoo.options.vocabulary;
  if (is_text && vocabulary == 0 && has_size(arguments.zoo.model, &ZooOptions::vocabulary)) {
    vocabulary = Vocabulary::of_bytes().size();
  }
  return arguments;
}

/// Of this training in so much device memory: its step, or, where that takes more, its evaluation. Nothing is run.
ProgramReport planned_training(const TrainArguments& arguments, const FitPlan& plan, const ZooModel& zoo,
                               std::size_t device_memory, bool evaluates) {
  const Batch one = zoo.batch({.batch = 1});
  TrainedModel trained;
  SessionOptions options = session_options(arguments.session);
  options.device_memory = device_memory;
  Contender contender(strategy_of(arguments, plan, trained, one), options, arguments.data.batch);
  Session& session = contender.session();
  const TrainableModel& model = contender.model();
  std::vector<Value> fetches = {model.loss};
  for (const auto& [name, value] : trained.metrics) fetches.push_back(value);
  FeedTypes feeds = types_of_size(
      model, [&](std::int64_t size) { return zoo.batch({.batch = size}); }, arguments.data.batch);
  GraphSectionManager& manager = contender.manager();
  ProgramReport step = contender.strategy().whole_graph
                           ? session.plan(fetches, feeds, {.targets = manager.training_operations()})
                           : manager.plan(session, fetches, feeds);
  if (!evaluates) return step;
  for (FeedType& feed : feeds) feed.boolean = feed.boolean ? std::optional(false) : std::nullopt;
  ProgramReport evaluation = session.plan(fetches, feeds);
  return evaluation.planned_peak_bytes > step.planned_peak_bytes ? evaluation : step;
}

/// What a training that is refused has come to know before.
struct KnownTraining {
  std::size_t device_memory = 0;  // its budget
  bool evaluates = false;
};

/// A refusal tells what the program that was refused takes at least, and where one operation alone needs more than
/// there is no more than that. So it is asked again with so much, until all of the training fits.
[[noreturn]] void throw_with_enough(const BudgetError& refusal, const TrainArguments& arguments, const FitPlan& plan,
                                    const ZooModel& zoo, bool evaluates) {
  const StopsPlanning stops;
  std::optional<ProgramReport> refused;
  std::size_t enough = refusal.minimum_bytes;
  for (std::size_t asked = 0; asked < enough;) {
    asked = enough;
    ProgramReport report = planned_training(arguments, plan, zoo, asked, evaluates);
    if (report.fits && refused) refused->minimum_is_enough = true;
    if (report.fits || report.planned_peak_bytes <= asked) break;
    enough = report.planned_peak_bytes;
    refused = std::move(report);
  }
  if (!refused) throw BudgetError(refusal);
  refused->budget_bytes = refusal.budget_bytes;
  try {
    throw_budget_error(*refused);
  } catch (BudgetError& told) {
    // Where the training was when it was refused, as in an evaluation, nobody can tell from a plan.
    for (const char* const name : {"during", "where", "call"}) told.add_fact(name, refusal.fact(name));
    throw;
  }
}

int train(const TrainArguments& arguments, const FitPlan& plan, const ZooModel& zoo, KnownTraining& known) {
  const Batch one = zoo.batch({.batch = 1});
  TrainedModel trained;
  Contender contender(strategy_of(arguments, plan, trained, one), session_of(arguments, zoo), arguments.data.batch);
  TrainingData data = training_data(arguments.data, trained.inputs, zoo);
  known = {.device_memory = contender.session().budgets().device, .evaluates = data.validation != nullptr};
  Trainer trainer = trainer_of(contender, trained);

  CommandNote command(binding_options(arguments));
  Progress progress({.counted = "examples"});
  RateNote rate(learning_rate_of(arguments.zoo));
  LossNote loss;
  std::vector<Callback*> callbacks = {&command, &progress, &rate, &loss};
  Outputs outputs(arguments);
  outputs.add_to(callbacks);
  std::optional<StopsPlanning> stops(std::in_place);
  contender.session().initialize();
  std::map<std::string, std::string> then;
  std::optional<Checkpoints> checkpoints;
  std::optional<CheckpointCallback> saver;
  if (!arguments.checkpoints.empty()) {
    checkpoints.emplace(arguments.checkpoints, CheckpointOptions{.keep = arguments.keep}, Where::here());
    then = begin_or_resume(arguments, *checkpoints, trainer, command);
    const bool fits_budget = contender.strategy().fit.has_value();
    const CheckpointCallbackOptions saving{
        .every_steps = arguments.checkpoint_every,
        // What fit_budget plans by may change on the way: the session keeps it by itself.
        .profile = fits_budget ? std::nullopt : contender.strategy().profile,
        .strategy = arguments.strategy};
    callbacks.push_back(&saver.emplace(*checkpoints, saving, Where::here()));
  }
  UnsavedNote unsaved;
  if (!saver) callbacks.push_back(&unsaved);
  History history = fit(arguments, trainer, data, then, callbacks);
  stops.reset();
  if (checkpoints) add_kept_evaluation(history, trainer, *checkpoints);
  const auto problems = problems_of(history, trainer, checkpoints ? &*checkpoints : nullptr, loss);
  if (!is_standard_output(arguments.json)) std::cout << results_text(history, trainer, data) << std::flush;
  write_json(arguments.json, results_json(arguments, history, trainer, data, problems));
  for (const std::string& problem : problems) std::cerr << problem << "\n";
  return history.signal != 0 ? history.exit_code() : problems.empty() ? 0 : 1;
}

int run_train(const TrainArguments& asked) {
  check(asked);
  const TrainArguments arguments = completed(asked);
  const ZooModel zoo = model_of(arguments.zoo, {});
  const FitPlan plan = has_plan_file(arguments) ? plan_of(arguments.plan) : FitPlan();
  KnownTraining known;
  try {
    try {
      return train(arguments, plan, zoo, known);
    } catch (const BudgetError& refusal) {
      if (refusal.budget_bytes != known.device_memory) throw;
      throw_with_enough(refusal, arguments, plan, zoo, known.evaluates);
    }
  } catch (const StoppedError& error) {
    return status_of_stopped(error);
  } catch (BudgetError& refusal) {
    refusal.add_fact("asked", text_of("--batch ", arguments.data.batch));
    throw;
  }
}

}  // namespace

void add_train_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand(
      "train", "Trains a model on data of files; may be interrupted, and goes on from its checkpoints.");
  const auto arguments = std::make_shared<TrainArguments>();
  add_train_arguments(*app, *arguments);
  app->callback([arguments, &run] { run = [arguments] { return run_train(*arguments); }; });
}

}  // namespace sectionflow
