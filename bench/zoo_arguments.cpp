#include "bench/zoo_arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "examples/models/command_line.h"
#include "train/memory_share.h"

namespace sectionflow {
namespace {

Optimizer optimizer_of(const ZooArguments& arguments) {
  const float rate = learning_rate_of(arguments);
  if (arguments.optimizer == "adam") return Adam{.learning_rate = rate};
  if (arguments.optimizer == "momentum") return Momentum{.learning_rate = rate};
  if (arguments.optimizer == "sgd") return Sgd{.learning_rate = rate};
  const std::vector<std::string> known = {"sgd", "momentum", "adam"};
  const auto near = nearest_spelling(arguments.optimizer, known);
  throw ArgumentError(error_text_of("--optimizer: '", arguments.optimizer, "' is no optimizer",
                                    near ? "; did you mean '" + *near + "'?" : "",
                                    hint("wanted sgd, momentum or adam")));
}

std::string rate_problem(const std::string& text) {
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, rate);
  // Rates are f32 where they are used.
  const auto used = static_cast<float>(rate);
  const bool is_rate = failed == std::errc() && stop == end && used > 0 && std::isfinite(used);
  return is_rate ? "" : "'" + text + "' is no rate; wanted a number above 0, as in 0.001 or 1e-3";
}

/// "of gpt alone", "of all but mnist_resnet, gpt".
std::string models_with(const ZooSize& size) {
  std::vector<std::string> with, without;
  for (const std::string& name : zoo_names()) (has_size(name, size.number) ? with : without).push_back(name);
  const bool is_rare = with.size() < without.size();
  std::string names;
  for (const std::string& name : is_rare ? with : without) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "of all" : is_rare ? "of " + names + " alone" : "of all but " + names;
}

}  // namespace

bool has_size(const std::string& model, std::int64_t ZooOptions::*number) {
  ZooOptions options;
  options.*number = 64;
  try {
    (void)zoo_model(model, options);
    return true;
  } catch (const ArgumentError&) {
    return false;
  }
}

std::span<const ZooSize> zoo_sizes() {
  static constexpr ZooSize kSizes[] = {
      {"--image", &ZooOptions::image, "height and width of images, the model's own if absent, as of all sizes below"},
      {"--classes", &ZooOptions::classes, "classes"},
      {"--width", &ZooOptions::width, "channels of the first stage, or features of a token"},
      {"--layers", &ZooOptions::layers, "blocks of a transformer, or recurrent layers"},
      {"--heads", &ZooOptions::heads, "heads of its attention"},
      {"--sequence", &ZooOptions::sequence, "tokens in a text"},
      {"--vocabulary", &ZooOptions::vocabulary, "different tokens"}};
  return kSizes;
}

void add_zoo_arguments(CLI::App& app, ZooArguments& arguments) {
  std::string names;
  for (const std::string& name : zoo_names()) names += (names.empty() ? "" : ", ") + name;
  ZooOptions& options = arguments.options;
  app.add_option("--model", arguments.model, "the model: " + names)->capture_default_str();
  app.add_option("--optimizer", arguments.optimizer, "sgd, momentum or adam")->capture_default_str();
  app.add_option("--learning-rate", arguments.learning_rate,
                 "a number above 0, as in 0.001 or 1e-3; if absent 1e-4 of adam, 0.01 of momentum and sgd")
      ->check(rate_problem);
  for (const ZooSize& size : zoo_sizes()) {
    app.add_option(size.option, options.*size.number, text_of(size.help, "; ", models_with(size)))
        ->check(number_argument<std::int64_t>(1));
  }
  app.add_flag_callback(
      "--bf16", [&options] { options.precision = Dtype::bf16; }, "activations and products in bf16, variables in f32");
  app.add_flag_callback(
      "--no-dropout", [&options] { options.dropout = false; }, "nothing is dropped, in models that have dropout");
}

float learning_rate_of(const ZooArguments& arguments) {
  const double usual = arguments.optimizer == "adam" ? 1e-4 : 1e-2;
  return static_cast<float>(arguments.learning_rate > 0 ? arguments.learning_rate : usual);
}

ZooModel model_of(const ZooArguments& arguments, const Cut& cut) {
  ZooOptions options = arguments.options;
  const std::vector<std::string> names = zoo_names();
  if (std::find(names.begin(), names.end(), arguments.model) == names.end()) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    const auto near = nearest_spelling(arguments.model, names);
    throw ArgumentError(error_text_of("--model: '", arguments.model, "' is no model",
                                      near ? "; did you mean '" + *near + "'?" : "", hint("there are ", all)));
  }
  for (const ZooSize& size : zoo_sizes()) {
    const std::int64_t given = options.*size.number;
    SF_CHECK(given == 0 || has_size(arguments.model, size.number), ArgumentError, size.option, " ", given, ": ",
             arguments.model, " has no such size; it is ", models_with(size), hint("leave it out"));
  }
  options.cut = cut;
  options.optimizer = optimizer_of(arguments);
  return zoo_model(arguments.model, options);
}

std::size_t device_memory_of(const std::string& text, const ZooArguments& arguments, const Batch& batch,
                             const SessionOptions& session,
                             const std::function<std::vector<Value>(const TrainableModel&)>& also) {
  if (text.empty() || !is_share(text)) return text.empty() ? 0 : parse_bytes(text);
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel model = model_of(arguments, {}).build(graph, manager);
  std::vector<Value> fetches = also ? also(model) : std::vector<Value>{};
  fetches.insert(fetches.begin(), model.loss);
  Session whole(graph,
                {.device = session.device, .swap_variables = session.swap_variables, .threads = session.threads});
  return memory_share(text,
                      whole.plan(fetches, types_of(model.feeds(batch)), {.targets = manager.training_operations()}));
}

}  // namespace sectionflow
