#pragma once

#include <string>

#include "tools/train_arguments.h"
#include "train/trainer.h"

namespace sectionflow {

/// The last line of a training: why it ended, where it stands, and its numbers. Lines for what was left out of the data
/// follow.
std::string results_text(const History& history, const Trainer& trainer, const TrainingData& data);
/// The same, and more, for programs.
std::string results_json(const TrainArguments& arguments, const History& history, const Trainer& trainer,
                         const TrainingData& data);

}  // namespace sectionflow
