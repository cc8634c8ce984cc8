#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "examples/models/command_line.h"
#include "examples/temporary_folder.h"
#include "sectionflow.h"

// What programs share that write a data set to files and train from them as from memory.

namespace sectionflow {

/// What their command lines say.
struct DataArguments {
  std::string data = kFashionMnistFolder;
  std::int64_t images = 12000, epochs = 2;
  std::string keep{};
};

inline void add_data_options(CLI::App& app, DataArguments& arguments) {
  app.add_option("--data", arguments.data, "folder with the four MNIST files (IDX, gzipped or not), or 'synthetic'")
      ->capture_default_str();
  app.add_option("--images", arguments.images, "how many of its images are taken, at most")
      ->check(CLI::Range(100, 1000000))
      ->capture_default_str();
  app.add_option("--epochs", arguments.epochs, "passes over what is written")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--keep", arguments.keep, "new folder for the files, which stay; none: they go at the end");
}

/// The images that the command line names, of the training images the first.
inline TrainTest images_of(const DataArguments& arguments) {
  if (arguments.data == "synthetic") return synthetic_mnist({.train_size = arguments.images, .test_size = 1000});
  TrainTest data = load_mnist(arguments.data);
  LabeledImages& train = data.train;
  const std::int64_t count = std::min(arguments.images, train.labels.num_elements());
  const std::int64_t height = train.images.shape()[1], width = train.images.shape()[2];
  const auto levels = train.images.values<std::uint8_t>().first(count * height * width);
  const auto labels = train.labels.values<std::int32_t>().first(count);
  train.images = HostTensor::of<std::uint8_t>({count, height, width, 1}, {levels.begin(), levels.end()});
  train.labels = HostTensor::of<std::int32_t>({count}, {labels.begin(), labels.end()});
  return data;
}

/// What came of a training.
struct Trained {
  std::map<std::string, HostTensor> variables{};
  double accuracy = 0;
};

/// Of a trainer with the metric "accuracy".
inline Trained trained_by(Trainer& trainer, BatchSource& test) {
  Trained trained{.accuracy = trainer.evaluate(test).at("accuracy")};
  for (const Value& variable : trainer.session().graph().values(kVariables)) {
    trained.variables.emplace(variable.name(), trainer.session().read(variable));
  }
  return trained;
}

inline bool is_same(const Trained& a, const Trained& b) {
  bool same = a.variables.size() == b.variables.size();
  for (const auto& [name, tensor] : a.variables) {
    same = same && b.variables.contains(name) && bitwise_equal(tensor, b.variables.at(name));
  }
  return same;
}

/// The program's last line, and its exit status.
inline int tell_whether_same(bool same, const Trained& expected) {
  const bool is_trained = expected.accuracy > 0.7;
  std::cout << (is_trained ? "" : "it has not learnt; ")
            << "trained from files with the bytes of memory: " << (same ? "yes" : "no") << "\n";
  return same && is_trained ? 0 : 1;
}

/// Runs the program in the folder that stays, or in one that goes at its end.
inline int run_in_folder(const std::string& program, const DataArguments& arguments,
                         const std::function<int(const std::filesystem::path&)>& run) {
  start_logging(program.c_str());
  try {
    if (arguments.keep.empty()) return run(TemporaryFolder(program).path());
    SF_CHECK(!std::filesystem::exists(arguments.keep), ArgumentError, "--keep ", arguments.keep,
             ": it is there already");
    return run(arguments.keep);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}

}  // namespace sectionflow
