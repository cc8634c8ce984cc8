#include "bench/zoo_arguments.h"

#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace sectionflow {
namespace {

/// Learning rates that train every model of the zoo, where none is given.
Optimizer optimizer_of(const ZooArguments& arguments) {
  const auto rate = [&](double usual) {
    return static_cast<float>(arguments.learning_rate > 0 ? arguments.learning_rate : usual);
  };
  if (arguments.optimizer == "adam") return Adam{.learning_rate = rate(1e-4)};
  if (arguments.optimizer == "momentum") return Momentum{.learning_rate = rate(1e-2)};
  if (arguments.optimizer == "sgd") return Sgd{.learning_rate = rate(1e-2)};
  throw ArgumentError(text_of("'", arguments.optimizer, "' is no optimizer; wanted sgd, momentum or adam"));
}

}  // namespace

void add_zoo_arguments(CLI::App& app, ZooArguments& arguments) {
  std::string names;
  for (const std::string& name : zoo_names()) names += (names.empty() ? "" : ", ") + name;
  ZooOptions& options = arguments.options;
  app.add_option("--model", arguments.model, "the model: " + names)->capture_default_str();
  app.add_option("--optimizer", arguments.optimizer, "sgd, momentum or adam")->capture_default_str();
  app.add_option("--learning-rate", arguments.learning_rate, "the optimizer's usual one if absent")
      ->check([](const std::string& text) {
        const double rate = std::strtod(text.c_str(), nullptr);
        return rate > 0 && std::isfinite(rate) ? std::string() : "'" + text + "' is no rate; wanted a number above 0";
      });
  app.add_option("--image", options.image, "height and width of images; the model's own if absent");
  app.add_option("--classes", options.classes, "classes");
  app.add_option("--width", options.width, "channels of the first stage, or features of a token");
  app.add_option("--layers", options.layers, "blocks of a transformer");
  app.add_option("--heads", options.heads, "heads of its attention");
  app.add_option("--sequence", options.sequence, "tokens in a text");
  app.add_option("--vocabulary", options.vocabulary, "different tokens");
  app.add_flag_callback(
      "--bf16", [&options] { options.precision = Dtype::bf16; }, "activations and products in bf16, variables in f32");
}

ZooModel model_of(const ZooArguments& arguments, const Cut& cut) {
  ZooOptions options = arguments.options;
  options.cut = cut;
  options.optimizer = optimizer_of(arguments);
  return zoo_model(arguments.model, options);
}

}  // namespace sectionflow
