#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "autodiff/updates.h"
#include "base/error.h"
#include "base/export.h"
#include "base/histogram.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "sections/graph_section.h"
#include "sections/section_options.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

class SectionTrainer;

/// An open section; closes it when it ends. Move-only.
class SectionScope {
 public:
  SectionScope(SectionScope&& other) noexcept;
  SectionScope& operator=(SectionScope&&) = delete;
  ~SectionScope();
  GraphSection& section() const { return *section_; }

 private:
  friend class SectionTrainer;
  SectionScope(SectionTrainer& trainer, GraphSection& section, GraphScope group);
  SectionTrainer* trainer_;
  GraphSection* section_;
  GraphScope group_;
  int exceptions_;  // in flight when it was opened
};

/// What add_training_ops trains, and what it adds besides.
struct TrainingOptions {
  std::vector<Value> variables{};      ///< to train; empty: all trainable ones
  std::optional<Value> global_step{};  ///< an i64 scalar variable, incremented once an update
  std::optional<float> clip_norm{};    ///< clip_by_global_norm before the updates: holds all gradients until the last
  /// A cycle takes a micro-batch; the gradients of so many, summed in their order and times 1 / micro_batches, are
  /// applied in the last of them. One variable more for each trained one.
  int micro_batches = 1;
  int ranks = 1;  ///< UpdateOptions::ranks: so many sessions train together
  VariableDistribution distribution = VariableDistribution::replicated;  ///< UpdateOptions::distribution
  std::optional<int> server{};                                           ///< UpdateOptions::server
  bool skip_non_finite = false;                   ///< UpdateOptions::skip_non_finite; holds gradients as clip_norm does
  std::optional<WeightAverageOptions> average{};  ///< averages of the trained variables: updates().averages
  bool verbose = false;                           ///< log 'Running backward pass on section K'
  bool summaries = false;                         ///< fetch gradients in every full cycle and keep their histograms
  SectionOptions sections{};  ///< of sections without options of their own, and of what stands outside of all
};

/// How cycles over the sections of a loaded graph are run: as the TrainingOptions of the same names.
struct RestoredTrainingOptions {
  bool verbose = false;
  bool summaries = false;  ///< needs the gradients, which graphs have that add_training_ops has trained
  SectionOptions sections{};
  /// Sections have the options that they were opened with; false: `sections` says for all.
  bool own_options = true;
};

/// How place_cuts is to cut a graph, and for what.
struct PlaceCutsOptions {
  /// How many sections; 0: as many as take the least time in the device memory of `session`.
  int sections = 0;
  /// What dimensions of feeds count that only a feed decides. 0: 32 where the number of sections is given; where device
  /// memory decides, it must be said.
  std::int64_t batch = 0;
  /// Of feeds that are to be planned with other shapes, or booleans, than `batch` and true.
  FeedTypes feeds{};
  /// Of the session that cycles are going to be run in.
  SessionOptions session{};
  /// How fast the machine is (measure_profile); absent: that of set_profile, or else the nominal one.
  std::optional<Profile> profile{};
  /// Where no cut fits by itself, that of the lowest peak is taken if what it lacks can be offloaded, as the options of
  /// its sections allow.
  bool may_swap = true;
};

/// What add_training_ops found, per section.
struct SectionTraining {
  int gradient_applications = 0;
  int update_operations = 0;
};

/// What a cycle logs.
struct CycleOptions {
  bool verbose_timing = false;  ///< log the milliseconds of each pass
};

/// How often a section has been run by its manager, in all sessions.
struct SectionRuns {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

/// The gradients of one variable in one cycle, as a histogram.
struct GradientSummary {
  std::string variable;
  Histogram histogram;
};

/// Trains a model section by section: the forward pass keeps the tensors that cross section borders and drops the rest;
/// the backward pass takes the sections in reverse, each computed again, differentiated, and its variables updated. The
/// result is bit for bit that of training the whole graph.
///
/// Use: open sections while building, then add_training_ops, prepare_training, and run_full_cycle for each batch.
/// Allowed, and said by plan(): a tensor that sections far apart read (it is kept once), a variable of several sections
/// (its gradients are summed once), random operations outside of all sections (drawn once a cycle), a loss that is made
/// of tensors outside of all sections, or not in the last (later sections get no gradient), an empty section (dropped
/// from the plan).
/// Threads: one at a time; a second that comes in is refused. The graph must outlive it, and it its open sections.
class GraphSectionManager {
 public:
  /// Throws: ArgumentError (SF-E200) while the graph has another section manager.
  explicit GraphSectionManager(Graph& graph, Where where = Where::here());
  ~GraphSectionManager();
  GraphSectionManager(const GraphSectionManager&) = delete;
  GraphSectionManager& operator=(const GraphSectionManager&) = delete;

  /// Opens the next section, as in `{ auto section = manager.new_section(); x = relu(x); ... }`.
  /// Throws: ArgumentError inside another section, for a name that is taken, after prepare_training(), and
  /// after place_cuts().
  [[nodiscard]] SectionScope new_section(std::string name = {}, Where where = Where::here());
  /// Opens a section whose tensors are kept as its options say, whatever TrainingOptions::sections says.
  /// Throws: as above; ArgumentError for a prefetch below 0.
  [[nodiscard]] SectionScope new_section(std::string name, SectionOptions options, Where where = Where::here());
  /// Has add_training_ops place the borders of sections by itself, in a graph that is built without a scope, before or
  /// after this call: where little crosses, as at articulation points and small vertex cuts, and so that the cycle
  /// takes as little device memory as so many sections can be made to, never more than equal parts by operations; or,
  /// with a budget alone, as little time as is found to fit, never more than 2 to 32 equal parts that fit. The same
  /// graph and options give the same cut. Another call takes the place of an earlier one. Throws: ArgumentError for a
  /// number below 0, and (SF-E211) where the manager has sections. add_training_ops then throws, beside its own:
  /// ArgumentError (SF-E212) where the loss has fewer operations than sections are wanted; BudgetError (SF-E213) where
  /// no cut is found that fits, with the lowest peak that was.
  void place_cuts(const PlaceCutsOptions& options = {}, Where where = Where::here());
  /// Takes over the sections of a graph that was built by another manager: one that was loaded (load_graph), or whose
  /// manager is gone. Names and order are the same, and so are the options of sections that were opened with some;
  /// `options` says for the others where tensors are kept. What add_training_ops had added, or where it had not been
  /// called minimize(), training_updates() or apply_gradients(), is what cycles train; where the graph has nothing of
  /// the kind, add_training_ops comes next. Returns and logs what each section trains. Throws: ArgumentError where the
  /// manager has sections already or the graph has none, and for options as new_section; DataError (SF-E402) where the
  /// graph names as training or as options what is none; ArgumentError (SF-E033) for micro-batches that it does not
  /// describe.
  std::vector<SectionTraining> restore_sections(const RestoredTrainingOptions& options = {},
                                                Where where = Where::here());
  /// All sections in order.
  const std::vector<std::unique_ptr<GraphSection>>& sections() const;
  GraphSection& section(int index) const { return *sections().at(static_cast<std::size_t>(index)); }

  /// Adds gradients of the loss and the optimiser's updates. Trained too is what the collection "update_operations"
  /// holds when prepare_training() is called. Returns and logs what each section trains. Throws: as compute_gradients,
  /// clip_by_global_norm and apply_gradients; ArgumentError inside a section, when called twice, or behind a section
  /// that an exception left. The graph is then unchanged. Operations that minimize() or apply_gradients() add to the
  /// graph, before or after, are no part of a cycle: Session::run has them as targets. plan() says of how many.
  std::vector<SectionTraining> add_training_ops(const Optimizer& optimizer, Value loss,
                                                const TrainingOptions& options = {}, Where where = Where::here());
  /// The same for gradients that are there already, preprocessed or not.
  std::vector<SectionTraining> add_training_ops(const Optimizer& optimizer,
                                                const std::vector<GradientAndVariable>& gradients,
                                                const TrainingOptions& options = {}, Where where = Where::here());
  /// The same with variables in groups: see training_updates.
  std::vector<SectionTraining> add_training_ops(const std::vector<ParameterGroup>& groups, Value loss,
                                                const TrainingOptions& options = {}, Where where = Where::here());
  /// What add_training_ops has added, to be fetched or read: gradients, their norm, averages, counters.
  const Updates& updates() const;
  /// All updates of a training step: targets of Session::run for training the whole graph.
  const std::vector<Operation>& training_operations() const;

  /// Works out what crosses the borders. Call it when the graph is complete, and again when the collection
  /// "update_operations" has got more: cycles that begin from then on run those too. Warns of empty sections, and of
  /// sections behind that of the loss.
  /// Throws: ArgumentError without sections or training operations, with a section open, when sections are not in
  /// topological order, or for a name in SectionOptions::tensors that is none, with the nearest that is.
  void prepare_training(Where where = Where::here());
  bool is_prepared() const;

  /// How fast the machine is (measure_profile): cycles compiled from here on decide by it what is computed again and
  /// what is offloaded, where the policies leave that open. Without one by the nominal machine's. Throws: ArgumentError
  /// for numbers that no profile can have.
  void set_profile(Profile profile);
  /// Replaces TrainingOptions::sections for cycles that begin from here on; the graph stays as it is.
  /// Throws: ArgumentError as prepare_training, which checks the names of tensors where it has not been called yet.
  void set_section_options(SectionOptions options, Where where = Where::here());

  /// One training step on one batch, or on one micro-batch of TrainingOptions::micro_batches: the session's variables
  /// know which it is. Fetches may be nested and come back in the same shape; a fetched variable gives
  /// its value from before the update. Throws, before anything runs: BudgetError, ArgumentError, ShapeError.
  template <class Fetches>
  Fetched<Fetches> run_full_cycle(Session& session, const Fetches& fetches, const Feeds& feeds,
                                  const CycleOptions& options = {}, Where where = Where::here()) {
    return rebuild_fetches(fetches, full_cycle(session, flatten_fetches(fetches), feeds, options, where));
  }
  template <std::size_t Count>
  std::array<HostTensor, Count> run_full_cycle(Session& session, const Value (&fetches)[Count], const Feeds& feeds,
                                               const CycleOptions& options = {}, Where where = Where::here()) {
    return run_full_cycle(session, fetch_array(fetches), feeds, options, where);
  }

  /// The forward pass alone, with its fetches. Changes no variable and no counter; the session is pending until
  /// run_backward or discard_forward.
  template <class Fetches>
  Fetched<Fetches> run_forward(Session& session, const Fetches& fetches, const Feeds& feeds,
                               const CycleOptions& options = {}, Where where = Where::here()) {
    return rebuild_fetches(fetches, forward_pass(session, flatten_fetches(fetches), feeds, options, where));
  }
  template <std::size_t Count>
  std::array<HostTensor, Count> run_forward(Session& session, const Value (&fetches)[Count], const Feeds& feeds,
                                            const CycleOptions& options = {}, Where where = Where::here()) {
    return run_forward(session, fetch_array(fetches), feeds, options, where);
  }
  /// The backward pass that belongs to the last run_forward. `fetches[k]` is evaluated in section k's run.
  template <class Fetches = std::vector<Value>>
  std::vector<Fetched<Fetches>> run_backward(Session& session, const std::vector<Fetches>& fetches = {},
                                             const CycleOptions& options = {}, Where where = Where::here()) {
    std::vector<std::vector<Value>> flat;
    for (const Fetches& of_section : fetches) flat.push_back(flatten_fetches(of_section));
    auto tensors = backward_pass(session, flat, options, where);
    std::vector<Fetched<Fetches>> result;
    for (std::size_t k = 0; k < fetches.size(); ++k)
      result.push_back(rebuild_fetches(fetches[k], std::move(tensors[k])));
    return result;
  }
  /// Forgets the pending forward pass.
  void discard_forward(Session& session);

  /// Compiles a full cycle without running it; of several micro-batches that which takes the most device memory. The
  /// report's notes tell what is offloaded, and what is allowed but worth knowing.
  ProgramReport plan(Session& session, const std::vector<Value>& fetches, const FeedTypes& feeds,
                     Where where = Where::here());

  /// In which section's backward run a lone fetch of a full cycle is evaluated; kForwardPass for the forward pass.
  SectionIndex evaluated_in(Value fetch) const;
  SectionRuns runs(int index) const;
  /// Histograms of the last full cycle's gradients; empty unless TrainingOptions::summaries.
  const std::vector<GradientSummary>& gradient_summaries() const;

 private:
  std::vector<HostTensor> full_cycle(Session& session, const std::vector<Value>& fetches, const Feeds& feeds,
                                     const CycleOptions& options, Where where);
  std::vector<HostTensor> forward_pass(Session& session, const std::vector<Value>& fetches, const Feeds& feeds,
                                       const CycleOptions& options, Where where);
  std::vector<std::vector<HostTensor>> backward_pass(Session& session, const std::vector<std::vector<Value>>& fetches,
                                                     const CycleOptions& options, Where where);

  std::unique_ptr<SectionTrainer> trainer_;
};

}  // namespace sectionflow
