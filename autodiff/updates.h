#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/update.h"
#include "graph/variable_shards.h"

namespace SF_API sectionflow {

/// Names of variables: `*` stands for any characters, '/' included, `?` for one. "encoder/*", {"*/bias", "*/scale"}.
class NamePatterns {
 public:
  NamePatterns() = default;
  NamePatterns(const char* pattern) : all_{pattern} {}             // NOLINT: `.variables = "head/*"`
  NamePatterns(std::string pattern) : all_{std::move(pattern)} {}  // NOLINT
  NamePatterns(std::initializer_list<std::string> patterns) : all_(patterns) {}
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

/// Variables that are trained alike. Each trained variable is in exactly one group.
struct ParameterGroup {
  NamePatterns variables{};              ///< by their names; empty: all that no other group names
  std::optional<Optimizer> optimizer{};  ///< with slots and step counter of this group's own; none for frozen variables
  /// That of torch.optim's optimiser of the same name. An optimiser that has a weight_decay (AdamW, Lion, Lamb,
  /// Adafactor): decoupled, in the place of its own. Any other: L2, that is weight_decay times the variable is added to
  /// its gradient, after clipping.
  std::optional<float> weight_decay{};
  bool frozen = false;  ///< not trained: no gradients, no slots, no updates
};

/// What is done with gradients on their way to the updates, and what follows these.
struct UpdateOptions {
  std::optional<Value> global_step{};  ///< an i64 scalar variable, incremented once an update
  std::optional<float> clip_norm{};  ///< clip_by_global_norm of the (mean) gradients: holds all of them until the last
  /// The gradients of so many runs are summed in their order, times 1 / micro_batches, and applied in the last of them.
  /// One variable more for each trained one, `<variable>/gradient_sum`.
  int micro_batches = 1;
  /// So many ranks train together, each with batches of its own, in sessions that have a communicator of that size
  /// (SessionOptions::communicator): an update takes the gradients of all, summed in rank order, times 1 / (ranks x
  /// micro_batches), and moving averages take the statistics of all, one rank after the other. All variables then are
  /// those of one process with micro_batches = ranks x micro_batches, bit for bit.
  int ranks = 1;
  /// Where ranks hold what is trained, with the same bits. `sharded`: each rank has room for its shard of each trained
  /// variable, slot and average, 1 / ranks of the elements; a section's variables are gathered just before its runs and
  /// dropped behind, and a gradient is summed where its shard is. `parameter_server`: the same, where the shard of the
  /// server is all of it. `distributed_replicated`: every rank has all of each variable to read, and in shards, or at
  /// a server, are a master copy, slots and averages; behind the updates the variables are set to what that is. All but
  /// `replicated` only with optimisers that go element by element.
  VariableDistribution distribution = VariableDistribution::replicated;
  /// The rank at which variables are. `parameter_server`: none is rank 0; `distributed_replicated`: none is all ranks,
  /// each of which has its shard.
  std::optional<int> server{};
  /// An update in which a gradient is NaN or infinite, or the norm of all is beyond f32, changes no variable, slot,
  /// step or average. Holds all gradients until the last, as clip_norm does.
  bool skip_non_finite = false;
  /// Averages of the trained variables, each taken after the update: `<variable>/average`.
  std::optional<WeightAverageOptions> average{};
};

/// A trained variable and its average.
struct AveragedVariable {
  Value variable;
  Value average;
};

/// A training step: its operations, and what may be fetched or read of it.
struct Updates {
  std::vector<Operation> operations{};           ///< all: targets of Session::run for training the whole graph
  std::vector<GradientAndVariable> gradients{};  ///< as applied, but for L2 decay: means, clipped; a rank's shards
  Value norm{};                                  ///< [] f32, of all gradients before clipping; with either need for it
  Value skipped_updates{};                       ///< [] i64 variable: with skip_non_finite how many have been skipped
  Value micro_batch{};                           ///< [] i64 variable: of this update how many have been taken
  std::vector<AveragedVariable> averages{};

  /// The average of a variable; the variable itself where there is none. For SharedVariables::scope(instead).
  Value average_of(Value variable) const;
};

/// Adds gradients of the loss and the updates by them, of `variables` (empty: of all trainable ones) in groups.
/// Throws: as compute_gradients and apply_gradients; ArgumentError (SF-E032) for groups that overlap, leave a variable
/// out, name none by a pattern or lack an optimiser, SF-E033 for micro_batches below 1, SF-E034 for an average's
/// numbers, SF-E036 for ranks below 1, other ranks than earlier updates of the graph have, or an optimiser
/// that needs all of a variable where ranks hold shards, and for a server that is no rank or that the distribution
/// has no use for. The graph is then unchanged.
Updates training_updates(const std::vector<ParameterGroup>& groups, Value loss, const UpdateOptions& options = {},
                         const std::vector<Value>& variables = {}, Where where = Where::here());
/// The same with one optimiser for all.
Updates training_updates(const Optimizer& optimizer, Value loss, const UpdateOptions& options = {},
                         const std::vector<Value>& variables = {}, Where where = Where::here());
/// The same for gradients that are there already; those of frozen variables are left out.
Updates training_updates(const std::vector<ParameterGroup>& groups, const std::vector<GradientAndVariable>& gradients,
                         const UpdateOptions& options = {}, Where where = Where::here());

/// One of several losses.
struct WeightedLoss {
  Value loss;                ///< [] f32, in any section or outside of all
  ScalarOrValue weight = 1;  ///< a number, or [] f32
};
/// weight0 loss0 + weight1 loss1 + ..., from left to right: what several losses are trained by. A weight that is the
/// number 1 adds no operation, one that is 0 keeps its loss in the graph. Each loss may be fetched beside the sum.
/// Throws: ArgumentError for no losses, ShapeError for one, or a weight, that is no f32 scalar.
Value weighted_sum(const std::vector<WeightedLoss>& losses, Where where = Where::here());

}  // namespace sectionflow
