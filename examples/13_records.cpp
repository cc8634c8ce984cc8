// One data set in files of two formats, TFRecord and LMDB, and a network that does not notice which of them it learns
// from: the same order gives the same bytes.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>

#include "examples/models/command_line.h"
#include "examples/temporary_folder.h"
#include "sectionflow.h"
#include "sources/sources.h"

namespace {

using namespace sectionflow;
namespace fs = std::filesystem;

struct Arguments {
  std::string data = kFashionMnistFolder;
  std::int64_t images = 12000, epochs = 2, batch = 100;
  std::string keep;
};

/// The first images of a data set, as a source gives them: {"image": u8 [H,W,1], "label": i32 []}.
std::shared_ptr<const IndexedSource> first_images(const LabeledImages& data, std::int64_t count) {
  count = std::min(count, data.labels.num_elements());
  const std::int64_t height = data.images.shape()[1], width = data.images.shape()[2];
  const auto levels = data.images.values<std::uint8_t>().first(count * height * width);
  const auto labels = data.labels.values<std::int32_t>().first(count);
  Example rows;
  rows.emplace("image", HostTensor::of<std::uint8_t>({count, height, width, 1}, {levels.begin(), levels.end()}));
  rows.emplace("label", HostTensor::of<std::int32_t>({count}, {labels.begin(), labels.end()}));
  return rows_of(data.name, std::move(rows));
}

Dataset from_tfrecords(const fs::path& folder, const IndexedSource& images) {
  TfrecordWriter writer(folder, "train", {.shard_bytes = 4'000'000});
  for (std::int64_t index = 0; index < images.size(); ++index) writer.write(images.at(index));
  writer.finish();
  // Records have no shapes: the schema says how an image lies in its bytes.
  return Dataset::from(tfrecord_source(files_in(folder), schema_of(images.at(0))));
}

Dataset from_lmdb(const fs::path& folder, const IndexedSource& images) {
  write_lmdb(folder, images);
  return Dataset::from(lmdb_source(folder));
}

Dataset from_memory(const std::shared_ptr<const IndexedSource>& images) {
  // Files of records are read from their beginning, and shuffled through a buffer; so is what a function gives.
  return Dataset::generate("memory", [images](std::int64_t index) -> std::optional<Example> {
    if (index >= images->size()) return std::nullopt;
    return images->at(index);
  });
}

Dataset batches_of(const Dataset& examples, std::int64_t size) {
  return examples.shuffle({.seed = 1, .buffer_bytes = 4_MiB})
      .map(maps::random_crop({.height = 28, .width = 28, .padding = 2}), {.threads = 2, .seed = 2})
      .map(maps::normalize())
      .batch({.size = size})
      .prefetch();
}

struct Trained {
  std::map<std::string, HostTensor> variables{};
  double accuracy = 0;
};

Trained train(const std::string& name, const Dataset& examples, const LabeledImages& tests,
              const Arguments& arguments) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "image", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  Value x = images, loss, right;
  {
    auto section = manager.new_section("stem");
    x = batch_norm(conv2d(x, {.features = 8, .stride = 2}), {.decay = 0.9F, .relu = true});
  }
  {
    auto section = manager.new_section("head");
    x = batch_norm(conv2d(x, {.features = 16, .stride = 2}), {.decay = 0.9F, .relu = true});
    x = dense(flatten(x), {.features = 10});
    loss = mean(softmax_cross_entropy(x, labels));
    right = accuracy(x, labels);
  }
  manager.add_training_ops(Adam{.learning_rate = 5e-3}, loss);
  manager.prepare_training();

  Session session(graph, {.device_memory = 16_MiB});
  session.initialize();
  Trainer trainer(session, manager, {.loss = loss, .metrics = {{"accuracy", right}}});
  DatasetBatches batches(batches_of(examples, arguments.batch));
  const History history = trainer.fit(batches, {.epochs = arguments.epochs});
  ImageBatches test(tests, {.batch = 100, .shuffle = false});
  Trained trained;
  trained.accuracy = trainer.evaluate(test).at("accuracy");
  for (const Value& variable : graph.values(kVariables)) {
    trained.variables.emplace(variable.name(), session.read(variable));
  }
  const DatasetStatistics statistics = batches.statistics();
  std::cout << name << ": " << statistics.examples << " examples in " << history.seconds << " s, of which "
            << statistics.seconds_waited << " s waited for data; loss " << history.of("loss").back()
            << ", test accuracy " << trained.accuracy << "\n";
  return trained;
}

bool is_same(const Trained& a, const Trained& b) {
  bool same = a.variables.size() == b.variables.size();
  for (const auto& [name, tensor] : a.variables) {
    same = same && b.variables.contains(name) && bitwise_equal(tensor, b.variables.at(name));
  }
  return same;
}

int run(const Arguments& arguments, const fs::path& folder) {
  const TrainTest data = arguments.data == "synthetic"
                             ? synthetic_mnist({.train_size = arguments.images, .test_size = 1000})
                             : load_mnist(arguments.data);
  const auto images = first_images(data.train, arguments.images);
  const Trained expected = train("memory", from_memory(images), data.test, arguments);

  const Dataset tfrecords = from_tfrecords(folder / "tfrecord", *images);
  std::cout << files_in(folder / "tfrecord").size() << " TFRecord shards\n";
  bool same = is_same(expected, train("TFRecord", tfrecords, data.test, arguments));
  try {
    same = is_same(expected, train("LMDB", from_lmdb(folder / "lmdb", *images), data.test, arguments)) && same;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing_library) throw;
    std::cout << "LMDB is left out: " << error.what() << "\n";
  }
  const bool is_trained = expected.accuracy > 0.7;
  std::cout << (is_trained ? "" : "it has not learnt; ")
            << "trained from files with the bytes of memory: " << (same ? "yes" : "no") << "\n";
  return same && is_trained ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Writes a data set as TFRecord and LMDB, and trains a small network from either.");
  app.add_option("--data", arguments.data, "folder with the four MNIST files (IDX, gzipped or not), or 'synthetic'")
      ->capture_default_str();
  app.add_option("--images", arguments.images, "how many are written, at most")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--epochs", arguments.epochs, "passes over them")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--batch", arguments.batch, "images in a batch")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--keep", arguments.keep, "new folder for the files, which stay; none: they go at the end");
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  start_logging("13_records");
  try {
    if (!arguments.keep.empty()) {
      SF_CHECK(!fs::exists(arguments.keep), ArgumentError, "--keep ", arguments.keep, ": it is there already");
      return run(arguments, arguments.keep);
    }
    const TemporaryFolder folder("13_records");
    return run(arguments, folder.path());
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
