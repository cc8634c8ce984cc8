#include "bench/zoo_arguments.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

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
  const std::vector<std::string> known = {"sgd", "momentum", "adam"};
  const auto near = nearest_spelling(arguments.optimizer, known);
  throw ArgumentError(error_text_of("--optimizer: '", arguments.optimizer, "' is no optimizer",
                                    near ? "; did you mean '" + *near + "'?" : "",
                                    hint("wanted sgd, momentum or adam")));
}

/// The number that is all of the text; nothing where there is none.
template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::string rate_problem(const std::string& text) {
  const auto rate = number_of<double>(text);
  // Rates are f32 where they are used.
  const bool is_rate = rate && static_cast<float>(*rate) > 0 && std::isfinite(static_cast<float>(*rate));
  return is_rate ? "" : "'" + text + "' is no rate; wanted a number above 0, as in 0.001 or 1e-3";
}

std::string count_problem(const std::string& text) {
  const auto count = number_of<std::int64_t>(text);
  return count && *count >= 1 ? "" : "'" + text + "'; wanted a whole number above 0, or left out for the model's own";
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
  for (const auto& [name, number, help] : counts) app.add_option(name, *number, help)->check(count_problem);
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
