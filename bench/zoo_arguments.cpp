#include "bench/zoo_arguments.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "examples/models/command_line.h"

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

}  // namespace

void add_zoo_arguments(CLI::App& app, ZooArguments& arguments) {
  std::string names;
  for (const std::string& name : zoo_names()) names += (names.empty() ? "" : ", ") + name;
  ZooOptions& options = arguments.options;
  app.add_option("--model", arguments.model, "the model: " + names)->capture_default_str();
  app.add_option("--optimizer", arguments.optimizer, "sgd, momentum or adam")->capture_default_str();
  app.add_option("--learning-rate", arguments.learning_rate,
                 "a number above 0, as in 0.001 or 1e-3; if absent 1e-4 of adam, 0.01 of momentum and sgd")
      ->check(rate_problem);
  const std::tuple<const char*, std::int64_t*, const char*> counts[] = {
      {"--image", &options.image, "height and width of images; the model's own if absent, as of all that follow"},
      {"--classes", &options.classes, "classes"},
      {"--width", &options.width, "channels of the first stage, or features of a token"},
      {"--layers", &options.layers, "blocks of a transformer"},
      {"--heads", &options.heads, "heads of its attention"},
      {"--sequence", &options.sequence, "tokens in a text"},
      {"--vocabulary", &options.vocabulary, "different tokens"}};
  for (const auto& [name, number, help] : counts)
    app.add_option(name, *number, help)->check(number_argument<std::int64_t>(1));
  app.add_flag_callback(
      "--bf16", [&options] { options.precision = Dtype::bf16; }, "activations and products in bf16, variables in f32");
}

float learning_rate_of(const ZooArguments& arguments) {
  const double usual = arguments.optimizer == "adam" ? 1e-4 : 1e-2;
  return static_cast<float>(arguments.learning_rate > 0 ? arguments.learning_rate : usual);
}

ZooModel model_of(const ZooArguments& arguments, const Cut& cut) {
  ZooOptions options = arguments.options;
  options.cut = cut;
  options.optimizer = optimizer_of(arguments);
  return zoo_model(arguments.model, options);
}

}  // namespace sectionflow
