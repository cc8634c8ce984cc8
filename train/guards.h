#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "runtime/session.h"
#include "train/callback.h"

namespace SF_API sectionflow {

/// In which steps FiniteCheck looks, and for what.
struct FiniteCheckOptions {
  bool nan = true;
  bool infinity = true;         ///< false where a model has infinities on purpose, as some masks do
  std::int64_t first_step = 0;  ///< looks at steps behind which at least so many are completed, and
  std::int64_t last_step = 0;   ///< at most so many; 0: to the end
};

/// Looks at the results of all operations while a training runs, and ends it with an error (SF-E605) that names the
/// first operation whose result is NaN or infinite, its section, tensor and element: see Session::set_value_checks. Of
/// no cost in steps at which it does not look, nor where it is not among the callbacks.
class FiniteCheck final : public Callback {
 public:
  explicit FiniteCheck(FiniteCheckOptions options = {}) : options_(options) {}
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_step(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

 private:
  bool looks_behind(std::int64_t step) const;

  FiniteCheckOptions options_;
  ValueChecks before_;
  bool is_looking_ = false;  // in the step that is under way, or was the last
};

/// What OutlierGuard does about a step that lies far off.
enum class OutlierAction {
  warn,  ///< logs a warning
  stop,  ///< ends the training
  fail   ///< throws ArgumentError (SF-E606)
};

/// When OutlierGuard takes a number for an outlier.
struct OutlierGuardOptions {
  /// Numbers of the steps' logs; of the gradients' norm for one, as a metric of TrainerOptions::training_metrics.
  std::vector<std::string> monitors = {"loss"};
  std::size_t window = 100;  ///< earlier steps that a number is compared with
  std::size_t least = 20;    ///< of which there must be so many
  double z_score = 6;        ///< standard deviations above their mean that are too many
  OutlierAction action = OutlierAction::warn;
};

/// Watches numbers of the steps for jumps upwards: a number is an outlier where it lies more than `z_score` standard
/// deviations above the mean of the steps before it, or is not finite. A deviation of less than a thousandth of the
/// mean counts as that much. The windows are part of positions.
class OutlierGuard final : public Callback {
 public:
  /// A number that was far off.
  struct Outlier {
    std::int64_t step = 0;
    std::string monitor;
    double value = 0, z_score = 0;
  };

  /// Throws: ArgumentError without monitors, for a window below 2 or below `least`, or a z-score that is not positive.
  explicit OutlierGuard(OutlierGuardOptions options = {}, Where where = Where::here());
  /// Throws: ArgumentError (SF-E608) for a monitor that neither the trainer nor a callback gives in steps, where it
  /// is known what callbacks give.
  void on_begin(const TrainerState& state) override;
  void on_step(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::string name() const override { return "OutlierGuard"; }
  std::string save() const override;
  void restore(const std::string& saved) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

  /// Of the last fit, the first thousand.
  const std::vector<Outlier>& outliers() const { return outliers_; }

 private:
  double z_score(const std::deque<double>& window, double value) const;

  OutlierGuardOptions options_;
  std::vector<std::deque<double>> windows_;  // one a monitor
  std::vector<Outlier> outliers_;
  bool is_restored_ = false;
  TrainingPlace place_{};  // at the end of the last fit
};

}  // namespace sectionflow
