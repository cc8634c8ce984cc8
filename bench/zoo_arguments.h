#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/program.h"
#include "examples/models/zoo.h"

namespace sectionflow {

/// What the programs of this folder let one say about a model on the command line.
struct ZooArguments {
  std::string model = "mnist_resnet";
  std::string optimizer = "adam";
  double learning_rate = 0;
  ZooOptions options{};
};

/// Examples in a batch where nothing is said: of every command that has a model of the zoo.
inline constexpr std::int64_t kUsualBatch = 100;

/// A size that some models let one choose.
struct ZooSize {
  const char* option;
  std::int64_t ZooOptions::*number;
  const char* help;
};
std::span<const ZooSize> zoo_sizes();
/// Whether a model of the zoo lets one choose that size; false where there is no such model.
bool has_size(const std::string& model, std::int64_t ZooOptions::*number);

void add_zoo_arguments(CLI::App& app, ZooArguments& arguments);

/// That of --learning-rate, or where it is absent one that trains every model of the zoo, as it is used.
float learning_rate_of(const ZooArguments& arguments);

/// The model with the optimiser that was asked for. Throws: ArgumentError.
ZooModel model_of(const ZooArguments& arguments, const Cut& cut);

/// What --device-memory gives: a size, or a share of the transient peak of training the whole model by one batch; 0,
/// all of the device, where it is empty. `also`: what is fetched besides the loss. Throws: ArgumentError.
std::size_t device_memory_of(const std::string& text, const ZooArguments& arguments, const Batch& batch,
                             const SessionOptions& session,
                             const std::function<std::vector<Value>(const TrainableModel&)>& also = {});

}  // namespace sectionflow
