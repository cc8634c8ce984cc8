#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "data/source.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "train/batch_source.h"
#include "train/callback.h"

namespace SF_API sectionflow {

class Checkpoints;
class TrainerCore;
struct RestoredCheckpoint;

/// Makes a tensor of a batch into what its placeholder takes.
using InputMap = std::function<HostTensor(const HostTensor&)>;

/// Which placeholder a tensor of the batches feeds.
struct BatchInput {
  std::string tensor;  ///< its name in the batches, as in "image"
  Value placeholder;
  /// Absent: the tensor as it is; nothing is converted in silence.
  InputMap map{};
};

/// Images as they lie in files: u8 levels 0 to 255 as f32 from 0 to 1, level / 255. Throws: ArgumentError for another
/// dtype.
InputMap unit_range();

/// What a Trainer computes, and from what.
struct TrainerOptions {
  Value loss{};  ///< a number; of training and evaluation. May be absent where fit() is not called
  std::map<std::string, Value> metrics{};           ///< numbers besides, of training and evaluation
  std::map<std::string, Value> training_metrics{};  ///< of training alone, such as the norm of the gradients
  /// What a batch counts in the means of loss and metrics over an epoch and an evaluation: a number, 0 or more, such as
  /// the tokens of a padded batch that are there. A batch of 0 is left out; where all are, the means are NaN. A step
  /// whose weight is below 0, infinite or NaN counts, as 0, and then throws: ArgumentError. Absent: its number of
  /// examples.
  Value weight{};
  std::map<std::string, Value> outputs{};  ///< of predict(): one row an example
  /// Tensors of the batches that are not listed feed the placeholder of their own name.
  std::vector<BatchInput> inputs{};
  std::vector<std::string> ignored{};  ///< tensors of the batches that nothing is to be fed from
  Feeds training_feeds{};              ///< fed in every step of fit(), besides the batch
  Feeds evaluation_feeds{};            ///< fed in evaluate() and predict()
};

/// How long fit() trains, and what is done meanwhile. At least one limit is wanted; the first that is reached ends it.
struct FitOptions {
  std::int64_t epochs = 0;  ///< epochs that this call trains; one that it only finds complete does not count
  std::int64_t steps = 0;   ///< steps that this call trains
  /// The same over all fits, those before a restore() included: a program that is started again with the same numbers
  /// trains what is left.
  std::int64_t max_epochs = 0, max_steps = 0;
  /// An epoch is so many steps, over as many passes as it takes; 0: an epoch is a pass over the source.
  std::int64_t steps_per_epoch = 0;
  BatchSource* validation = nullptr;      ///< evaluated now and then; gives "val_loss", ...
  std::int64_t validation_steps = 0;      ///< batches of it from its beginning; 0: its whole first pass
  std::int64_t validate_every = 1;        ///< epochs; 0: not by epochs
  std::int64_t validate_every_steps = 0;  ///< 0: not by steps
  /// Evaluates once more where a limit or a callback ends the fit behind a step that has not been evaluated, be it one
  /// of an earlier start whose evaluation was broken off.
  bool validate_at_end = false;
  /// In this order; checkpoints last, so that they see what others know. Those that show numbers, such as Progress, may
  /// stand anywhere: they see what others log in the same step.
  std::vector<Callback*> callbacks{};
  /// SIGINT and SIGTERM end the training behind the step that is under way, and an evaluation between two batches,
  /// which is made again from its beginning where the training goes on: on_end is called, fit returns, and
  /// History::exit_code() tells. Where a limit or a callback ends it behind that step as well, that is
  /// History::reason. A second signal, or one outside of fit, ends the process at once. See StopSignals.
  bool handle_signals = false;
};

/// What became of an epoch.
struct EpochRecord {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t step = 0;   ///< completed steps at its end, over all fits
  double seconds = 0;
  double data_seconds = 0;  ///< of these waited for batches
  Logs logs{};              ///< means over its examples (TrainerOptions::weight), and the last "val_..."
};

/// What became of a fit.
struct History {
  std::vector<EpochRecord> epochs{};  ///< that it has ended
  std::int64_t steps = 0;             ///< completed by it
  std::int64_t num_examples = 0;      ///< trained by it
  double seconds = 0;
  double data_seconds = 0;  ///< of these waited for batches
  StopReason reason = StopReason::none;
  std::string why{};                 ///< in words
  int signal = 0;                    ///< that ended it; 0: none
  Logs last_step{};                  ///< the logs of the last step
  Logs evaluation{};                 ///< results of the last evaluation, and
  std::int64_t evaluated_step = -1;  ///< the completed steps at that time; -1: there was none

  /// 0, or 128 and the signal's number, as shells have it.
  int exit_code() const { return signal == 0 ? 0 : 128 + signal; }
  /// One number of each epoch that has it. Throws: ArgumentError (SF-E608) where none has.
  std::vector<double> of(const std::string& name) const;
};

/// Which batches evaluate() and predict() take.
struct EvaluateOptions {
  std::int64_t steps = 0;              ///< so many from the beginning of a source; 0: its whole first pass
  std::vector<Callback*> callbacks{};  ///< their on_evaluation_step is called
};

/// Trains, evaluates and predicts, so that nobody has to write the loop: over cycles of a section manager, or over the
/// whole graph with training operations as targets, before or after Lms or insert_swaps. The loop that it takes off
/// one's hands is Session::run or run_full_cycle, with the same bits.
///
/// A call that throws has completed the steps that it has completed: variables, step() and the source's position tell
/// the same story, and the next fit goes on. Threads: one at a time. Session and manager must outlive it.
class Trainer {
 public:
  /// Throws: ArgumentError for values of another graph, ones that are no number, outputs without a first axis, inputs
  /// that are no placeholders, and a name that is given twice.
  Trainer(Session& session, GraphSectionManager& manager, TrainerOptions options, Where where = Where::here());
  Trainer(Session& session, std::vector<Operation> training_operations, TrainerOptions options,
          Where where = Where::here());
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Trains. What evaluations take is planned before the first step, by the first batch of FitOptions::validation: what
  /// does not fit trains nothing. A batch of another size, such as the last of a pass, is another program of the
  /// session. Throws: what callbacks, source and session throw; ArgumentError without a limit, a loss or training
  /// operations, for a source without batches, that of evaluations included (SF-E603), within another fit (SF-E604),
  /// and for batches that do not fit the placeholders (SF-E600, SF-E601, SF-E602).
  History fit(BatchSource& source, const FitOptions& options, Where where = Where::here());
  /// The means of loss and metrics over all examples of a pass: each batch counts by its size, or by
  /// TrainerOptions::weight. The pass is the source's first, from its beginning, wherever the source stands, and the
  /// source is put back to where it was: each evaluation sees the same batches, and one amid a training takes nothing
  /// from it. Changes no variable and no counter.
  /// Throws: as fit; what restore("") of a source throws that cannot go to its beginning, before anything is computed.
  Logs evaluate(BatchSource& source, const EvaluateOptions& options = {}, Where where = Where::here());
  /// The outputs of all examples of such a pass, in their order. Throws: as evaluate; ShapeError (SF-E602) where an
  /// output has not one row an example.
  Example predict(BatchSource& source, const EvaluateOptions& options = {}, Where where = Where::here());

  Session& session() const;
  /// Completed steps and epochs over all fits, those before a restore() included.
  std::int64_t step() const;
  std::int64_t epoch() const;
  /// What restore() goes on from: what a checkpoint keeps beside the variables. Within fit, TrainerState::position().
  /// Throws: ArgumentError (SF-E609) for one that is longer than a checkpoint can keep.
  std::string position() const;
  /// The next fit goes on from there: counts, the position of its source, and what its callbacks keep, which are found
  /// by their names. Variables and Session::completed_cycles are load_variables' to restore. The text is not
  /// trusted. Throws: DataError (SF-E609); nothing has changed then. ArgumentError within fit.
  void restore(const std::string& position, Where where = Where::here());

 private:
  friend std::optional<RestoredCheckpoint> resume(Trainer& trainer, Checkpoints& checkpoints, Where where);
  std::unique_ptr<TrainerCore> core_;
};

/// What train_and_evaluate trains on, and how long.
struct TrainSpec {
  BatchSource* source = nullptr;
  std::int64_t max_steps = 0;  ///< over all fits; must be set
  std::vector<Callback*> callbacks{};
  bool handle_signals = false;
};
/// What train_and_evaluate evaluates, and how often.
struct EvaluateSpec {
  BatchSource* source = nullptr;
  std::int64_t steps = 0;          ///< batches; 0: a whole pass
  std::int64_t every_steps = 100;  ///< of training between two evaluations
};

/// What became of train_and_evaluate.
struct TrainedAndEvaluated {
  Logs results{};  ///< of the last evaluation
  History history{};
};

/// Trains over as many passes as it takes to `max_steps`, and evaluates now and then and in the end, as estimators do.
/// Ends early where a callback says so; the results are then those of the model as it is. Ends early by a signal, too;
/// the results are then those of the last evaluation that was whole, and none without one. Throws: as
/// Trainer::fit.
TrainedAndEvaluated train_and_evaluate(Trainer& trainer, const TrainSpec& train, const EvaluateSpec& evaluate,
                                       Where where = Where::here());

}  // namespace sectionflow
