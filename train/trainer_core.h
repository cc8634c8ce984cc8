#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "train/batch_feeds.h"
#include "train/trainer.h"
#include "train/training_progress.h"

namespace sectionflow {

/// What a trainer fetches in one kind of run, and what that run reads.
class FetchedNumbers {
 public:
  FetchedNumbers(const Graph& graph, std::vector<Operation> targets) : graph_(&graph), targets_(std::move(targets)) {}
  void add(const std::string& name, Value value);
  /// Behind all others: what a batch counts, which has no name. An invalid one is not fetched.
  void weigh_by(Value weight);
  void set_targets(std::vector<Operation> targets);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Operation>& targets() const { return targets_; }
  /// What the batch counts in means: what weigh_by was given, or the number of examples.
  double weight_of(const std::vector<HostTensor>& fetched, std::int64_t num_examples) const;
  /// Neither below 0 nor infinite nor NaN.
  static bool is_weight(double weight);
  /// Throws: ArgumentError that names the value for what is no weight.
  void check_weight(double weight) const;
  /// The placeholders, worked out again when the graph has changed.
  const std::set<NodeId>& read();
  /// The first element of a tensor of any dtype.
  static double number_of(const HostTensor& tensor);

 private:
  const Graph* graph_;
  std::vector<Operation> targets_;
  std::vector<std::string> names_;
  std::vector<Value> values_;
  std::set<NodeId> read_;
  int num_nodes_ = -1;
  std::uint64_t generation_ = 0;
};

/// Whose logs: those of epochs have the results of evaluations too.
enum class LogsOf { steps, epochs };

/// Which state of a training a checkpoint has: completed counts, and what was done to variables beside its steps.
struct TrainingMoment {
  std::int64_t step = 0, epochs = 0, evaluated_step = -1;
  std::uint64_t write = 0;  ///< the session's last
  bool operator==(const TrainingMoment&) const = default;
};

/// What a Trainer is made of: the steps, and how far it has come; TrainingRun puts them in order.
class TrainerCore {
 public:
  /// `manager` is nullptr where the whole graph is trained by `targets`.
  TrainerCore(Session& session, GraphSectionManager* manager, std::vector<Operation> targets, TrainerOptions options);

  // `where` is the user's line, which errors of the session name.
  History fit(BatchSource& source, const FitOptions& options, Where where);
  /// `around` is the training that evaluates, if there is one. Nothing comes back where `is_broken_off` has said so
  /// before a batch.
  std::optional<Logs> evaluate(BatchSource& source, const EvaluateOptions& options, const TrainerState* around,
                               Where where, const std::function<bool()>& is_broken_off = {});
  /// Compiles what the first batch of a source is evaluated by, once a source: what does not fit the budgets shows
  /// before a step is trained. Throws: BudgetError, and what an evaluation of the batch would throw.
  void check_evaluation_fits(BatchSource& source, Where where);
  Example predict(BatchSource& source, const EvaluateOptions& options, Where where);
  void restore(const std::string& position);

  /// Refuses what `call` is to do while a fit is under way.
  void check_not_fitting(const char* call) const;

  Session& session() { return session_; }
  bool in_sections() const { return manager_ != nullptr; }
  const GraphSectionManager* manager() const { return manager_; }
  TrainingProgress& progress() { return progress_; }
  const TrainingProgress& progress() const { return progress_; }
  /// Whether the progress is one that restore() has read, and the next fit has to take its source there. Asked once.
  bool take_restored() { return std::exchange(restored_, false); }
  void set_restored() { restored_ = true; }
  /// Whether it goes on from a position that restore() was given by somebody who knows where it is from.
  bool is_restored_by_hand() const { return is_by_hand_; }
  /// The evaluation that was just made, or that a restored position has, is of the variables as they are.
  void note_evaluated();
  /// Whether the last evaluation is of this step and of the variables as they are.
  bool is_evaluated() const;
  /// Of who goes on from here, and has the variables as they are: without an evaluation that is not of these.
  TrainingProgress progress_to_keep() const;
  std::int64_t evaluated_step_to_keep() const;
  /// It goes on from the newest checkpoint of that folder.
  void note_resumed(const std::string& folder);
  TrainingMoment moment() const;
  /// By the folders into which this training saves, as Checkpoints::identity() names them, what the newest checkpoint
  /// is of; nothing where that is not known.
  std::map<std::string, std::optional<TrainingMoment>>& saved() { return saved_; }
  /// Whether a folder has checkpoints that this training has saved, or goes on from.
  bool is_owner_of(const std::string& folder) const { return owned_.contains(folder); }
  void note_owner_of(const std::string& folder) { owned_.insert(folder); }

  /// What a step is fed from a batch, and from TrainerOptions.
  BatchFeeds::Bound training_feeds(const Example& batch);
  /// Whether the last fit was of this source, which stands where that has left it.
  bool trains_on(const BatchSource& source) const;
  void set_trains_on(const BatchSource& source) { trained_on_ = &source; }
  /// Says so where steps compute what moving averages follow, and leave their updates out.
  void warn_of_updates() const;
  /// One step; puts its numbers into the logs, in place, and returns what it counts in means. On a GPU the batch that
  /// `source` has for the next one is copied there meanwhile.
  double train(const BatchSource& source, const Feeds& feeds, std::int64_t num_examples, Logs& logs, Where where);
  /// Throws: ArgumentError for what train has returned and what is no weight.
  void check_weight(double weight) const { training_.check_weight(weight); }
  /// The names of the numbers that train() puts there.
  const std::vector<std::string>& training_numbers() const { return training_.names(); }
  /// The names of all that the logs of a fit's steps or epochs will have, with no numbers yet; nothing where a
  /// callback's are not known.
  std::optional<Logs> known_names(const FitOptions& options, LogsOf of) const;

 private:
  void check_number(const std::string& name, Value value, const char* advice = "take its mean: mean(x)") const;
  BatchFeeds::Bound bind(const Example& batch, FetchedNumbers& run, const Feeds& others);
  struct BatchRun {
    std::int64_t step = 0;  ///< from 1
    std::int64_t num_examples = 0;
    double data_seconds = 0, step_seconds = 0;
    std::vector<HostTensor> fetched{};
  };
  /// Has what the source has made for the next run copied to a GPU beside this one.
  void offer_next(const BatchSource& source, FetchedNumbers& run);
  /// What the session lends; asked for once.
  std::shared_ptr<BatchMemory> batch_memory();
  /// From the source's very beginning; it stands where it stood afterwards. False where `is_broken_off` has said so.
  bool run_batches(BatchSource& source, const EvaluateOptions& options, FetchedNumbers& run, Where where,
                   const std::function<void(BatchRun)>& take, const std::function<bool()>& is_broken_off = {});

  Session& session_;
  GraphSectionManager* manager_;
  TrainerOptions options_;
  BatchFeeds feeds_;
  FetchedNumbers training_, evaluation_, prediction_;
  std::shared_ptr<BatchMemory> memory_;  // that of the session; asked for when it is first needed
  TrainingProgress progress_;
  const BatchSource* trained_on_ = nullptr;      // by the last fit; to be compared alone
  const BatchSource* checked_to_fit_ = nullptr;  // the source of evaluations; to be compared alone
  std::map<std::string, std::optional<TrainingMoment>> saved_;
  std::set<std::string> owned_;  // folders
  bool restored_ = false, is_by_hand_ = false;
  std::uint64_t evaluated_write_ = 0;  // Engine::last_write at the last evaluation
  bool is_fitting_ = false;
};

}  // namespace sectionflow
