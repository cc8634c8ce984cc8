#pragma once

#include <map>
#include <string>

#include "tools/train_arguments.h"
#include "train/callback.h"
#include "train/checkpoints.h"
#include "train/trainer.h"

namespace sectionflow {

// How a training goes on from its checkpoints, and what tells that another command would not.

/// Keeps in checkpoints the options that they are bound to, and tells once the training really goes on: behind its
/// first step or evaluation, when nothing can refuse it any more, and never where nothing is left to train. Give it
/// before all others.
class CommandNote final : public Callback {
 public:
  explicit CommandNote(std::map<std::string, std::string> options) : options_(std::move(options)) {}
  /// `besides`: a line more, or nothing.
  void set_resumed(std::int64_t step, std::string besides) {
    resumed_ = step;
    besides_ = std::move(besides);
  }
  std::string name() const override { return "command line"; }
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }
  std::string save() const override;
  void on_step(const TrainerState& state) override;
  void on_evaluation(const TrainerState& state, const Logs& results) override;

 private:
  void tell();

  std::map<std::string, std::string> options_;
  std::optional<std::int64_t> resumed_;
  std::string besides_;
};

/// Keeps the learning rate in checkpoints. A training that goes on takes the rate of its own command, as one wants who
/// lowers it on the way, and is told where that is another.
class RateNote final : public Callback {
 public:
  explicit RateNote(float rate) : rate_(rate) {}
  std::string name() const override { return "learning rate"; }
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }
  std::string save() const override;
  /// Throws: DataError (SF-E609).
  void restore(const std::string& saved) override;

 private:
  float rate_;
};

/// The options that a CommandNote has kept in a training's position; none where it has not, or where that is no
/// position.
std::map<std::string, std::string> noted_options(const std::string& position);
/// The same of the rate that a RateNote has kept; empty: none.
std::string noted_rate(const std::string& position);
/// "--model mnist_cnn --width 2", as a shell takes them.
std::string command_text(const std::map<std::string, std::string>& options);

/// Goes on from the last checkpoint, where --resume says so and there is one. The options that it was trained with;
/// none where the training begins. Throws: ArgumentError for a folder that has checkpoints without --resume, and for
/// another --seed or another model; DataError, for a checkpoint of other variables with the options that differ.
std::map<std::string, std::string> begin_or_resume(const TrainArguments& arguments, Checkpoints& checkpoints,
                                                   Trainer& trainer, CommandNote& note);

/// Throws what a training that goes on has thrown, with what of its command differs from `then`, the options of its
/// checkpoint, where that is why.
[[noreturn]] void throw_with_differences(const Error& error, const std::map<std::string, std::string>& then,
                                         const TrainArguments& arguments);
/// Whether throw_with_differences has something to say of it.
bool is_other_data(const Error& error);

}  // namespace sectionflow
