// A residual network for Fashion-MNIST answers in f32, in bf16 and with 8 bits: how often it is right, how large its
// file is, how long an image takes and what memory it needs. Of 8 bits twice: by ranges found on examples, and after
// some training in which it rounds as 8 bits do.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "examples/data_files.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;
namespace fs = std::filesystem;

/// How layers compute.
enum class Precision { f32, bf16, eight_bits };

/// The network, with what trains it, in a session of its own.
struct Net {
  explicit Net(Precision precision, double rate, std::uint64_t seed = 1) {
    const Value images = placeholder(graph, "image", {kDynamic, 28, 28, 1});
    const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
    {
      auto section = manager.new_section("network");
      std::optional<MixedPrecision> narrow;
      std::optional<FakeQuantization> rounding;
      if (precision == Precision::bf16) narrow.emplace(graph);
      if (precision == Precision::eight_bits) rounding.emplace(graph, FakeQuantizationOptions{.decay = 0.9F});
      logits = cast(layers(images), Dtype::f32);
      rounding.reset();
      loss = mean(softmax_cross_entropy(logits, labels));
      accuracy = mean(cast(equal(argmax(logits), labels), Dtype::f32));
    }
    manager.add_training_ops(Adam{.learning_rate = static_cast<float>(rate)}, loss);
    manager.prepare_training();
    session.emplace(graph, SessionOptions{.seed = seed});
    session->initialize();
  }

  Value layers(Value images) {
    Value x = relu(conv_norm(images, 16, {.kernel = {3, 3}, .stride = {2, 2}}));
    for (const std::int64_t features : {16, 32, 64, 128}) {
      const auto scope = graph.scope("block");
      const std::int64_t stride = features == 16 ? 1 : 2;
      const Value hidden = relu(conv_norm(x, features, {.kernel = {3, 3}, .stride = {stride, stride}}));
      const Value y = conv_norm(hidden, features, {.kernel = {3, 3}});
      x = relu(y + (stride == 1 ? x : conv_norm(x, features, {.kernel = {1, 1}, .stride = {2, 2}})));
    }
    return dense(global_average_pool2d(x), {.features = 10});
  }

  static Value conv_norm(Value x, std::int64_t features, Conv2dOptions options) {
    options.features = features;
    options.bias = false;
    return batch_norm(conv2d(x, options), {.decay = 0.9F});
  }

  void train(const LabeledImages& images, std::int64_t epochs) {
    Trainer trainer(*session, manager.training_operations(), {.loss = loss, .metrics = {{"accuracy", accuracy}}});
    ImageBatches batches(images, {.batch = 64, .seed = 2});
    Progress progress;
    trainer.fit(batches, {.epochs = epochs, .callbacks = {&progress}});
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value logits, loss, accuracy;
  std::optional<Session> session;
};

/// What a model file is like.
struct Row {
  std::string name;
  double accuracy = 0, kib = 0, ms = 0, peak_kib = 0;
};

/// Labels the test images with a model of a file, and looks at the rest.
Row row_of(const std::string& name, const InferenceGraph& made, const fs::path& folder, const LabeledImages& test) {
  const std::string path = folder / (name + ".safetensors");
  save_inference_graph(made, path);
  const InferenceGraph model = load_inference_graph(path);
  Session session(*model.graph);
  session.initialize();

  Trainer predictor(session, std::vector<Operation>{},
                    {.outputs = {{"logits", model.outputs[0]}}, .ignored = {"label"}});
  ImageBatches batches(test, {.batch = 100, .shuffle = false});
  const Example predicted = predictor.predict(batches);
  const auto found = top_classes(predicted.at("logits"), 1);
  const auto labels = test.labels.values<std::int32_t>();
  std::size_t right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) right += found[i].front().label == labels[i] ? 1 : 0;

  const HostTensor image(Dtype::f32, {1, 28, 28, 1});
  std::vector<double> ms;
  for (int i = 0; i < 101; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    session.run(model.outputs, {{model["image"], image}});
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(ms.begin(), ms.begin() + 50, ms.end());
  const ProgramReport report = session.plan(model.outputs, {{model["image"], Shape{1, 28, 28, 1}}});
  return {name, 100.0 * static_cast<double>(right) / static_cast<double>(labels.size()),
          static_cast<double>(fs::file_size(path)) / 1024, ms[50],
          static_cast<double>(report.planned_peak_bytes) / 1024};
}

int run(const DataArguments& arguments, const fs::path& folder) {
  const TrainTest data = images_of(arguments);
  fs::create_directories(folder);

  Net net(Precision::f32, 2e-3);
  net.train(data.train, arguments.epochs);
  const std::string trained = folder / "trained.safetensors";
  save_variables(*net.session, trained);
  std::vector<Row> rows;

  // Batch norms go into the convolutions before them, and these take over the sums and the relus behind them. Ranges
  // of all tensors are those on some of the images that were trained on.
  const InferenceGraph frozen = freeze(*net.session, {net.logits});
  InferenceGraph made = transform_graph(frozen, "strip_unused_nodes fold_constants fold_batch_norms fuse");
  const Dataset samples = Dataset::from(data.train).take(500).map(maps::normalize()).batch({.size = 50});
  made.ranges = calibrate(made, samples, {.method = CalibrationMethod::min_max});
  std::cout << quantize_report(made).text();
  const InferenceGraph integers = transform_graph(made, "quantize_nodes");
  rows.push_back(row_of("f32", made, folder, data.test));

  // The same variables, in a graph whose layers compute in bf16.
  Net narrow(Precision::bf16, 0);
  load_variables(*narrow.session, trained, {.weights_only = true});
  rows.push_back(
      row_of("bf16", transform_graph(freeze(*narrow.session, {narrow.logits}), "fold_constants"), folder, data.test));
  rows.push_back(row_of("8 bits, calibrated", integers, folder, data.test));

  // Trained on, rounding as 8 bits do: ranges that training has found go before those of examples.
  Net rounded(Precision::eight_bits, 5e-4);  // its layers are made while a FakeQuantization is open
  load_variables(*rounded.session, trained, {.allow_missing = true, .weights_only = true});
  rounded.train(data.train, (arguments.epochs + 1) / 2);
  made = transform_graph(freeze(*rounded.session, {rounded.logits}), "take_ranges fold_batch_norms fuse");
  made.ranges = calibrate(made, samples);
  rows.push_back(row_of("8 bits, trained for it", transform_graph(made, "quantize_nodes"), folder, data.test));

  std::printf("%-24s %10s %8s %10s %10s %10s\n", "", "accuracy", "lost", "file KiB", "image ms", "peak KiB");
  for (const Row& row : rows) {
    std::printf("%-24s %8.2f %% %8.2f %10.1f %10.3f %10.1f\n", row.name.c_str(), row.accuracy,
                rows[0].accuracy - row.accuracy, row.kib, row.ms, row.peak_kib);
  }
  const bool is_near =
      std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return row.accuracy > rows[0].accuracy - 3; });
  return is_near && rows[0].accuracy > 60 && rows[2].kib < 0.5 * rows[0].kib ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  DataArguments arguments{.images = 2000};
  CLI::App app("Compares a network in f32, in bf16 and with 8 bits; all images: --images 60000 --epochs 8.");
  add_data_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  return run_in_folder("23_eight_bits", arguments, [&](const fs::path& folder) { return run(arguments, folder); });
}
