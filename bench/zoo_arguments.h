#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "examples/models/zoo.h"

namespace sectionflow {

/// What the programs of this folder let one say about a model on the command line.
struct ZooArguments {
  std::string model = "mnist_resnet";
  std::string optimizer = "adam";
  double learning_rate = 0;
  ZooOptions options{};
};

/// Reads the command line and runs. An error of ours goes to the error stream, with exit status 2.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& run);

void add_zoo_arguments(CLI::App& app, ZooArguments& arguments);

/// The model with the optimiser that was asked for. Throws: ArgumentError.
ZooModel model_of(const ZooArguments& arguments, const Cut& cut);

}  // namespace sectionflow
