#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bench/session_arguments.h"
#include "bench/zoo_arguments.h"
#include "tools/training_data.h"

namespace sectionflow {

/// What `sectionflow train` is told.
struct TrainArguments {
  ZooArguments zoo;
  TrainingDataArguments data{};
  std::string strategy = "sections:blocks";
  std::optional<std::int64_t> epochs, steps;
  SessionArguments session{};
  std::string profile, plan;
  std::string checkpoints, tensorboard, statistics, json;
  std::int64_t checkpoint_every = 0, tensorboard_every = 10;
  int keep = 3;
  bool resume = false, replan = false;
};

void add_train_arguments(CLI::App& app, TrainArguments& arguments);

/// What would only show after training is refused before it, and before anything is written: names that are none,
/// files that cannot be written, and folders that the next training would take for data. Throws: ArgumentError;
/// DataError.
void check(const TrainArguments& arguments);
/// Whether --plan names a file that is there, to be read.
bool has_plan_file(const TrainArguments& arguments);

/// The options that a checkpoint is bound to, by name, as they are written on a command line. Those that are absent,
/// and have no default, are not there.
std::map<std::string, std::string> binding_options(const TrainArguments& arguments);
/// The model that such options say, as far as they are known here, with the learning rate of `now`.
ZooArguments zoo_of(const std::map<std::string, std::string>& options, const ZooArguments& now);

}  // namespace sectionflow
