#include "tools/resumed_training.h"

#include <array>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "bench/named_paths.h"
#include "graph/graph_file.h"
#include "tools/command.h"
#include "tools/labelled_source.h"
#include "train/checkpoint_callback.h"
#include "train/training_progress.h"

namespace sectionflow {
namespace {

using Options = std::map<std::string, std::string>;

/// Of the options that a checkpoint is bound to those that make no other model.
const std::set<std::string> kNotOfTheModel = {"--data", "--batch", "--validation", "--on-error", "--seed"};

std::string option_text(const std::string& name, const std::string& value) {
  return value.empty() ? name : name + " " + shell_word(value);
}

/// "--batch 4 then, --batch 5 now; --validation 10% then, none now": empty without a difference.
std::string differences(const Options& then, const Options& now, const std::set<std::string>& besides = {}) {
  std::set<std::string> names;
  for (const Options* options : {&then, &now}) {
    for (const auto& [name, value] : *options) names.insert(name);
  }
  std::string text;
  for (const std::string& name : names) {
    const auto before = then.find(name), after = now.find(name);
    const bool is_alike = before != then.end() && after != now.end() && before->second == after->second;
    if (is_alike || besides.contains(name)) continue;
    const auto shown = [&](auto option, const Options& options) {
      return option == options.end() ? "no " + name : option_text(name, option->second);
    };
    text += text_of(text.empty() ? "" : "; ", shown(before, then), " then, ", shown(after, now), " now");
  }
  return text;
}

/// Empty where it cannot be told.
std::string graph_of(const ZooArguments& zoo) {
  try {
    Graph graph;
    GraphSectionManager manager(graph);
    (void)model_of(zoo, {}).build(graph, manager);
    return graph_text(graph);
  } catch (const ArgumentError&) {
    return {};
  }
}

/// "give --heads 2, leave --bf16 out"
std::string advice_of(const Options& then, const Options& now) {
  std::string advice;
  const auto add = [&](const std::string& what) { advice += (advice.empty() ? "" : ", ") + what; };
  for (const auto& [name, value] : then) {
    const auto given = now.find(name);
    const bool is_alike = given != now.end() && given->second == value;
    if (!is_alike && !kNotOfTheModel.contains(name)) add("give " + option_text(name, value));
  }
  for (const auto& [name, value] : now) {
    if (!then.contains(name) && !kNotOfTheModel.contains(name)) add("leave " + name + " out");
  }
  return advice;
}

/// Variables of the same names and shapes need not be those of the same model: heads, precision and the size of images
/// do not show in them. An option that says what is so without it makes no other model.
void check_same_model(const Options& then, const TrainArguments& arguments) {
  const Options now = binding_options(arguments);
  const std::string differ = differences(then, now, kNotOfTheModel);
  if (then.empty() || differ.empty()) return;
  const std::string before = graph_of(zoo_of(then, arguments.zoo));
  SF_CHECK(!before.empty() && before == graph_of(arguments.zoo), ArgumentError,
           "--resume: the checkpoint is of another model, as it was trained: ", differ,
           hint(advice_of(then, now), ", or another folder of --checkpoints, to begin anew"));
}

/// A line where the data are another option than before. What is trained on is known again by itself; what is
/// evaluated, and where they lie, may be another.
std::string other_data(const Options& then, const std::string& now) {
  const auto before = then.find("--data");
  if (before == then.end()) return {};
  const auto place = [](const std::string& text) {
    const DataArgument data = data_argument(text, training_data_kinds(), "--data");
    return std::pair(data.kind, data.path.empty() ? data.path : plain_path(data.path));
  };
  if (place(before->second) == place(now)) return {};
  return text_of("--data: ", now, " from here on; it was ", before->second, " before\n");
}

/// The options of the newest checkpoint that tells them.
Options options_of(const Checkpoints& checkpoints) {
  const std::vector<CheckpointInfo> infos = checkpoints.list();
  for (auto info = infos.rbegin(); info != infos.rend(); ++info) {
    Options options = noted_options(info->data_position);
    if (!options.empty()) return options;
  }
  return {};
}

/// What a callback has kept in a training's position; empty where it has not, or where that is no position.
std::string noted_by(const std::string& callback, const std::string& position) {
  try {
    const TrainingProgress progress = TrainingProgress::read(position);
    const auto kept = progress.callbacks.find(callback);
    return kept == progress.callbacks.end() ? "" : kept->second;
  } catch (const DataError&) {
    return {};  // of a loop of somebody's own
  }
}

std::optional<RestoredCheckpoint> resume_or_throw(const TrainArguments& arguments, Checkpoints& checkpoints,
                                                  Trainer& trainer) {
  try {
    return resume(trainer, checkpoints);
  } catch (const DataError& error) {
    if (error.code() != ErrorCode::other_variables) throw;
    // What of the command makes no other variables.
    const std::string differ = differences(options_of(checkpoints), binding_options(arguments), kNotOfTheModel);
    throw DataError(
        error_text_of("--resume: ", error.message(),
                      hint(differ.empty() ? "give --model, its sizes and --optimizer as the checkpoint was trained with"
                                          : "as the checkpoint was trained: " + differ + ": give what it had",
                           ", or another folder of --checkpoints, to begin anew")),
        ErrorCode::other_variables);
  }
}

}  // namespace

std::string CommandNote::save() const {
  return nlohmann::json(options_).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void CommandNote::tell() {
  if (resumed_) std::cerr << "goes on from step " << *resumed_ << "\n" << besides_;
  resumed_.reset();
}

void CommandNote::on_step(const TrainerState& /*state*/) {
  tell();
}
void CommandNote::on_evaluation(const TrainerState& state, const Logs& /*results*/) {
  const bool is_left = (state.last_step == 0 || state.step < state.last_step) &&
                       (state.last_epoch == 0 || state.epoch <= state.last_epoch);
  if (is_left) tell();
}

std::string RateNote::save() const {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), rate_).ptr};
}

void RateNote::restore(const std::string& saved) {
  float before = 0;
  const char* const end = saved.data() + saved.size();
  const auto [stop, failed] = std::from_chars(saved.data(), end, before);
  SF_CHECK_CODE(failed == std::errc() && stop == end, DataError, ErrorCode::training_position,
                "--resume: what the checkpoint has kept of its learning rate is no number");
  if (before == rate_) return;
  std::cerr << "--learning-rate: steps from here on are made with " << save() << "; those before were made with "
            << saved << "\n";
}

Options noted_options(const std::string& position) {
  const nlohmann::json json = nlohmann::json::parse(noted_by("command line 0", position), nullptr, false);
  Options options;
  if (!json.is_object()) return options;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) options[name] = value.get<std::string>();
  }
  return options;
}

std::string noted_rate(const std::string& position) {
  return noted_by("learning rate 0", position);
}

std::string command_text(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options) text += (text.empty() ? "" : " ") + option_text(name, value);
  return text;
}

Options begin_or_resume(const TrainArguments& arguments, Checkpoints& checkpoints, Trainer& trainer,
                        CommandNote& note) {
  if (!arguments.resume) {
    SF_CHECK(checkpoints.list().empty(), ArgumentError, "--checkpoints: '", arguments.checkpoints,
             "' has checkpoints of a training already", hint("--resume goes on with it; another folder begins anew"));
    return {};
  }
  const auto restored = resume_or_throw(arguments, checkpoints, trainer);
  if (!restored) {
    std::cerr << "no checkpoint in '" << arguments.checkpoints << "': training begins\n";
    return {};
  }
  const CheckpointInfo& found = restored->checkpoint;
  SF_CHECK(found.seed == arguments.data.seed, ArgumentError, "--resume: the checkpoint was trained with --seed ",
           found.seed, ", got ", arguments.data.seed,
           hint("give --seed ", found.seed, ", or another folder of --checkpoints, to begin anew"));
  const Options then = noted_options(found.data_position);
  check_same_model(then, arguments);
  note.set_resumed(found.step, other_data(then, arguments.data.data));
  return then;
}

bool is_other_data(const Error& error) {
  return error.code() == ErrorCode::other_position || error.code() == ErrorCode::damaged_position ||
         error.code() == ErrorCode::training_position;
}

void throw_with_differences(const Error& error, const Options& then, const TrainArguments& arguments) {
  const std::string differ = then.empty() ? "" : differences(then, binding_options(arguments));
  const std::string usual = "give --data, --batch, --validation and --on-error as the checkpoint was trained with";
  throw ArgumentError(
      error_text_of("--resume: ", error.message(),
                    hint(differ.empty() && !then.empty()
                             ? "the command is that of the checkpoint: give --data the files that it was trained on"
                         : differ.empty() ? usual
                                          : "as the checkpoint was trained: " + differ + ": give what it had",
                         ", or another folder of --checkpoints, to begin anew")),
      error.code());
}

}  // namespace sectionflow
