// Trains PartialFlow's residual network for MNIST section by section, and shows what sections save, what they cost, and
// that not one bit of the result changes.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <optional>

#include "base/whole_file.h"
#include "compare/compare.h"
#include "examples/models/command_line.h"
#include "examples/models/device_named.h"
#include "examples/models/mnist_resnet.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  std::int64_t batch = 100;
  std::int64_t steps = 0;
  std::int64_t epochs = 2;
  std::string sections = "4";
  std::string device = "cpu", device_memory;
  std::string data = kFashionMnistFolder;
  std::uint64_t seed = 0;
  int threads = 0;
  // The original trains ten times as slowly, in batches of 7500, for many epochs; these show something within minutes.
  float learning_rate = 1e-3F;
  float decay = 0.9F;
  std::string save_initial, save, losses;
  bool bf16 = false;
  bool no_shuffle = false;
  bool no_compare = false;
  bool verbose = false;
};

/// The steps of each strategy in the comparison at the end.
constexpr std::int64_t kCompareSteps = 20;

SessionOptions session_options(const Arguments& arguments) {
  return {.device = device_named(arguments.device),
          .device_memory = arguments.device_memory.empty() ? 0 : parse_bytes(arguments.device_memory),
          .threads = arguments.threads,
          .seed = arguments.seed};
}

MnistResnetOptions model_options(const Arguments& arguments) {
  return {.cut = cut_named(arguments.sections),
          .optimizer = Adam{.learning_rate = arguments.learning_rate},
          .decay = arguments.decay,
          .precision = arguments.bf16 ? Dtype::bf16 : Dtype::f32,
          .verbose = arguments.verbose};
}

TrainTest load_data(const Arguments& arguments) {
  return arguments.data == "synthetic" ? synthetic_mnist({.seed = arguments.seed}) : load_mnist(arguments.data);
}

// ---- What is printed before training.

TensorType with_batch(const TensorType& type, std::int64_t batch) {
  std::vector<std::int64_t> dims = type.shape.dims();
  std::replace(dims.begin(), dims.end(), kDynamic, batch);
  return {type.dtype, Shape(dims)};
}

void print_tensors(const char* what, const std::vector<Value>& values, std::int64_t batch) {
  std::cout << "  " << what << ":" << (values.empty() ? " none" : "") << "\n";
  for (Value value : values) {
    const TensorType type = with_batch(value.type(), batch);
    std::printf("    %-58s %-20s %s\n", value.name().c_str(), type.text().c_str(), bytes_text(type.bytes()).c_str());
  }
  std::fflush(stdout);
}

void print_sections(const GraphSectionManager& manager, std::int64_t batch) {
  for (const auto& section : manager.sections()) {
    const std::vector<Value> variables = section->values(kTrainableVariables);
    std::size_t bytes = 0;
    for (Value variable : variables) bytes += variable.type().bytes();
    std::cout << "section " << section->index() << ": " << section->operations().size() << " operations, "
              << variables.size() << " trained variables (" << bytes_text(bytes) << "), "
              << section->training_operations().size() << " updates\n";
    print_tensors("tensors to feed", section->tensors_to_feed(), batch);
    print_tensors("tensors to cache", section->tensors_to_cache(), batch);
  }
}

FeedTypes training_feeds(const MnistResnet& net, std::int64_t batch) {
  return {{net.images, {batch, 28, 28, 1}}, {net.labels, Shape{batch}}, {net.is_training, true}};
}

/// Returns whether the whole graph would fit the budget.
bool print_plan(GraphSectionManager& manager, Session& session, const MnistResnet& net, std::int64_t batch) {
  const FeedTypes feeds = training_feeds(net, batch);
  const ProgramReport whole = session.plan({net.loss}, feeds, {.targets = manager.training_operations()});
  const ProgramReport sections = manager.plan(session, {net.loss}, feeds);
  const double saved =
      100.0 * (1.0 - static_cast<double>(sections.planned_peak_bytes) / static_cast<double>(whole.planned_peak_bytes));
  std::printf("\nplan for batch %lld\nwhole graph\n%s%zu sections (%.0f %% less memory)\n%s\n",
              static_cast<long long>(batch), whole.text().c_str(), manager.sections().size(), saved,
              sections.text().c_str());
  std::fflush(stdout);
  return whole.fits;
}

// ---- Training.

/// One loss a line; the file is in its place when all are there.
class LossFile {
 public:
  explicit LossFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) check_writable(path_, "--losses");
  }
  void add(float loss) {
    char line[32];
    text_.append(line,
                 static_cast<std::size_t>(std::snprintf(line, sizeof(line), "%.9g\n", static_cast<double>(loss))));
  }
  void finish() {
    if (!path_.empty()) write_whole_file(path_, text_, "--losses");
  }

 private:
  std::string path_, text_;
};

void train(GraphSectionManager& manager, Session& session, const MnistResnet& net, const LabeledImages& data,
           const Arguments& arguments) {
  LossFile losses(arguments.losses);
  BatchLoader loader(data, {.batch = arguments.batch,
                            .seed = arguments.seed,
                            .shuffle = !arguments.no_shuffle,
                            .epochs = arguments.steps > 0 ? kEndless : arguments.epochs});
  const std::int64_t per_epoch = loader.batches_per_epoch();
  const bool by_steps = arguments.steps > 0;
  const std::int64_t epochs = by_steps ? (arguments.steps + per_epoch - 1) / per_epoch : arguments.epochs;
  const std::int64_t total = by_steps ? arguments.steps : per_epoch * epochs;
  ProgressLine progress({.stream = &std::cout});
  std::int64_t images = 0;
  for (std::int64_t step = 0; step < total; ++step) {
    const Batch batch = *loader.next();
    auto [loss] = manager.run_full_cycle(
        session, {net.loss}, {{net.images, batch.images}, {net.labels, batch.labels}, {net.is_training, true}});
    losses.add(loss.item<float>());
    images += batch.images.shape()[0];
    const std::int64_t steps_of_epoch = std::min(per_epoch, total - batch.epoch * per_epoch);
    progress.update({.epoch = batch.epoch + 1,
                     .num_epochs = epochs,
                     .step = batch.index_in_epoch + 1,
                     .num_steps = steps_of_epoch,
                     .loss = loss.item<float>(),
                     .images_done = images,
                     .peak_bytes = session.statistics().peak_bytes_in_use});
  }
  progress.finish();
  losses.finish();
}

double accuracy_on(Session& session, const MnistResnet& net, const Batch& batch) {
  auto [accuracy] =
      session.run({net.accuracy}, {{net.images, batch.images}, {net.labels, batch.labels}, {net.is_training, false}});
  return static_cast<double>(accuracy.item<float>());
}

double test_accuracy(Session& session, const MnistResnet& net, const LabeledImages& data, std::int64_t batch_size) {
  BatchLoader loader(data, {.batch = batch_size, .shuffle = false});
  double correct = 0, count = 0;
  while (const auto batch = loader.next()) {
    const auto size = static_cast<double>(batch->images.shape()[0]);
    correct += size * accuracy_on(session, net, *batch);
    count += size;
  }
  return correct / count;
}

// ---- The comparison at the end.

/// Returns whether all that fits is identical.
bool compare(const LabeledImages& data, const Arguments& arguments) {
  MnistResnetOptions model = model_options(arguments);
  model.verbose = false;
  const auto build = [model](Graph& graph, GraphSectionManager& manager) {
    return trainable_mnist_resnet(graph, manager, model);
  };
  const std::vector<Strategy> strategies = {{.name = "whole graph", .whole_graph = true, .build = build},
                                            {.name = "sections:" + arguments.sections, .build = build}};
  BatchLoader loader(data, {.batch = arguments.batch, .seed = arguments.seed, .epochs = kEndless, .prefetch = 0});
  CompareOptions options{.model = "mnist_resnet", .steps = kCompareSteps, .session = session_options(arguments)};
  options.batch = [&](std::int64_t) { return *loader.next(); };
  std::cout << "\ncomparing " << kCompareSteps << " steps of whole-graph training with sections ...\n" << std::flush;
  const Comparison comparison = compare_strategies(strategies, options);
  std::cout << comparison.text() << std::flush;
  return std::all_of(comparison.strategies.begin(), comparison.strategies.end(),
                     [](const StrategyResult& result) { return result.identical || !result.fits; });
}

int run(const Arguments& arguments) {
  const SessionOptions options = session_options(arguments);
  Graph graph;
  GraphSectionManager manager(graph);
  const MnistResnet net = build_mnist_resnet(graph, manager, model_options(arguments));
  Session session(graph, options);
  if (!arguments.save_initial.empty()) check_writable(arguments.save_initial, "--save-initial");
  if (!arguments.save.empty()) check_writable(arguments.save, "--save");
  const TrainTest data = load_data(arguments);
  const std::int64_t images = data.train.images.shape()[0];
  SF_CHECK(arguments.batch <= images, ArgumentError, "--batch ", arguments.batch, ": '", data.train.name, "' has ",
           images, " images");

  std::cout << data.train.name << ": " << images << " images to train, " << data.test.images.shape()[0]
            << " to test; batch " << arguments.batch << ", Adam with rate " << arguments.learning_rate
            << ", moving averages with decay " << arguments.decay
            << (arguments.bf16 ? ", activations and products in bf16, " : ", ") << session.device_name() << "\n\n";
  print_sections(manager, arguments.batch);
  const bool whole_fits = print_plan(manager, session, net, arguments.batch);

  session.initialize();
  if (!arguments.save_initial.empty()) save_variables(session, arguments.save_initial);
  // A budget that is too small for the test alone is refused before training, not behind it.
  const std::int64_t test_batch = std::min<std::int64_t>(arguments.batch, 500);
  (void)accuracy_on(session, net, *BatchLoader(data.test, {.batch = test_batch, .shuffle = false}).next());
  train(manager, session, net, data.train, arguments);
  if (!arguments.save.empty()) save_variables(session, arguments.save);
  std::cout << "test accuracy: " << test_accuracy(session, net, data.test, test_batch) << "\n";
  if (arguments.no_compare) return 0;
  if (!whole_fits) {
    std::cout << "\nwhole-graph training does not fit the budget: there is nothing to compare sections with\n";
    return 0;
  }
  return compare(data.train, arguments) ? 0 : 1;
}

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--batch", arguments.batch, "images in a batch")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--steps", arguments.steps, "train this many steps instead of whole epochs")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("--epochs", arguments.epochs, "passes over the training images")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--sections", arguments.sections,
                 "cut: 1, 2 (after scale1), 4 (after each scale), blocks (one a block)")
      ->check(CLI::IsMember({"1", "2", "4", "blocks"}))
      ->capture_default_str();
  app.add_option("--device", arguments.device, kDeviceHelp)->capture_default_str();
  app.add_option("--device-memory", arguments.device_memory,
                 "hard budget, as in 512MiB; all of the machine's memory if absent")
      ->check(size_argument());
  app.add_option("--data", arguments.data, "folder with the four MNIST files (IDX, gzipped or not), or 'synthetic'")
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "of initial values and of the order of images")->capture_default_str();
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  app.add_option("--learning-rate", arguments.learning_rate, "of Adam")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--decay", arguments.decay, "of batch norm's moving averages")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--bf16", arguments.bf16, "activations and products in bf16, variables in f32");
  app.add_option("--save-initial", arguments.save_initial, "write the initial variables to this safetensors file");
  app.add_option("--save", arguments.save, "write the trained variables to this safetensors file");
  app.add_option("--losses", arguments.losses, "write one loss a line to this file");
  app.add_flag("--no-shuffle", arguments.no_shuffle, "take the images in their order");
  app.add_flag("--no-compare", arguments.no_compare, "leave out the comparison with whole-graph training");
  app.add_flag("--verbose", arguments.verbose, "log each forward and backward pass");
}

}  // namespace

int main(int argc, char** argv) {
  start_logging(argv[0]);
  CLI::App app("Trains a residual network on MNIST-like images, section by section, in a hard memory budget.");
  Arguments arguments;
  add_options(app, arguments);
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  try {
    return run(arguments);
  } catch (const sectionflow::Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
