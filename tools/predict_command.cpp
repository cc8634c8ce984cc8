#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/whole_file.h"
#include "bench/named_paths.h"
#include "bench/program.h"
#include "data/dataset_options.h"
#include "data/maps.h"
#include "examples/models/command_line.h"
#include "graph/op_def.h"
#include "runtime/session.h"
#include "schedule/report.h"
#include "sources/class_names.h"
#include "sources/image.h"
#include "tools/command.h"
#include "tools/inspection.h"
#include "train/top_classes.h"
#include "transform/inference_graph.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

struct PredictArguments {
  std::string model, labels, device_memory, json;
  std::vector<std::string> images;
  int top = 5, threads = 0;
};

/// Names of classes: of a data set's labels.txt, "0:cat", or of a file with a name a line, the first that of class 0.
ClassNames names_in(const std::string& path) {
  if (path.empty()) return {};
  const fs::path file = path;
  if (file.filename() == kClassNamesFile) {
    ClassNames names = read_class_names(file.parent_path().empty() ? "." : file.parent_path());
    SF_CHECK(!names.empty(), DataError, "--labels: '", path, "' has no names of classes");
    return names;
  }
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  const std::string text = read_whole_file(file, kMostBytes, "--labels");
  SF_CHECK(text.find('\0') == std::string::npos, DataError, "--labels: '", path,
           "' is no text; wanted a file with a name a line");
  ClassNames names;
  std::string::size_type begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find('\n', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    if (name.ends_with('\r')) name.pop_back();
    names.emplace(static_cast<std::int64_t>(names.size()), name);
    begin = end + 1;
  }
  return names;
}

/// The one placeholder of the graph: pictures f32 [N, H, W, C], of which N is open or 1.
Value pictures_of(const InferenceGraph& model) {
  Value pictures;
  for (NodeId id = 0; id < model.graph->num_nodes(); ++id) {
    Node& node = model.graph->node(id);
    if (!node.op().is_placeholder()) continue;
    SF_CHECK(!pictures.valid(), ArgumentError, "predict: the model wants to be fed '", pictures.name(), "' and '",
             node.name(), "'; wanted pictures alone", hint("freeze it with the others among FreezeOptions::feeds"));
    pictures = node.output();
  }
  SF_CHECK(pictures.valid(), ArgumentError, "predict: the model is fed nothing; wanted pictures");
  const Shape& shape = pictures.shape();
  const bool is_image = pictures.dtype() == Dtype::f32 && shape.rank() == 4 &&
                        (shape[0] == kDynamic || shape[0] == 1) && shape[1] > 0 && shape[2] > 0 &&
                        (shape[3] == 1 || shape[3] == 3);
  SF_CHECK(is_image, ArgumentError, "predict: the model is fed '", pictures.name(), "' ", pictures.type().text(),
           "; wanted pictures f32[?,H,W,C] of one channel or three");
  return pictures;
}

/// The logits of a picture, one a class.
Value logits_of(const InferenceGraph& model) {
  SF_CHECK(model.outputs.size() == 1, ArgumentError, "predict: the model has ", model.outputs.size(),
           " outputs; wanted one, the logits");
  const Value logits = model.outputs[0];
  SF_CHECK(logits.dtype() == Dtype::f32 && logits.shape().rank() == 2 && logits.shape()[1] > 0, ArgumentError,
           "predict: the model gives '", logits.name(), "' ", logits.type().text(), "; wanted logits f32[?,classes]");
  return logits;
}

/// A file's picture as training has it: of the size that the model wants, levels from 0 to 1. Shape: [1, H, W, C].
HostTensor fed_picture(const std::string& path, const Shape& wanted) {
  Example example;
  example.emplace("image", read_image(path, {.channels = static_cast<int>(wanted[3])}));
  example = maps::resize({.height = wanted[1], .width = wanted[2]}).apply(std::move(example), MapContext(0, 0, 0, 0));
  example = maps::normalize().apply(std::move(example), MapContext(0, 0, 0, 0));
  const HostTensor& picture = example.at("image");
  HostTensor fed(Dtype::f32, {1, wanted[1], wanted[2], wanted[3]});
  std::copy_n(picture.bytes(), fed.num_bytes(), fed.bytes());
  return fed;
}

std::vector<NamedPath> places_read(const PredictArguments& arguments) {
  std::vector<NamedPath> places = {{"MODEL", arguments.model}, {"--labels", arguments.labels}};
  for (const std::string& image : arguments.images) places.push_back({"IMAGE", image});
  return places;
}

/// The likeliest classes of that one picture. Throws: ShapeError, DataError where the model gives none.
std::vector<ClassShare> classes_in(const HostTensor& found, Value logits, const std::string& path, std::int64_t count) {
  SF_CHECK(found.shape()[0] == 1, ShapeError, "predict: the model gives '", logits.name(), "' ", found.type().text(),
           " for the one picture '", path, "'; wanted one row of logits a picture");
  try {
    return std::move(top_classes(found, count).front());
  } catch (const ArgumentError&) {
    throw DataError(error_text_of("predict: the model's '", logits.name(), "' of the picture '", path,
                                  "' are infinite or not a number; wanted numbers that can be compared"));
  }
}

/// A file may leave classes without a name; one with more classes is another data set's.
void check_names(const ClassNames& names, const std::string& path, Value logits) {
  const std::int64_t classes = logits.shape()[1];
  std::int64_t last = -1;
  for (const auto& [label, name] : names) last = name.empty() ? last : label;
  SF_CHECK(last < classes, DataError, "--labels: '", path, "' names class ", last, ", and the model has ", classes,
           " classes, from 0; wanted the names of the data set that it was trained on");
}

int run_predict(const PredictArguments& arguments) {
  check_json(arguments.json);
  check_apart(places_read(arguments), {{"--json", arguments.json}});
  SF_CHECK(!fs::is_directory(arguments.model), DataError, "MODEL: '", arguments.model, "' is a folder; wanted a file",
           hint("sectionflow freeze makes one of a checkpoint"));
  const InferenceGraph model = load_inference_graph(arguments.model);
  const Value pictures = pictures_of(model), logits = logits_of(model);
  const ClassNames names = names_in(arguments.labels);
  check_names(names, arguments.labels, logits);
  Session session(*model.graph,
                  {.device_memory = arguments.device_memory.empty() ? 0 : parse_bytes(arguments.device_memory),
                   .threads = arguments.threads});
  // A size that the file asks for is held against the budget before a picture is brought to it.
  std::vector<std::int64_t> dims = pictures.shape().dims();
  dims[0] = 1;
  const ProgramReport plan = session.plan({logits}, {{pictures, Shape(std::move(dims))}});
  if (!plan.fits) throw_budget_error(plan);
  session.initialize();
  Json results = Json::array();
  for (const std::string& path : arguments.images) {
    const HostTensor picture = fed_picture(path, pictures.shape());
    const auto begin = std::chrono::steady_clock::now();
    const HostTensor found = std::move(session.run(std::vector{logits}, {{pictures, picture}}).front());
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    Json classes = Json::array();
    std::string text = printable(path) + "\n";
    for (const auto& [label, share] : classes_in(found, logits, path, arguments.top)) {
      const auto name = names.find(label);
      classes.push_back({{"label", label}, {"share", share}});
      if (name != names.end()) classes.back()["name"] = name->second;
      char line[64];
      text.append(line, static_cast<std::size_t>(std::snprintf(line, sizeof(line), "  %6.2f %%  %lld", 100 * share,
                                                               static_cast<long long>(label))));
      text += (name != names.end() ? " " + printable(name->second) : std::string()) + "\n";
    }
    if (!is_standard_output(arguments.json)) std::cout << text << std::flush;
    results.push_back({{"image", path}, {"classes", classes}, {"ms", ms}});
  }
  const Json json = {{"model", arguments.model}, {"images", results}};
  write_json(arguments.json, json.dump(2, ' ', false, Json::error_handler_t::replace));
  return 0;
}

}  // namespace

void add_predict_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand("predict", "Tells what a frozen model takes pictures for.");
  const auto arguments = std::make_shared<PredictArguments>();
  app->add_option("model", arguments->model, "a file of save_inference_graph, whose output are logits of classes")
      ->check(not_empty())
      ->required();
  app->add_option("images", arguments->images, "JPEG and PNG files; each is brought to the size that the model wants")
      ->check(not_empty())
      ->required();
  app->add_option("--labels", arguments->labels,
                  "names of the classes: a file with one a line, or a data set's labels.txt (\"0:cat\")")
      ->check(not_empty());
  app->add_option("--top", arguments->top, "how many classes are told of each picture")
      ->check(number_argument(1, 1000000))
      ->capture_default_str();
  app->add_option("--device-memory", arguments->device_memory, "hard budget, as in 64MiB; all of the machine if absent")
      ->check(size_argument());
  app->add_option("--threads", arguments->threads, "compute threads; 0: every core")
      ->check(number_argument(0, 1024))
      ->capture_default_str();
  add_json_argument(*app, arguments->json);
  app->callback([arguments, &run] { run = [arguments] { return run_predict(*arguments); }; });
}

}  // namespace sectionflow
