#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// Numbers by name: "loss", the metrics, and what callbacks add; after an evaluation the same with "val_" before them.
using Logs = std::map<std::string, double>;

/// Why a training ended.
enum class StopReason {
  none,       ///< it has not
  completed,  ///< all epochs or steps that were asked for
  callback,   ///< a callback asked for it
  signal,     ///< SIGINT or SIGTERM
  error       ///< an error is on its way to who called
};

class GraphSectionManager;
class Trace;
class TrainingRun;

/// Where a training stands, for callbacks. Valid during the call that it is given to.
struct TrainerState {
  Session& session;
  const Logs&
      logs;  ///< of the step that is done; in on_epoch and on_end: means over the epoch, and "val_..." of its end
  std::int64_t epoch = 1;            ///< from 1, over all fits of the trainer
  std::int64_t last_epoch = 0;       ///< with which this fit ends; 0: not known
  std::int64_t step = 0;             ///< completed steps over all fits of the trainer
  std::int64_t last_step = 0;        ///< with which this fit ends; 0: not known
  std::int64_t step_in_epoch = 0;    ///< completed ones; in an evaluation: its own
  std::int64_t steps_per_epoch = 0;  ///< 0: not known yet; in an evaluation: its own
  std::int64_t batch_size = 0;       ///< examples of the batch; before the first one 0
  std::int64_t num_examples = 0;     ///< trained by this fit
  double step_seconds = 0;           ///< of the step alone
  double data_seconds = 0;           ///< waited for its batch
  bool in_sections = false;          ///< whether cycles over sections are run
  bool validates = false;            ///< whether this fit evaluates now and then
  StopReason reason = StopReason::none;
  TrainingRun* run = nullptr;                    ///< of the trainer; nullptr in an evaluation outside of fit
  const GraphSectionManager* manager = nullptr;  ///< whose cycles are run; nullptr: the whole graph is
  const Trace* trace = nullptr;  ///< in on_step: of the step alone, where trace_step() was called before it

  /// The training ends before its next step; on_epoch is not called for an epoch that is not over.
  void stop(const std::string& why) const;
  /// Adds to History::why, where a signal ends the training: what has become of it.
  void note(const std::string& text) const;
  /// Adds a number to `logs` from now on; of an epoch its last. What the evaluation at an epoch's end gives goes
  /// before.
  void log(const std::string& name, double value) const;
  /// In on_step_begin: the operations of the step that begins are timed, for any callback to read `trace` in on_step.
  /// Session::set_trace is the trainer's in that step, and the caller's again behind it, whatever it throws.
  /// Throws: ArgumentError anywhere else.
  void trace_step() const;
  /// What Trainer::restore goes on from: counts, data, sums of the epoch, the evaluation of the last step or that it is
  /// still to come, and what callbacks keep. Throws: ArgumentError in an evaluation outside of fit, and (SF-E609) for
  /// one that is longer than a checkpoint can keep.
  std::string position() const;
};

/// What is done around the steps of a training. Callbacks are called in the order in which they were given; in on_step
/// and on_epoch those that show numbers come behind the others, so that they have what these log of the same step. A
/// call that throws ends the training: the steps that were completed stay, the batch that was not trained comes again,
/// and on_end is called of every callback whose on_begin has returned.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_begin(const TrainerState& /*state*/) {}
  /// Before a step, of which `state.batch_size` is known: may feed placeholders, such as a learning rate.
  virtual void on_step_begin(const TrainerState& /*state*/, Feeds& /*feeds*/) {}
  virtual void on_step(const TrainerState& /*state*/) {}
  /// After each batch of an evaluation; `state.logs` are those of the batch.
  virtual void on_evaluation_step(const TrainerState& /*state*/) {}
  /// After an evaluation within a training, with its results ("val_loss", ...).
  virtual void on_evaluation(const TrainerState& /*state*/, const Logs& /*results*/) {}
  virtual void on_epoch(const TrainerState& /*state*/) {}
  /// Whatever ended the training: `state.reason` says what. After an error what this throws is logged, and the error
  /// goes on its way.
  virtual void on_end(const TrainerState& /*state*/) {}

  /// The names of the numbers that it gives to TrainerState::log; nothing: they are not known before it does.
  virtual std::optional<std::vector<std::string>> logged_names() const { return std::nullopt; }
  /// Whether it shows the numbers of others, and gives none: then it comes behind them, wherever it stands among them,
  /// and behind a step or epoch at which one of them has thrown, too.
  virtual bool shows_logs() const { return false; }
  /// Under which what it keeps is found again; empty: it keeps nothing.
  virtual std::string name() const { return {}; }
  /// What it must know to go on as if nothing had happened, as text; positions, and so checkpoints, keep it by name().
  virtual std::string save() const { return {}; }
  /// Takes what save() of a callback like this one has given. Throws: DataError (SF-E609) for another text.
  virtual void restore(const std::string& /*saved*/) {}
};

/// Where a training was when a callback was told of it last: one that finds its training there again goes on with what
/// it knows.
struct TrainingPlace {
  const Session* session = nullptr;  ///< to be compared alone
  std::int64_t step = -1;

  static TrainingPlace of(const TrainerState& state) { return {&state.session, state.step}; }
  bool operator==(const TrainingPlace&) const = default;
};

/// The number of that name. Throws: ArgumentError (SF-E608) that `who` begins, with the nearest name that there is.
double monitored(const Logs& logs, const std::string& name, const std::string& who);
/// Refuses, as a fit begins, a name that the logs of its epochs will not have: one that neither the trainer nor a
/// callback gives. Of a fit with a callback whose logged_names() are not known, nothing is refused. Throws: as
/// monitored.
void check_monitored(const TrainerState& state, const std::string& name, const std::string& who);
/// Says so in the log where the best is sought on the wrong side, as far as a name tells: the smallest accuracy, or the
/// largest loss.
void warn_of_direction(const std::string& name, bool higher_is_better, const std::string& who);
/// Whether this fit may give a "val_..." later, since it does not evaluate after every epoch.
bool is_evaluated_later(const TrainerState& state, const std::string& name);

}  // namespace sectionflow
