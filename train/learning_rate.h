#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "train/callback.h"

namespace SF_API sectionflow {

/// A learning rate as a function of the steps that are completed: 0 for the first step. So a training that goes on from
/// a checkpoint goes on with the rates that it would have had.
using RateSchedule = std::function<double(std::int64_t step)>;

/// The same at every step. Throws: ArgumentError, as those below too, for a rate that is negative or not finite.
RateSchedule constant_rate(double rate, Where where = Where::here());
/// rates[i] until boundaries[i] steps are completed, the last of `rates` after that. Throws: ArgumentError unless the
/// boundaries rise and there is one rate more than boundaries.
RateSchedule step_rate(std::vector<std::int64_t> boundaries, std::vector<double> rates, Where where = Where::here());
/// rate * factor ^ (step / steps); by stairs: of the whole number below step / steps.
/// Throws: ArgumentError unless `steps` is positive.
RateSchedule exponential_rate(double rate, double factor, std::int64_t steps, bool by_stairs = false,
                              Where where = Where::here());
/// Half a cosine from `rate` down to `last` at `steps`, where it stays. Throws: ArgumentError unless `steps` is
/// positive. Source: Loshchilov and Hutter 2017, SGDR, without its restarts.
RateSchedule cosine_rate(double rate, std::int64_t steps, double last = 0, Where where = Where::here());
/// last + (rate - last) (1 - step / steps) ^ power, and `last` from `steps` on. Throws: ArgumentError unless `steps` is
/// positive and `power` not negative.
RateSchedule polynomial_rate(double rate, double last, std::int64_t steps, double power = 1,
                             Where where = Where::here());
/// Rises in equal parts to after(0) within `steps`, and goes on with `after`, whose step 0 is the first behind them:
/// step s of the warm-up has after(0) (s + 1) / (steps + 1). Throws: ArgumentError for negative steps.
RateSchedule warm_up(std::int64_t steps, RateSchedule after, Where where = Where::here());

/// Feeds a learning rate: a placeholder f32 [] that the optimiser was made with, as in Adam{.learning_rate = rate}.
/// Adds "learning_rate" to the logs.
class LearningRate final : public Callback {
 public:
  /// Throws: ArgumentError unless `rate` is such a placeholder.
  LearningRate(Value rate, RateSchedule schedule, Where where = Where::here());
  /// Throws: ArgumentError where the schedule gives a rate that is negative or not finite.
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  /// Warns where no operation reads the placeholder.
  void on_begin(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override {
    return std::vector<std::string>{"learning_rate"};
  }

 private:
  Value rate_;
  RateSchedule schedule_;
  bool has_looked_ = false;  // at who reads the rate
};

/// When PlateauLearningRate lowers the rate.
struct PlateauOptions {
  double rate = 1e-3;                ///< to begin with
  std::string monitor = "val_loss";  ///< a number of the epochs' logs
  bool higher_is_better = false;     ///< of that number: true for an accuracy, false for a loss
  double factor = 0.1;
  std::int64_t patience = 10;  ///< epochs without improvement that are borne
  double min_delta = 1e-4;     ///< less than that is no improvement
  std::int64_t cooldown = 0;   ///< epochs after a change that do not count
  double least_rate = 0;
};

/// Feeds a learning rate that is multiplied by `factor` when a number has not improved for more than `patience` epochs.
/// What it knows is part of positions, so that a training goes on with it from a checkpoint. Adds "learning_rate".
class PlateauLearningRate final : public Callback {
 public:
  /// Throws: ArgumentError as LearningRate, and for a factor outside ]0, 1[ or negative numbers.
  explicit PlateauLearningRate(Value rate, PlateauOptions options = {}, Where where = Where::here());
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_epoch(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::string name() const override { return "PlateauLearningRate"; }
  std::string save() const override;
  void restore(const std::string& saved) override;
  std::optional<std::vector<std::string>> logged_names() const override {
    return std::vector<std::string>{"learning_rate"};
  }
  double rate() const { return rate_; }

 private:
  Value placeholder_;
  PlateauOptions options_;
  double rate_;
  bool has_best_ = false;
  double best_ = 0;
  std::int64_t bad_epochs_ = 0, cooling_ = 0;
  bool has_warned_ = false;   // of the side on which the best is sought
  bool is_restored_ = false;  // since the last fit began
  TrainingPlace place_{};     // at the end of the last fit
};

}  // namespace sectionflow
