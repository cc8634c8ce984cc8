// What a convolutional body makes of images goes to files, batch by batch, and a classifier is trained on what is read
// back: as good as the vectors in memory, to the bit, and the body runs once instead of once an epoch.

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

constexpr std::int64_t kFeatures = 64;

/// Images in, vectors out. Trained with a head that is thrown away.
class Body {
 public:
  Body() : manager_(graph_) {
    images_ = placeholder(graph_, "image", {kDynamic, 28, 28, 1});
    labels_ = placeholder(graph_, "label", {kDynamic}, Dtype::i32);
    Value x = images_;
    {
      auto section = manager_.new_section("stem");
      x = batch_norm(conv2d(x, {.features = 16, .stride = 2}), {.decay = 0.9F, .relu = true});
    }
    {
      auto section = manager_.new_section("trunk");
      x = batch_norm(conv2d(x, {.features = 32, .stride = 2}), {.decay = 0.9F, .relu = true});
      features_ = relu(dense(flatten(x), {.features = kFeatures}));
      loss_ = mean(softmax_cross_entropy(dense(features_, {.features = 10}), labels_));
    }
    manager_.add_training_ops(Adam{.learning_rate = 3e-3}, loss_);
    manager_.prepare_training();
    session_.emplace(graph_, SessionOptions{.device_memory = 32_MiB});
    session_->initialize();
  }

  void train(const LabeledImages& data, std::int64_t steps) {
    Trainer trainer(*session_, manager_, {.loss = loss_});
    ImageBatches batches(data, {.batch = 100});
    const History history = trainer.fit(batches, {.steps = steps});
    std::cout << "body: " << steps << " steps, loss " << history.last_step.at("loss") << "\n";
  }

  /// [N, kFeatures] of images f32 [N,28,28,1].
  HostTensor features_of(const HostTensor& images) {
    auto [features] = session_->run({features_}, {{images_, images}});
    return std::move(features);
  }

 private:
  Graph graph_;
  GraphSectionManager manager_;
  Value images_, labels_, features_, loss_;
  std::optional<Session> session_;
};

/// Where the vectors of a data set are to be had; of HDF5 where there is its library.
struct Vectors {
  Example memory;
  fs::path features, labels;  // npy
  fs::path hdf5;
  std::string left_out{};  ///< why there is no HDF5; empty: there is
};

Vectors write_vectors(Body& body, const LabeledImages& images, const fs::path& folder) {
  const std::int64_t count = images.labels.num_elements();
  Vectors vectors{.memory = {},
                  .features = folder / "features.npy",
                  .labels = folder / "labels.npy",
                  .hdf5 = folder / "vectors.h5"};
  NpyWriter features(vectors.features, {Dtype::f32, {count, kFeatures}}), labels(vectors.labels, {Dtype::i32, {count}});
  std::optional<Hdf5Writer> hdf5;
  try {
    hdf5.emplace(vectors.hdf5);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing_library) throw;
    vectors.left_out = error.what();
  }

  std::vector<float> all;
  DatasetIterator batches = Dataset::from(images).map(maps::normalize()).batch({.size = 250}).prefetch().iterate();
  while (const auto batch = batches.next()) {
    const HostTensor rows = body.features_of(batch->at("image"));
    features.append(rows);
    labels.append(batch->at("label"));
    if (hdf5) hdf5->append("features", rows);
    if (hdf5) hdf5->append("label", batch->at("label"));
    const auto numbers = rows.values<float>();
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  features.finish();
  labels.finish();
  if (hdf5) hdf5->finish();
  vectors.memory.emplace("features", HostTensor::of<float>({count, kFeatures}, all));
  vectors.memory.emplace("label", images.labels.clone());
  return vectors;
}

Trained train_classifier(const std::string& name, const Dataset& vectors, const Dataset& tests, std::int64_t epochs) {
  Graph graph;
  const Value features = placeholder(graph, "features", {kDynamic, kFeatures});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value logits = dense(relu(dense(features, {.features = 32})), {.features = 10});
  const Value loss = mean(softmax_cross_entropy(logits, labels));
  const std::vector<Operation> training = minimize(Adam{.learning_rate = 1e-3}, loss);
  Session session(graph, {.device_memory = 4_MiB});
  session.initialize();
  Trainer trainer(session, training, {.loss = loss, .metrics = {{"accuracy", accuracy(logits, labels)}}});
  DatasetBatches batches(vectors.shuffle({.seed = 1}).batch({.size = 100}).prefetch());
  DatasetBatches test(tests.batch({.size = 500}));
  const History history = trainer.fit(batches, {.epochs = epochs});

  Trained trained = trained_by(trainer, test);
  std::cout << "vectors from " << name << ": " << epochs << " epochs in " << history.seconds << " s; loss "
            << history.of("loss").back() << ", test accuracy " << trained.accuracy << "\n";
  return trained;
}

int run(const DataArguments& arguments, std::int64_t body_steps, const fs::path& folder) {
  const TrainTest data = images_of(arguments);
  Body body;
  if (body_steps > 0) body.train(data.train, body_steps);
  fs::create_directories(folder / "train");
  fs::create_directories(folder / "test");
  Vectors vectors = write_vectors(body, data.train, folder / "train");
  const Dataset tests = Dataset::from(write_vectors(body, data.test, folder / "test").memory);
  const auto train = [&](const std::string& name, const Dataset& from) {
    return train_classifier(name, from, tests, arguments.epochs);
  };

  // Vectors in files are read row by row, where the shuffled order asks for them.
  const Dataset npy = Dataset::from(npy_source({{"features", vectors.features}, {"label", vectors.labels}}));
  const Trained expected = train("memory", Dataset::from(std::move(vectors.memory)));
  bool same = is_same(expected, train("npy", npy));
  if (vectors.left_out.empty()) {
    const Dataset hdf5 = Dataset::from(hdf5_source(vectors.hdf5, {{"features", "features"}, {"label", "label"}}));
    same = is_same(expected, train("HDF5", hdf5)) && same;
  } else {
    std::cout << "HDF5 is left out: " << vectors.left_out << "\n";
  }
  return tell_whether_same(same, expected);
}

}  // namespace

int main(int argc, char** argv) {
  DataArguments arguments{.epochs = 10};
  std::int64_t body_steps = 120;
  CLI::App app("Writes what a network makes of images to HDF5 and npy, and trains a classifier on what is read back.");
  add_data_options(app, arguments);
  app.add_option("--body-steps", body_steps, "that the body is trained; 0: it stays as chance made it")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  return run_in_folder("14_feature_vectors", arguments,
                       [&](const fs::path& folder) { return run(arguments, body_steps, folder); });
}
