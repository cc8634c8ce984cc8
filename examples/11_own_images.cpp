// From a folder of one's own images to a trained network, with all that one wants around it: decoding and augmenting on
// threads, checkpoints, curves for TensorBoard, an end by Ctrl-C, and going on later.
//
//   11_own_images --data pictures --run runs/first
//
// where pictures/train/<class>/*.jpg and pictures/test/<class>/*.jpg are images, JPEG or PNG. Without --data it makes
// some, and trains in a folder that goes at its end.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "examples/models/command_line.h"
#include "sectionflow.h"
#include "sources/sources.h"

namespace {

using namespace sectionflow;
namespace fs = std::filesystem;

/// Stripes and rings of random colours, each image of its own size.
void write_pictures(const fs::path& folder) {
  const RandomAddress address{.seed = 1};
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint32_t bound) { return random_words(address, drawn++)[0] % bound; };
  for (const auto& [part, count] : {std::pair{"train", 96}, std::pair{"test", 32}}) {
    for (const std::string name : {"rings", "stripes"}) {
      fs::create_directories(folder / part / name);
      for (int number = 0; number < count; ++number) {
        const std::int64_t height = 40 + below(20), width = 40 + below(20);
        const double wave = 2 + below(3), red = below(256), green = below(256), blue = below(256);
        HostTensor image(Dtype::u8, {height, width, 3});
        const auto levels = image.values<std::uint8_t>();
        for (std::int64_t y = 0; y < height; ++y) {
          for (std::int64_t x = 0; x < width; ++x) {
            const double away = name == "rings" ? std::hypot(y - height / 2.0, x - width / 2.0) : double(x);
            const double light = 0.5 + 0.5 * std::sin(away / wave);
            const std::int64_t first = (y * width + x) * 3;
            for (const auto& [channel, level] : {std::pair{0, red}, std::pair{1, green}, std::pair{2, blue}}) {
              levels[first + channel] = static_cast<std::uint8_t>(light * level);
            }
          }
        }
        write_png(folder / part / name / (std::to_string(number) + ".png"), image);
      }
    }
  }
}

int train_images(const fs::path& data, const fs::path& run, std::int64_t epochs) {
  // docs/training.md shows the lines from here on.
  const ImageFolder train_images = image_folder(data / "train"), test_images = image_folder(data / "test");
  if (test_images.classes != train_images.classes) throw ArgumentError("train and test have folders of other names");
  const auto classes = static_cast<std::int64_t>(train_images.classes.size());
  const MapFunction normalize = maps::normalize({.mean = {0.5F}, .deviation = {0.25F}});
  DatasetBatches train(Dataset::from(train_images.source)  // files are read and decoded when they are wanted
                           .shuffle({.seed = 1})
                           .map(maps::resize({.height = 40, .width = 40}), {.threads = 2})
                           .map(maps::random_crop({.height = 32, .width = 32}), {.seed = 2})
                           .map(maps::random_flip(), {.seed = 3})
                           .map(normalize)
                           .on_error(ErrorPolicy::skip_record)  // images that cannot be decoded
                           .batch({.size = 16})
                           .prefetch({.batches = 4}));
  DatasetBatches test(Dataset::from(test_images.source)
                          .map(maps::resize({.height = 32, .width = 32}), {.threads = 2})
                          .map(normalize)
                          .batch({.size = 16}));

  Graph graph;
  GraphSectionManager manager(graph);
  const Value image = placeholder(graph, "image", {kDynamic, 32, 32, 3});
  const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value rate = placeholder(graph, "learning_rate", {});
  Value x = image, loss, right;
  for (const std::int64_t features : {8, 16, 32}) {
    auto section = manager.new_section();
    x = batch_norm(conv2d(x, {.features = features, .stride = 2}), {.decay = 0.9F, .relu = true});
  }
  {
    auto section = manager.new_section("head");
    x = dense(dropout(flatten(x), {.rate = 0.2F}), {.features = classes});
    loss = mean(softmax_cross_entropy(x, label));
    right = accuracy(x, label);
  }
  manager.add_training_ops(Adam{.learning_rate = rate}, loss, {.summaries = true});
  manager.prepare_training();

  Session session(graph, {.device_memory = 32_MiB, .seed = 1});
  session.initialize();
  Trainer trainer(session, manager, {.loss = loss, .metrics = {{"accuracy", right}}, .outputs = {{"logits", x}}});
  Checkpoints checkpoints(run / "checkpoints", {.keep = 2, .best_metric = "val_accuracy", .higher_is_better = true});
  resume(trainer, checkpoints);

  LearningRate schedule(rate, warm_up(5, constant_rate(3e-3)));
  TensorBoard board(run, {.histogram_steps = 12, .profile_step = 10});
  Progress progress;
  CheckpointCallback saving(checkpoints);  // after every epoch, and when the training ends
  const History history = trainer.fit(train, {.max_epochs = epochs,
                                              .validation = &test,
                                              .callbacks = {&schedule, &board, &progress, &saving},
                                              .handle_signals = true});
  if (history.signal != 0) return history.exit_code();  // started again, it goes on from here

  const Logs results = trainer.evaluate(test);
  const Example predicted = trainer.predict(test);

  // How often pictures of a class were taken for which.
  const auto class_with_most = [&](const HostTensor& logits, std::size_t row) {
    const auto of_row = logits.values<float>().subspan(row * classes, classes);
    return test_images.classes[std::max_element(of_row.begin(), of_row.end()) - of_row.begin()];
  };
  std::map<std::pair<std::string, std::string>, int> confusion;  // (class, taken for)
  for (std::size_t i = 0; i < test_images.files.size(); ++i) {
    const std::string name = fs::path(test_images.files[i]).parent_path().string();
    ++confusion[{name, class_with_most(predicted.at("logits"), i)}];
  }

  // What one picture is taken for, wherever it is from.
  const auto class_of = [&](const fs::path& file) {
    const auto picture = [&](std::int64_t number) -> std::optional<Example> {
      if (number > 0) return std::nullopt;
      Example example;
      example.emplace("image", read_image(file));
      return example;
    };
    DatasetBatches one(Dataset::generate("one picture", picture)
                           .map(maps::resize({.height = 32, .width = 32}))
                           .map(normalize)
                           .batch({.size = 1}));
    return class_with_most(trainer.predict(one).at("logits"), 0);
  };
  // Here the lines end.
  for (const auto& [names, count] : confusion) {
    std::cout << names.first << " taken for " << names.second << ": " << count << "\n";
  }
  std::cout << test_images.files.front() << ": " << class_of(data / "test" / test_images.files.front()) << "\n";
  if (train.statistics().skipped_records > 0) std::cout << "left out: " << train.statistics().last_skipped << "\n";
  std::cout << history.why << "; test accuracy " << results.at("accuracy") << ", logits "
            << predicted.at("logits").type().text() << "; look at it with tensorboard --logdir " << run.string()
            << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string data, run = "runs/own_images";
  std::int64_t epochs = 10;
  CLI::App app("Trains a network on a folder of images, and goes on where it was ended.");
  app.add_option("--data", data, "folder with train/<class>/*.jpg and test/<class>/*.jpg; none: images are made");
  app.add_option("--run", run, "folder for checkpoints and events")->capture_default_str();
  app.add_option("--epochs", epochs, "over all starts")->check(CLI::PositiveNumber)->capture_default_str();
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  start_logging("11_own_images");
  constexpr int kSkipped = 77;
  try {
    if (!data.empty()) return train_images(data, run, epochs);
    const fs::path folder = fs::temp_directory_path() / ("11_own_images-" + std::to_string(getpid()));
    int status = 1;
    try {
      write_pictures(folder / "pictures");
      status = train_images(folder / "pictures", folder / "run", epochs);
    } catch (...) {
      fs::remove_all(folder);
      throw;
    }
    fs::remove_all(folder);
    return status;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return error.code() == ErrorCode::missing_library ? kSkipped : 1;
  }
}
