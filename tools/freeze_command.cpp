#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/named_paths.h"
#include "bench/program.h"
#include "bench/zoo_arguments.h"
#include "data/safetensors.h"
#include "examples/models/command_line.h"
#include "sectionflow.h"
#include "tools/command.h"
#include "tools/inspection.h"
#include "tools/labelled_source.h"
#include "tools/resumed_training.h"
#include "tools/train_arguments.h"
#include "tools/trained_model.h"
#include "tools/training_data.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

struct FreezeArguments {
  std::string checkpoint, model;
  ZooArguments zoo;
  bool tells_model = false;  ///< --model is there
  /// Dropouts of what is frozen hand on what they get.
  std::string transforms = "strip_unused_nodes remove_nodes(op=dropout) fold_constants fold_batch_norms fuse";
  TrainingDataArguments data{.data = {}, .option = "--quantize"};
  std::string method = "min_max", device_memory, json;
  std::int64_t batches = 10;
  int threads = 0;
};

/// A model file has constants and no variables. Asked of what cannot be frozen, since all of the file is read.
void check_is_not_frozen(const fs::path& path) {
  if (kind_of(path) != FileKind::safetensors) return;
  SF_CHECK(!read_safetensors(path).metadata.contains(std::string(kInferenceGraphKey)), DataError, "CHECKPOINT: '",
           path.string(), "' is frozen already; wanted a checkpoint, or a file of variables");
}

/// The checkpoint that is meant: the last one of a folder of them.
fs::path checkpoint_of(const std::string& path) {
  SF_CHECK(fs::exists(path), DataError, "CHECKPOINT: there is no '", path, "'");
  if (kind_of(path) != FileKind::checkpoint_folder) return path;
  const std::vector<CheckpointInfo> all = Checkpoints(path).list();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const auto& info) { return info.problem.empty(); });
  SF_CHECK(last != all.rend(), DataError, "CHECKPOINT: '", path, "' has none that can be read");
  return last->path;
}

/// The options that a checkpoint was trained with; empty where it does not tell.
std::map<std::string, std::string> options_of(const fs::path& checkpoint) {
  if (kind_of(checkpoint) != FileKind::checkpoint) return {};
  const fs::path plain = plain_path(checkpoint);
  for (const CheckpointInfo& info : Checkpoints(plain.parent_path()).list()) {
    if (plain_path(info.path) == plain) return noted_options(info.data_position);
  }
  return {};
}

/// The model that the command, or else the checkpoint, says.
ZooArguments zoo_of(const FreezeArguments& arguments, const fs::path& checkpoint) {
  const auto options = options_of(checkpoint);
  const bool is_told = arguments.tells_model || !options.empty();
  if (!is_told) check_is_not_frozen(checkpoint);
  SF_CHECK(is_told, ArgumentError, "CHECKPOINT: '", arguments.checkpoint, "' does not tell of which model it is",
           hint("give --model, with its sizes as it was trained"));
  ZooArguments zoo = options.empty() ? arguments.zoo : zoo_of(options, arguments.zoo);
  SF_CHECK(!arguments.tells_model || zoo.model == arguments.zoo.model, ArgumentError, "--model is ",
           arguments.zoo.model, ", and CHECKPOINT '", arguments.checkpoint, "' is of ", zoo.model,
           hint("leave --model out: the checkpoint tells it"));
  if (arguments.tells_model) zoo = arguments.zoo;
  // Slots of another optimiser would be variables of the session too.
  zoo.optimizer = "sgd";
  return zoo;
}

/// Takes the variables of the model. Throws: as load_variables, with the model that was asked for.
void load_trained(Session& session, const fs::path& checkpoint, const ZooArguments& zoo) {
  try {
    load_variables(session, checkpoint.string(), {.weights_only = true});
  } catch (DataError& error) {
    check_is_not_frozen(checkpoint);
    error.add_fact("model", text_of(zoo.model, ", as --model and its sizes or the checkpoint tell"));
    throw;
  }
}

/// Batches of what a model is trained on, by the names of its placeholders.
Dataset samples_of(const FreezeArguments& arguments, const ModelInputs& inputs, const ZooModel& model) {
  const auto data = std::make_shared<TrainingData>(training_data(arguments.data, inputs, model));
  return Dataset::generate("calibration", [data](std::int64_t number) {
    if (number == 0) data->train->restore("");
    return data->train->next();
  });
}

/// The frozen graph as it is asked for.
InferenceGraph made(const FreezeArguments& arguments) {
  const fs::path checkpoint = checkpoint_of(arguments.checkpoint);
  const ZooArguments zoo = zoo_of(arguments, checkpoint);
  const ZooModel model = model_of(zoo, Cut{});
  const Batch one = model.batch({.batch = 1, .seed = arguments.data.seed});
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel built = model.build(graph, manager);
  SF_CHECK(built.logits.valid(), ArgumentError, "freeze: the model has no logits to tell classes by");
  const TrainedModel trained = with_metrics(built, one, manager);
  const SessionOptions options{
      .device_memory = arguments.device_memory.empty() ? 0 : parse_bytes(arguments.device_memory),
      .threads = arguments.threads};
  InferenceGraph frozen;
  {
    Session session(graph, options);
    session.initialize();
    load_trained(session, checkpoint, zoo);
    Feeds fixed;
    for (const Feed& feed : trained.evaluation_feeds) {
      if (feed.value.dtype() == Dtype::boolean) fixed.push_back(feed);
    }
    frozen = freeze(session, {built.logits}, {.feeds = std::move(fixed)});
  }
  frozen = transform_graph(frozen, arguments.transforms);
  if (arguments.data.data.empty()) return frozen;
  frozen.ranges = calibrate(frozen, samples_of(arguments, trained.inputs, model),
                            {.method = calibration_method(arguments.method),
                             .max_batches = arguments.batches,
                             .tensors = {{trained.inputs.image.name(), "image"}},
                             .session = options});
  if (!is_standard_output(arguments.json)) std::cout << quantize_report(frozen).text();
  return transform_graph(frozen, "quantize_nodes");
}

int run_freeze(const FreezeArguments& arguments) {
  check_json(arguments.json);
  (void)calibration_method(arguments.method);
  if (!arguments.data.data.empty())
    (void)data_argument(arguments.data.data, training_data_kinds(), arguments.data.option);
  for (const TransformCall& call : parse_transforms(arguments.transforms)) {
    SF_CHECK(call.name != "pack_weights", ArgumentError,
             "--transforms: pack_weights brings weights into the order of "
             "this machine's kernels, which files do not hold",
             hint("leave it out: the program that answers packs what load_inference_graph gives"));
  }
  const fs::path folder = fs::path(arguments.model).parent_path();
  SF_CHECK(folder.empty() || fs::is_directory(folder), DataError, "MODEL: there is no folder '", folder.string(), "'",
           hint("make it first"));
  SF_CHECK(!fs::is_directory(arguments.model), DataError, "MODEL: '", arguments.model, "' is a folder; wanted a file");
  check_apart({{"CHECKPOINT", arguments.checkpoint, Extent::everything}},
              {{"MODEL", arguments.model}, {"--json", arguments.json}});
  const InferenceGraph frozen = made(arguments);
  save_inference_graph(frozen, arguments.model);
  const auto bytes = static_cast<std::uint64_t>(fs::file_size(arguments.model));
  if (!is_standard_output(arguments.json)) {
    std::cout << arguments.model << ": " << frozen.graph->num_nodes() << " operations, " << bytes_text(bytes) << "\n";
  }
  const Json json = {{"model", arguments.model},
                     {"operations", frozen.graph->num_nodes()},
                     {"bytes", bytes},
                     {"outputs", Json::array({frozen.outputs[0].name()})}};
  write_json(arguments.json, json.dump(2, ' ', false, Json::error_handler_t::replace));
  return 0;
}

}  // namespace

void add_freeze_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand("freeze", "Makes a model file that only answers of a checkpoint.");
  const auto arguments = std::make_shared<FreezeArguments>();
  app->add_option("checkpoint", arguments->checkpoint,
                  "a checkpoint, a folder of checkpoints, whose last is meant, or a file of variables")
      ->check(not_empty())
      ->required();
  app->add_option("file", arguments->model, "the file to write, for predict")->check(not_empty())->required();
  add_zoo_arguments(*app, arguments->zoo);
  app->add_option("--transforms", arguments->transforms, "what is done to the frozen graph")->capture_default_str();
  CLI::Option* const quantize =
      app->add_option("--quantize", arguments->data.data,
                      "have it compute with 8 bits, by ranges on these data (KIND:PATH, as --data of train)")
          ->check(not_empty());
  app->add_option("--calibration", arguments->method, "how ranges are found: min_max, percentile, entropy")
      ->capture_default_str()
      ->needs(quantize);
  app->add_option("--batches", arguments->batches, "how many batches ranges are found on")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str()
      ->needs(quantize);
  app->add_option("--batch", arguments->data.batch, "examples in a batch")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str()
      ->needs(quantize);
  app->add_option("--device-memory", arguments->device_memory, "hard budget, as in 64MiB; all of the machine if absent")
      ->check(size_argument());
  app->add_option("--threads", arguments->threads, "compute threads; 0: every core")
      ->check(number_argument(0, 1024))
      ->capture_default_str();
  add_json_argument(*app, arguments->json);
  app->callback([app, arguments, &run] {
    arguments->tells_model = app->count("--model") > 0;
    run = [arguments] { return run_freeze(*arguments); };
  });
}

}  // namespace sectionflow
