// One data set in files of two formats, TFRecord and LMDB, and a network that does not notice which of them it learns
// from: the same order gives the same bytes.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <optional>

#include "examples/data_files.h"
#include "sectionflow.h"
#include "sources/sources.h"

namespace {

using namespace sectionflow;
namespace fs = std::filesystem;

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

Trained train(const std::string& name, const Dataset& examples, const LabeledImages& tests, std::int64_t size,
              std::int64_t epochs) {
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
  DatasetBatches batches(batches_of(examples, size));
  const History history = trainer.fit(batches, {.epochs = epochs});
  ImageBatches test(tests, {.batch = 100, .shuffle = false});
  Trained trained = trained_by(trainer, test);
  const DatasetStatistics statistics = batches.statistics();
  std::cout << name << ": " << statistics.examples << " examples in " << history.seconds << " s, of which "
            << statistics.seconds_waited << " s waited for data; loss " << history.of("loss").back()
            << ", test accuracy " << trained.accuracy << "\n";
  return trained;
}

int run(const DataArguments& arguments, std::int64_t size, const fs::path& folder) {
  const TrainTest data = images_of(arguments);
  Example rows;
  rows.emplace("image", data.train.images.clone());
  rows.emplace("label", data.train.labels.clone());
  const auto images = rows_of(data.train.name, std::move(rows));
  const auto train_from = [&](const std::string& name, const Dataset& examples) {
    return train(name, examples, data.test, size, arguments.epochs);
  };
  const Trained expected = train_from("memory", from_memory(images));

  const Dataset tfrecords = from_tfrecords(folder / "tfrecord", *images);
  std::cout << files_in(folder / "tfrecord").size() << " TFRecord shards\n";
  bool same = is_same(expected, train_from("TFRecord", tfrecords));
  try {
    same = is_same(expected, train_from("LMDB", from_lmdb(folder / "lmdb", *images))) && same;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing_library) throw;
    std::cout << "LMDB is left out: " << error.what() << "\n";
  }
  return tell_whether_same(same, expected);
}

}  // namespace

int main(int argc, char** argv) {
  DataArguments arguments;
  std::int64_t size = 100;
  CLI::App app("Writes a data set as TFRecord and LMDB, and trains a small network from either.");
  add_data_options(app, arguments);
  app.add_option("--batch", size, "images in a batch")->check(CLI::Range(1, 1000000))->capture_default_str();
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  return run_in_folder("13_records", arguments, [&](const fs::path& folder) { return run(arguments, size, folder); });
}
