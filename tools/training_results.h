#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/train_arguments.h"
#include "train/checkpoints.h"
#include "train/trainer.h"

namespace sectionflow {

/// Notes the first step of a training whose loss is not finite.
class LossNote final : public Callback {
 public:
  void on_step(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }
  std::optional<std::int64_t> first_not_finite() const { return first_; }

 private:
  std::optional<std::int64_t> first_;
};

/// What of a training that has ended is not as it was asked for: the checkpoint of its end is lost, or its loss is no
/// number. The program ends by status 1 then. `checkpoints` is nullptr without any.
std::vector<std::string> problems_of(const History& history, const Trainer& trainer, const Checkpoints* checkpoints,
                                     const LossNote& loss);

/// Where nothing was left to train: the evaluation of the last step that the checkpoint has kept.
void add_kept_evaluation(History& history, const Trainer& trainer, const Checkpoints& checkpoints);

/// The last line of a training: why it ended, where it stands, and its numbers. Lines for what was left out of the data
/// follow.
std::string results_text(const History& history, const Trainer& trainer, const TrainingData& data);
/// The same, and more, for programs.
std::string results_json(const TrainArguments& arguments, const History& history, const Trainer& trainer,
                         const TrainingData& data, const std::vector<std::string>& problems);

}  // namespace sectionflow
