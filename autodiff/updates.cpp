#include "autodiff/updates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <variant>

#include "autodiff/gradient_buckets.h"
#include "autodiff/optimizer_updates.h"
#include "autodiff/parameter_groups.h"
#include "autodiff/update_distribution.h"
#include "base/error.h"
#include "graph/nodes/reduce.h"
#include "graph/nodes/shards.h"
#include "graph/nodes/update.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"

namespace sectionflow {
namespace {

constexpr const char* kCall = "training_updates";

using Pairs = std::vector<GradientAndVariable>;

using Distribution = VariableDistribution;

void check_options_of(const UpdateOptions& options, const Graph& graph) {
  SF_CHECK_CODE(options.micro_batches >= 1, ArgumentError, ErrorCode::micro_batches, kCall, ": micro_batches is ",
                options.micro_batches, "; wanted 1 or more", hint("1 applies the gradients of each run as they are"));
  SF_CHECK_CODE(options.ranks >= 1 && options.ranks <= kMostRanks, ArgumentError, ErrorCode::ranks, kCall,
                ": ranks is ", options.ranks, "; wanted 1 to ", kMostRanks,
                hint("give it the size() of the sessions' communicator"));
  check_distribution(options, kCall);
  const bool has_updates = !graph.values(kRanks).empty() || !graph.operations(kTrainingOperations).empty();
  const int known = has_updates ? ranks_of(graph) : options.ranks;
  SF_CHECK_CODE(known == options.ranks, ArgumentError, ErrorCode::ranks, kCall, ": ranks is ", options.ranks,
                ", and the graph has updates of ", known, hint("all updates of a graph are of as many ranks"));
  if (has_updates && options.ranks > 1) check_same_distribution(options, graph, kCall);
  if (options.clip_norm) check_max_norm(*options.clip_norm, kCall);
  if (options.average) check_options(*options.average, text_of(kCall, ": average"));
  if (!options.global_step) return;
  const Value step = *options.global_step;
  SF_CHECK(step.valid() && &step.graph() == &graph && is_variable(step) && step.type() == (TensorType{Dtype::i64, {}}),
           ArgumentError, kCall, ": global_step '", step.valid() ? step.name() : "", "' is ",
           step.valid() ? step.type().text() : "nothing", "; wanted a variable i64[] of the same graph");
}

Value whole(Graph& graph, std::int64_t number, std::string_view name) {
  return constant(graph, HostTensor::scalar(number), name);
}

/// Adds what a training step consists of, from the gradients on.
class UpdateBuilder {
 public:
  UpdateBuilder(Graph& graph, const UpdateOptions& options) : graph_(graph), options_(options) {}

  Updates build(const std::vector<ParameterGroup>& groups, const std::vector<std::vector<Value>>& members,
                Pairs gradients) {
    if (options_.ranks > 1) join_ranks();
    for (const auto& [gradient, variable] : gradients) {
      if (has_shards()) shards_[variable] = shard_for(variable);
    }
    if (options_.micro_batches > 1) {
      accumulate(gradients);
    } else if (options_.ranks > 1) {
      reduce(gradients);
    }
    updates_.gradients = std::move(gradients);
    treat(updates_.gradients);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!groups[g].frozen && !members[g].empty()) apply(groups[g], members[g]);
    }
    if (options_.global_step) count(*options_.global_step, conditions_);
    if (options_.average) average(*options_.average);
    if (has_copies()) refresh_copies();
    return std::move(updates_);
  }

 private:
  bool has_shards() const { return options_.distribution != Distribution::replicated && options_.ranks > 1; }
  bool has_copies() const { return has_shards() && options_.distribution == Distribution::distributed_replicated; }
  Value shard_for(Value variable) const {
    return has_copies() ? master_of_copies(variable, holders_) : shard_variable(variable, holders_);
  }
  /// What a rank updates of a trained variable: all of it, or its shard.
  Value held(Value variable) const { return has_shards() ? shards_.at(variable) : variable; }

  /// One of those that happen once an update.
  void add(Operation operation) {
    graph_.add_to_collection(kTrainingOperations, operation);
    updates_.operations.push_back(operation);
  }
  void count(Value counter, const UpdateConditions& conditions) {
    add(conditional_update("assign_add", {counter, fill(graph_, {}, 1, Dtype::i64, "one_update")}, {}, conditions));
  }
  void add_accumulation(Operation operation) {
    graph_.add_to_collection(kAccumulationOperations, operation);
    updates_.operations.push_back(operation);
  }

  /// Has moving averages take the statistics of all ranks, and says how many there are.
  void join_ranks() {
    graph_.add_to_collection(kRanks, whole(graph_, options_.ranks, "ranks"));
    for (Operation update : graph_.operations(kUpdateOperations)) {
      const Operation of_ranks = moving_average_of_ranks(update, options_.ranks);
      if (of_ranks.valid()) graph_.replace_in_collection(kUpdateOperations, update, of_ranks);
    }
  }

  /// What a micro-batch of a rank adds to an update.
  float part() const { return 1.0F / static_cast<float>(std::int64_t{options_.micro_batches} * options_.ranks); }

  /// Turns gradients of a rank into those of all.
  void reduce(Pairs& gradients) {
    sum_over_ranks(gradients, {}, {});
    for (auto& [gradient, variable] : gradients) {
      const auto group = graph_.enter_group(variable.node().group());
      gradient = gradient * part();
    }
  }

  /// Turns gradients of a rank into the sums of all, behind what is in the slots: one for each gradient, or none.
  void sum_over_ranks(Pairs& gradients, const std::vector<Value>& before, Value micro_batch) {
    const int ranks = options_.ranks;
    for (std::size_t i = 0; has_shards() && i < gradients.size(); ++i) {
      auto& [gradient, variable] = gradients[i];
      const auto group = graph_.enter_group(variable.node().group());
      gradient =
          before.empty() ? reduced_shard(held(variable), gradient) : reduced_shard(before[i], gradient, micro_batch);
    }
    if (has_shards()) return;
    for (const std::vector<std::size_t>& bucket : gradient_buckets(gradients)) {
      const auto group = graph_.enter_group(gradients[bucket.front()].variable.node().group());
      std::vector<Value> xs, starts;
      for (const std::size_t i : bucket) {
        xs.push_back(gradients[i].gradient);
        if (!before.empty()) starts.push_back(before[i]);
      }
      const std::vector<Value> sums =
          before.empty() ? all_reduced(xs, ranks) : all_reduced(std::move(starts), xs, micro_batch, ranks);
      for (std::size_t k = 0; k < bucket.size(); ++k) gradients[bucket[k]].gradient = sums[k];
    }
  }

  /// A learning rate that is the same on all ranks: one that is fed is that of the last, whose micro-batch is an
  /// update's last.
  Optimizer of_all_ranks(Optimizer optimizer) {
    RankDifferences differences([](const Node& node) { return node.inputs(); });
    std::visit(
        [&](auto& of_kind) {
          const Value* const rate = of_kind.learning_rate.value();
          if (rate == nullptr || !differences.differs(rate->node())) return;
          Value& known = rates_[*rate];
          if (!known.valid()) known = of_last_rank(*rate, options_.ranks);
          of_kind.learning_rate = known;
        },
        optimizer);
    return optimizer;
  }

  /// Turns gradients of a micro-batch into those of all so far, and has the updates happen in the last.
  void accumulate(Pairs& gradients) {
    const Value index = new_counter(graph_, "micro_batch");
    const Value applies = placeholder(graph_, "last_micro_batch", {}, Dtype::boolean);
    const Value last = whole(graph_, options_.micro_batches - 1, "last_of_update");
    std::vector<Value> before;
    for (const auto& [gradient, variable] : gradients) {
      const auto group = graph_.enter_group(variable.node().group());
      before.push_back(new_slot(held(variable), "gradient_sum"));
    }
    if (options_.ranks > 1) sum_over_ranks(gradients, before, index);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      auto& [gradient, variable] = gradients[i];
      const auto group = graph_.enter_group(variable.node().group());
      if (options_.ranks == 1) gradient = accumulated(before[i], gradient, index);
      // Of no use in the last micro-batch; to leave it out there would take another flag.
      add_accumulation(assign(before[i], gradient));
      gradient = gradient * part();
    }
    const Value next = index + whole(graph_, 1, "one_micro_batch");
    add_accumulation(assign(index, select(equal(index, last), whole(graph_, 0, "first_of_update"), next)));
    for (const Value& value : {index, applies, last}) graph_.add_to_collection(kMicroBatches, value);
    conditions_.condition = applies;
    updates_.micro_batch = index;
  }

  Value norm_of(const Pairs& gradients) const {
    std::vector<Value> all;
    std::vector<std::int64_t> elements;
    for (const auto& [gradient, variable] : gradients) {
      all.push_back(gradient);
      elements.push_back(variable.shape().num_elements());
    }
    return has_shards() ? norm_of_shards(std::move(all), std::move(elements), holders_) : global_norm(std::move(all));
  }

  /// What needs all gradients before the first update.
  void treat(Pairs& gradients) {
    if (!options_.clip_norm && !options_.skip_non_finite) return;
    updates_.norm = norm_of(gradients);
    if (options_.clip_norm) gradients = clipped_to(gradients, updates_.norm, *options_.clip_norm);
    if (!options_.skip_non_finite) return;
    // False for NaN too. No constant is infinite: value checks look at each result.
    const Value largest = constant(graph_, std::numeric_limits<float>::max(), "largest_finite");
    const Value is_finite = less_equal(updates_.norm, largest);
    updates_.skipped_updates = new_counter(graph_, "skipped_updates");
    const Value skipped = select(is_finite, whole(graph_, 0, "none_skipped"), whole(graph_, 1, "one_skipped"));
    add(conditional_update("assign_add", {updates_.skipped_updates, skipped}, {},
                           {.condition = conditions_.condition}));
    conditions_.gate = is_finite;
    // One for all updates, which have a gate behind a condition.
    if (!conditions_.condition.valid()) conditions_.condition = constant(graph_, HostTensor::scalar(true), "always");
  }

  void apply(const ParameterGroup& group, const std::vector<Value>& members) {
    const float decay = added_decay(group);
    Pairs pairs;
    for (const Value& variable : members) {
      const auto& all = updates_.gradients;
      GradientAndVariable pair =
          *std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.variable == variable; });
      pair.variable = held(variable);
      if (decay > 0) {
        const auto section = graph_.enter_group(variable.node().group());
        pair.gradient = pair.gradient + pair.variable * decay;
      }
      pairs.push_back(pair);
    }
    const Optimizer optimizer = options_.ranks > 1 ? of_all_ranks(optimizer_of(group)) : optimizer_of(group);
    for (Operation operation : optimizer_updates(optimizer, pairs, conditions_)) {
      add(operation);
    }
  }

  /// Behind all updates: an average takes what they have made of its variable.
  void average(const WeightAverageOptions& average) {
    const Value taken = new_counter(graph_, "averaged_updates");
    for (const GradientAndVariable& pair : updates_.gradients) {
      const auto group = graph_.enter_group(pair.variable.node().group());
      const std::string name = text_of("/", pair.variable.name(), "/average");
      const Value slot = variable(name, initial_value_of(pair.variable), {.trainable = false});
      const Value held_slot = has_shards() ? shard_variable(slot, holders_) : slot;
      add(conditional_update("average_weights", {held_slot, held(pair.variable), taken}, average, conditions_));
      updates_.averages.push_back({pair.variable, slot});
    }
    count(taken, conditions_);
  }

  /// Behind all that updates the master copies, and has read them.
  void refresh_copies() {
    for (const auto& [gradient, variable] : updates_.gradients) {
      add(refresh_copy(variable, held(variable), conditions_.condition));
    }
  }

  Graph& graph_;
  const UpdateOptions& options_;
  const ShardHolders holders_ = shard_holders(options_);
  std::map<Value, Value> shards_;  // by the variable
  UpdateConditions conditions_{};
  Updates updates_{};
  std::map<Value, Value> rates_;  // those that are fed, as all ranks have them
};

/// Those of members that are trained, in the order of `variables`.
std::vector<Value> trained(const std::vector<ParameterGroup>& groups, const std::vector<std::vector<Value>>& members,
                           const std::vector<Value>& variables) {
  std::vector<Value> result;
  for (const Value& variable : variables) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool is_member = std::find(members[g].begin(), members[g].end(), variable) != members[g].end();
      if (is_member && !groups[g].frozen) result.push_back(variable);
    }
  }
  SF_CHECK_CODE(!result.empty(), ArgumentError, ErrorCode::parameter_group, kCall, ": all of ", variables.size(),
                " variables are frozen", hint("leave a group to train"));
  return result;
}

Updates build(Graph& graph, const std::vector<ParameterGroup>& groups, const std::vector<std::vector<Value>>& members,
              Pairs gradients, const UpdateOptions& options, Where where) {
  check_options_of(options, graph);
  for (const ParameterGroup& group : groups) {
    if (!group.optimizer) continue;
    check_optimizer(*group.optimizer, graph, kCall);
    if (options.distribution != Distribution::replicated) check_sharded(*group.optimizer, kCall);
  }
  return graph.build_at(where, [&] {
    const auto phase = graph.enter_phase(Phase::training);
    const auto outside = graph.enter_group(kNoGroup);
    const auto alone = graph.enter_shared(nullptr);
    return UpdateBuilder(graph, options).build(groups, members, std::move(gradients));
  });
}

}  // namespace

Value Updates::average_of(Value variable) const {
  for (const AveragedVariable& pair : averages) {
    if (pair.variable == variable) return pair.average;
  }
  return variable;
}

Updates training_updates(const std::vector<ParameterGroup>& groups, Value loss, const UpdateOptions& options,
                         const std::vector<Value>& variables, Where where) {
  return call_at(where, [&] {
    Graph& graph = loss.graph();
    const std::vector<Value> all = variables.empty() ? graph.values(kTrainableVariables) : variables;
    for (const Value& variable : all) {
      SF_CHECK(variable.valid() && &variable.graph() == &graph, ArgumentError, kCall, ": variable '",
               variable.valid() ? variable.name() : "", "' does not belong to the graph of the loss '", loss.name(),
               "'");
    }
    if (all.empty()) (void)compute_gradients(loss, all, where);  // which says so
    const auto members = members_of(groups, all, kCall);
    const std::vector<Value> chosen = trained(groups, members, all);
    return graph.all_or_nothing([&] {
      Pairs gradients = compute_gradients(loss, chosen, where);
      check_pairs(gradients, kCall);
      return build(graph, groups, members, std::move(gradients), options, where);
    });
  });
}

Updates training_updates(const Optimizer& optimizer, Value loss, const UpdateOptions& options,
                         const std::vector<Value>& variables, Where where) {
  return training_updates({ParameterGroup{.optimizer = optimizer}}, loss, options, variables, where);
}

Updates training_updates(const std::vector<ParameterGroup>& groups, const std::vector<GradientAndVariable>& gradients,
                         const UpdateOptions& options, Where where) {
  return call_at(where, [&] {
    check_pairs(gradients, kCall);
    std::vector<Value> all;
    for (const GradientAndVariable& pair : gradients) all.push_back(pair.variable);
    const auto members = members_of(groups, all, kCall);
    const std::vector<Value> chosen = trained(groups, members, all);
    Pairs wanted = gradients;
    std::erase_if(wanted, [&](const GradientAndVariable& pair) {
      return std::find(chosen.begin(), chosen.end(), pair.variable) == chosen.end();
    });
    return build(all.front().graph(), groups, members, std::move(wanted), options, where);
  });
}

Value weighted_sum(const std::vector<WeightedLoss>& losses, Where where) {
  SF_CHECK(!losses.empty(), ArgumentError, "weighted_sum got no losses; wanted one at least");
  return losses.front().loss.graph().build_at(where, [&] {
    Value sum;
    for (const auto& [loss, weight] : losses) {
      SF_CHECK(loss.type() == (TensorType{Dtype::f32, {}}), ShapeError, "weighted_sum: loss '", loss.name(), "' is ",
               loss.type().text(), "; wanted f32[]", hint("take mean() of it"));
      SF_CHECK(weight.value() == nullptr || weight.value()->type() == (TensorType{Dtype::f32, {}}), ShapeError,
               "weighted_sum: the weight of loss '", loss.name(), "' is ", weight.value()->type().text(),
               "; wanted a number or f32[]");
      Value part = loss;
      if (weight.value() != nullptr) part = loss * *weight.value();
      if (weight.number() != nullptr && *weight.number() != 1) part = loss * *weight.number();
      sum = sum.valid() ? sum + part : part;
    }
    return sum;
  });
}

}  // namespace sectionflow
