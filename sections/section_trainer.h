#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "autodiff/optimizers.h"
#include "autodiff/updates.h"
#include "base/error.h"
#include "base/one_at_a_time.h"
#include "graph/graph.h"
#include "runtime/engine.h"
#include "sections/graph_section.h"
#include "sections/graph_section_manager.h"
#include "sections/section_boundaries.h"
#include "sections/section_map.h"
#include "sections/section_options.h"
#include "sections/section_schedule.h"
#include "swap/profile.h"

namespace sectionflow {

struct CyclePolicies;
struct CutRequest;
struct ForwardPlaces;
struct FoundCut;
class ProgramKey;

// Collections by which a graph tells another manager what this one trains. Of two values that belong together, a
// gradient and its variable, a variable and its average, one follows the other.
inline constexpr std::string_view kSectionTraining = "section_training_operations";
inline constexpr std::string_view kSectionLoss = "section_loss";
inline constexpr std::string_view kSectionGradients = "section_gradients";
inline constexpr std::string_view kSectionAverages = "section_averages";
inline constexpr std::string_view kSectionNorm = "section_gradient_norm";
inline constexpr std::string_view kSectionSkipped = "section_skipped_updates";
inline constexpr std::string_view kSectionMicroBatch = "section_micro_batch";
/// Of a section that has options of its own, in its group: a constant u8 [N] of their text.
inline constexpr std::string_view kSectionOptions = "section_options";

/// The updates that cycles execute. A cycle that is begun takes them along as they are: such copies are one and the
/// same until the list is changed.
class UpdateList {
 public:
  using Operations = std::vector<Operation>;

  const Operations& list() const { return list_; }
  bool empty() const { return list_.empty(); }
  /// The list to be changed; what was taken along stays as it is.
  Operations& change() {
    taken_.reset();
    return list_;
  }
  /// The list as it is now.
  std::shared_ptr<const Operations> taken_along() const {
    if (taken_ == nullptr) taken_ = std::make_shared<const Operations>(list_);
    return taken_;
  }

 private:
  Operations list_;
  mutable std::shared_ptr<const Operations> taken_;
};

/// What a GraphSectionManager is made of; its methods do what those of the same name do here, with the engine of their
/// session. Threads: as GraphSectionManager.
class SectionTrainer {
 public:
  SectionTrainer(Graph& graph, Where where);
  SectionTrainer(const SectionTrainer&) = delete;
  SectionTrainer& operator=(const SectionTrainer&) = delete;

  /// Without options of its own where `options` are absent.
  SectionScope new_section(std::string name, std::optional<SectionOptions> options, Where where);
  void place_cuts(const PlaceCutsOptions& options, Where where);
  std::vector<SectionTraining> restore_sections(const RestoredTrainingOptions& options, Where where);
  const std::vector<std::unique_ptr<GraphSection>>& sections() const { return sections_; }
  std::vector<SectionTraining> add_training_ops(const Optimizer& optimizer, Value loss, const TrainingOptions& options,
                                                Where where);
  std::vector<SectionTraining> add_training_ops(const Optimizer& optimizer,
                                                const std::vector<GradientAndVariable>& gradients,
                                                const TrainingOptions& options, Where where);
  std::vector<SectionTraining> add_training_ops(const std::vector<ParameterGroup>& groups, Value loss,
                                                const TrainingOptions& options, Where where);
  const Updates& updates() const { return updates_; }
  const std::vector<Operation>& training_operations() const { return training_.list(); }
  void prepare_training(Where where);
  bool is_prepared() const { return prepared_; }
  void set_profile(Profile profile);
  void set_section_options(SectionOptions options, Where where);

  /// The cycle, or a half of it, with flat fetches.
  std::vector<HostTensor> full_cycle(Engine& engine, const std::vector<Value>& fetches, const Feeds& feeds,
                                     const CycleOptions& options, Where where);
  std::vector<HostTensor> forward_pass(Engine& engine, const std::vector<Value>& fetches, const Feeds& feeds,
                                       const CycleOptions& options, Where where);
  std::vector<std::vector<HostTensor>> backward_pass(Engine& engine, const std::vector<std::vector<Value>>& fetches,
                                                     const CycleOptions& options, Where where);
  ProgramReport plan(Engine& engine, const std::vector<Value>& fetches, const FeedTypes& feeds, Where where);

  SectionIndex evaluated_in(Value fetch) const;
  SectionRuns runs(int index) const { return runs_.at(static_cast<std::size_t>(index)); }
  const std::vector<GradientSummary>& gradient_summaries() const { return summaries_; }

 private:
  friend class GraphSection;
  friend class SectionScope;
  struct ForwardHalf;
  using UpdatesOf = std::function<Updates(const UpdateOptions&)>;
  /// Who has given the options of sections without options of their own.
  struct OptionsSource {
    const char* name = "TrainingOptions::sections";
    Where at{};
  };

  /// Makes a user's call: one thread at a time, and errors name its line.
  template <class Call>
  decltype(auto) user_call(Where where, Call&& call) {
    return call_at(where, [&]() -> decltype(auto) {
      const auto inside = one_at_a_time_.enter("the section manager");
      return call();
    });
  }
  void check_options(const std::string& call, const SectionOptions& options) const;
  void check_tensor_names(const char* call, const SectionOptions& defaults, const OptionsSource& source) const;
  void check_disk(const Engine& engine, const char* call) const;
  void log_policies() const;
  CyclePolicies policies() const;
  std::vector<SectionTraining> train_with(const UpdatesOf& updates, const TrainingOptions& options);
  void note_training() const;
  void find_training();
  std::vector<std::string> unusual() const;
  std::vector<std::string> notes(const Program& program) const;
  void take_update_operations();
  void forget_training();
  void when_rolled_back(std::function<void()> undo) const;
  static UpdateOptions update_options(const TrainingOptions& options);
  void make_placed_sections(const UpdatesOf& updates, Value loss, const TrainingOptions& options);
  FoundCut found_cut(const ForwardPlaces& places, const UpdatesOf& updates, Value loss,
                     const TrainingOptions& options) const;
  FoundCut tried_cuts(const CutRequest& request, const FeedTypes& feeds, const TrainingOptions& options) const;
  /// What else helps where no cut fits.
  std::string other_way(const TrainingOptions& options) const;
  /// A cut that does not fit: what it takes in device memory, without and, where that is less, with offloading.
  struct Misfit {
    std::size_t num_sections = 1, kept_bytes = 0, variables_bytes = 0;
    std::optional<std::size_t> offloaded_bytes{};
    bool is_enough = true;  ///< so much is known to do when offloaded

    std::size_t least() const { return offloaded_bytes.value_or(kept_bytes); }
  };
  std::vector<FoundCut> cuts_of_kinds(Engine& engine, const Signature& fed, const CutRequest& request,
                                      const std::string& which,
                                      const std::function<FoundCut(PlanningTools&)>& search) const;
  std::optional<Misfit> misfit_of(Engine& engine, const Signature& signature, const CutRequest& request,
                                  const FoundCut& found, const TrainingOptions& options) const;
  [[noreturn]] void throw_misfit(const Engine& engine, const Misfit& misfit, const TrainingOptions& options) const;
  FeedTypes feeds_of_cycles() const;
  void check_new_section(const std::string& name) const;
  void check_can_train() const;
  void check_whole(const char* call) const;
  void check_training(Value trained, const TrainingOptions& options) const;
  void check_prepared(const char* call) const;
  void map_graph() const;
  void check_not_swapped() const;
  std::vector<SectionTraining> count_training() const;
  std::vector<bool> counted_nodes() const;
  static RunRequest executed(const std::vector<CycleFetch>& fetches, const std::vector<Operation>& training);
  CycleRequest request_for(const ConcreteGraph& graph, const std::vector<CycleFetch>& fetches,
                           const std::vector<Operation>& training) const;
  std::vector<Value> with_summaries(std::vector<Value> fetches) const;
  void check_session(const Engine& engine) const;
  std::vector<CycleFetch> place_fetches(const Engine& engine, const std::vector<Value>& fetches) const;
  Executable& cycle_program(Engine& engine, const std::vector<CycleFetch>& fetches, const Signature& fed);
  Engine::PlannedProgram fullest_cycle(Engine& engine, const std::vector<CycleFetch>& fetches, const Signature& fed);
  Executable& compiled_cycle(Engine& engine, const std::vector<CycleFetch>& fetches, const Signature& signature);
  ProgramKey key_of(const char* kind) const;
  HeldValues held_values() const;
  const std::string& held_key() const;
  void note_held_choice() const;
  ExecuteOptions execute_options(const CycleOptions& options) const { return {verbose_, options.verbose_timing}; }
  std::vector<CycleFetch> place_backward_fetches(const Engine& engine,
                                                 const std::vector<std::vector<Value>>& fetches) const;
  Executable& backward_program(Engine& engine, const ForwardHalf& begun, const std::vector<CycleFetch>& fetches);
  void count_runs(const Program& program, StepIndex first, StepIndex last);
  void forget_next_cycle_choices();

  Graph* graph_;
  GraphScope claim_;
  OneAtATime one_at_a_time_;
  std::vector<std::unique_ptr<GraphSection>> sections_;
  GraphSection* open_ = nullptr;
  /// What place_cuts has been asked for.
  struct PlacedCuts {
    PlaceCutsOptions options;
    Where at{};
  };
  std::optional<PlacedCuts> cuts_;
  std::string cut_note_;  // of the cut that was placed
  UpdateList training_;
  Updates updates_;
  Value loss_{};  // invalid when gradients were given
  Where prepared_at_{};
  bool verbose_ = false;
  bool keep_summaries_ = false;
  bool prepared_ = false;
  SectionOptions default_options_;
  OptionsSource default_source_;
  std::optional<Profile> profile_;
  int num_choices_ = 0;     // of policies, profiles and updates: programs of others do not serve
  mutable SectionMap map_;  // of the graph as it was when last looked at
  mutable std::uint64_t mapped_generation_ = 0;
  mutable std::vector<SectionBoundary> boundaries_;
  mutable std::vector<std::vector<Operation>> section_training_;
  mutable std::unordered_map<Value, SectionIndex> evaluated_in_;  // by map_, of values that have been fetched
  mutable std::optional<std::string> held_key_;                   // what sections hold by choice, once it is asked for
  mutable bool may_have_next_ = false;                            // a choice for the next cycle alone
  std::vector<SectionRuns> runs_;
  std::vector<GradientSummary> summaries_;
  std::shared_ptr<const int> identity_ = std::make_shared<const int>();  // of this manager, as long as anybody asks
};

}  // namespace sectionflow
