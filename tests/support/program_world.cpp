#include "tests/support/program_world.h"

#include <algorithm>
#include <map>

#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/support/dice.h"
#include "tests/support/layer_kinds.h"

namespace sectionflow::testing {
namespace {

template <class Item>
const Item& counted_round(const std::vector<Item>& items, int number) {
  return items.at(static_cast<std::size_t>(number) % items.size());
}

bool is_float(Value value) {
  return value.dtype() == Dtype::f32 || value.dtype() == Dtype::bf16;
}

}  // namespace

ProgramWorld::ProgramWorld(const ProgramSpec& spec) : manager_(graph_) {
  const auto before_prepare = [&](const TrainingNet& net) {
    net_ = net;
    collect_values();
    // Variables have to be there before a session is initialised, whenever they are used.
    std::vector<ExtraSpec> all = spec.extras;
    for (const CallSpec& call : spec.calls) {
      if (call.kind == CallKind::prepare) all.push_back(late_extra(call));
    }
    for (const ExtraSpec& extra : all) states_.push_back(new_state(extra));
    next_state_ = spec.extras.size();
    for (std::size_t i = 0; i < spec.extras.size(); ++i) add(spec.extras[i], states_[i]);
  };
  net_ = training_case(spec.model, before_prepare).build(graph_, manager_);
}

void ProgramWorld::collect_values() {
  // What is special comes first: other names of tensors, the model's own updates.
  values_.assign(net_.values.rbegin(), net_.values.rend());
  values_.push_back(net_.loss);
  updates_ = graph_.operations(kUpdateOperations);
  for (Operation update : manager_.training_operations()) {
    if (std::find(updates_.begin(), updates_.end(), update) == updates_.end()) updates_.push_back(update);
    const auto& inputs = update.node().inputs();
    for (Value input : inputs) {
      const bool like_variable = input.shape() == inputs.front().shape() && input.dtype() == Dtype::f32;
      if (like_variable && !is_variable(input) && update.node().phase() == Phase::training) gradients_.push_back(input);
    }
  }
  values_.insert(values_.end(), gradients_.begin(), gradients_.end());
  trained_ = graph_.values(kTrainableVariables);
  values_.insert(values_.end(), trained_.begin(), trained_.end());
  values_.push_back(graph_.find("images").output());
  num_model_values_ = values_.size();
}

ExtraSpec ProgramWorld::late_extra(const CallSpec& call) const {
  return {.kind = static_cast<ExtraKind>(call.option % kNumExtraKinds),
          .source = call.fetches,
          .other = call.option / kNumExtraKinds % 20,
          .trains = call.fetches % 5 == 1};
}

Value ProgramWorld::new_state(const ExtraSpec& extra) {
  const auto make = [&](Shape shape, Dtype dtype, double value) {
    return variable("state", fill(graph_, std::move(shape), value, dtype), {.trainable = false});
  };
  if (extra.kind == ExtraKind::count) return make({}, Dtype::i64, 3);
  if (extra.kind == ExtraKind::average) return make(counted_round(trained_, extra.source).shape(), Dtype::f32, 0.5);
  return make({}, Dtype::f32, 0.25);
}

Value ProgramWorld::mean_of(int number) const {
  const auto from_the_back = static_cast<std::size_t>(number - kFromTheBack) % values_.size();
  Value value = number < kFromTheBack ? counted_round(values_, number) : values_[values_.size() - 1 - from_the_back];
  if (!is_float(value)) value = net_.loss;
  return mean(in_f32(value));
}

void ProgramWorld::train(Operation update, const ExtraSpec& extra) {
  graph_.add_to_collection(kUpdateOperations, update);
  if (extra.trains) graph_.add_to_collection(kTrainingOperations, update);
  // What is special comes first.
  updates_.insert(updates_.begin(), update);
}

void ProgramWorld::add(const ExtraSpec& extra, Value state) {
  switch (extra.kind) {
    case ExtraKind::average: {
      const Value is_training = graph_.find("is_training").output();
      return train(update_moving_average(state, counted_round(trained_, extra.source), is_training, 0.7F), extra);
    }
    case ExtraKind::count:
      return train(assign_add(state, fill(graph_, {}, 1, Dtype::i64)), extra);
    case ExtraKind::collect:
      return train(assign_add(state, reduce_sum(counted_round(gradients_, extra.source)) * 0.1F), extra);
    case ExtraKind::copy:
      return train(assign(state, mean_of(extra.source)), extra);
    case ExtraKind::follow: {
      const Operation behind = assign_add(state, mean_of(extra.source) * 0.1F);
      graph_.add_control_edge(counted_round(updates_, extra.other), behind);
      return train(behind, extra);
    }
    case ExtraKind::wait: {
      const Value waiting = mean_of(extra.source) * 1.5F;
      graph_.add_control_edge(counted_round(updates_, extra.other), Operation(waiting));
      values_.push_back(waiting);
      return;
    }
    case ExtraKind::mix: {
      values_.push_back(mean_of(extra.source) * mean_of(extra.other) * float_state(extra.other));
      return;
    }
  }
}

void ProgramWorld::add_late(const CallSpec& call) {
  const Value state = states_.at(next_state_++);
  // An update that there is already counts from here on as one that applies gradients; or there is another.
  if (call.option % 6 == 5) return graph_.add_to_collection(kTrainingOperations, counted_round(updates_, call.fetches));
  add(late_extra(call), state);
}

Value ProgramWorld::derive(const CallSpec& call, bool remembered) {
  const int number = call.option / kDerivations;
  // What was made reads what was made, often enough.
  const std::size_t first = number % 3 == 0 && values_.size() > num_model_values_ ? num_model_values_ : 0;
  Value value = values_[first + static_cast<std::size_t>(number) % (values_.size() - first)];
  if (!is_float(value)) value = net_.loss;
  const Value result = derived(call, value);
  if (remembered) values_.push_back(result);
  return result;
}

Value ProgramWorld::derived(const CallSpec& call, Value value) {
  const Value x = in_f32(value);
  switch (call.option % kDerivations) {
    case 0:
      return x * 3.0F;
    case 1:
      return tanh(x);
    case 2:
      return reshape(value, {-1});
    case 3:
      return mean(x) * mean_of(call.fetches);
    case 4:
      return mean(x) + random_normal(graph_, {}, {.stddev = 0.5F});
    case 5:
      return relu(x * 2.0F - 0.1F) + random_uniform(graph_, {});
    case 6:
      return x * float_state(call.fetches);
    case 7:
      return x * mean_of(call.fetches);
    default:
      return x * mean_of(call.option / 5) * float_state(call.fetches);
  }
}

/// A scalar variable that additions change, or a number where there is none.
Value ProgramWorld::float_state(int number) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Value state = counted_round(states_, number + static_cast<int>(i));
    if (state.type() == TensorType{Dtype::f32, {}}) return state;
  }
  return constant(graph_, 0.5F);
}

bool ProgramWorld::is_forward(Value value) const {
  std::map<const Node*, bool> known;
  const auto forward = [&](const auto& self, const Node& node) -> bool {
    if (node.op().is_variable() || node.op().is_placeholder()) return true;
    const auto found = known.find(&node);
    if (found != known.end()) return found->second;
    bool result = node.phase() == Phase::model && node.op().updated_inputs.empty();
    for (Value input : node.inputs()) result = result && self(self, input.node());
    for (const Node* control : node.control_inputs()) result = result && self(self, *control);
    known[&node] = result;
    return result;
  };
  return forward(forward, value.node());
}

std::vector<Value> ProgramWorld::fetches_of(const CallSpec& call, bool forward_only) const {
  std::vector<Value> drawn;
  const auto draw = [&](Value value) {
    if (!forward_only || is_forward(value)) drawn.push_back(value);
  };
  switch (call.fetches) {
    case kFetchesLoss:
      return {net_.loss};
    case kFetchesTheLatest:
      draw(values_.back());
      return drawn;
    case kFetchesLossAndLatest:
      drawn.push_back(net_.loss);
      draw(values_.back());
      return drawn;
    case kFetchesAllMade:
      for (std::size_t i = num_model_values_; i < values_.size(); ++i) draw(values_[i]);
      return drawn;
    default:
      break;
  }
  Dice dice(static_cast<std::uint64_t>(call.fetches));
  if (dice.chance(60)) drawn.push_back(net_.loss);
  const auto more = dice.between(0, 3);
  for (std::int64_t i = 0; i < more; ++i) draw(counted_round(values_, static_cast<int>(dice.between(0, 9999))));
  return drawn;
}

Value ProgramWorld::variable_of(int number) const {
  return counted_round(graph_.values(kVariables), number);
}

}  // namespace sectionflow::testing
