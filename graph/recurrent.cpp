#include "graph/recurrent.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/functions.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/matmul.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/layout.h"
#include "graph/ops/lstm_step.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// What goes from step to step, each [N, H]: the output first, then an LSTM's cell.
using RecurrentState = std::vector<Value>;

/// What a layer computes with; an LSTM has no state_bias.
struct RecurrentWeights {
  Value input_kernel, state_kernel, input_bias{}, state_bias{};
};

/// What tells one kind of layers from the other.
struct RecurrentKind {
  int gates;
  std::size_t state_parts;
  /// The next state. `of_x`: x input_kernel + input_bias, [N, gates H].
  RecurrentState (*step)(Value of_x, const RecurrentState& state, const RecurrentWeights& weights);
};

/// One call of a layer. `rank` is that of x: 2 of a step, 3 of a sequence.
struct RecurrentCall {
  const char* layer;
  const RecurrentKind& kind;
  Value x;
  int rank;
  RecurrentState given;  ///< empty: zeros
  std::int64_t features;
  const std::string& name;

  std::string label() const { return text_of(layer, " '", name, "'"); }
  std::int64_t channels() const { return x.shape()[-1]; }
  std::int64_t width() const { return features * kind.gates; }
};

/// "output" or "cell".
const char* state_role(std::size_t state_part) {
  return state_part == 0 ? "output" : "cell";
}

/// Throws: ArgumentError, ShapeError for a state that does not go with x.
void check_state(const RecurrentCall& call) {
  for (std::size_t part = 0; part < call.given.size(); ++part) {
    const Value state = call.given[part];
    SF_CHECK(state.valid(), ArgumentError, call.label(), ": the state has no ", state_role(part),
             "; wanted output and cell, or neither for zeros");
    const TensorType wanted{state.dtype(), {call.x.shape()[0], call.features}};
    SF_CHECK(is_f32_or_bf16(state.dtype()) && may_agree(state.type(), wanted), ShapeError, call.label(),
             ": the state's ", state_role(part), " is ", state.type().text(), "; wanted f32 or bf16 ", wanted.shape);
  }
}

/// Throws: ArgumentError, ShapeError for lengths that do not go with x.
void check_lengths(const std::string& label, Value x, int rank, Value lengths) {
  if (!lengths.valid()) return;
  SF_CHECK(rank == 3, ArgumentError, label, ": lengths are given; wanted them of a sequence alone");
  const TensorType wanted{lengths.dtype(), {x.shape()[0]}};
  SF_CHECK(lengths.dtype() == Dtype::i32 || lengths.dtype() == Dtype::i64, ArgumentError, label, ": lengths are ",
           lengths.type().text(), "; wanted i32 or i64", hint("cast them"));
  SF_CHECK(may_agree(lengths.type(), wanted), ShapeError, label, ": lengths are ", lengths.type().text(), "; wanted ",
           wanted.shape);
}

template <class Options>
RecurrentCall checked_call(const char* layer, const RecurrentKind& kind, Value x, int rank, RecurrentState given,
                           const Options& options) {
  RecurrentCall call{layer, kind, x, rank, std::move(given), options.features, options.name};
  const std::string label = call.label();
  check_layer_input(x, layer, options.name);
  SF_CHECK(options.features > 0, ArgumentError, label, ": features is ", options.features, "; wanted > 0");
  (void)checked_multiply(options.features, kind.gates, label);
  SF_CHECK(rank == 3 || !options.reverse, ArgumentError, label, ": reverse is true; wanted it of a sequence alone");
  const Shape& shape = x.shape();
  SF_CHECK(shape.rank() == rank && shape[-1] > 0, ShapeError, label, " got ", shape, "; wanted ",
           rank == 3 ? "[N, T, C] with T and C known" : "[N, C] with C known",
           hint(rank == 3 ? "lstm_cell and gru_cell take a step, [N, C]" : "lstm and gru take a sequence, [N, T, C]"));
  check_lengths(label, x, rank, options.lengths);
  SF_CHECK(rank == 2 || shape[1] > 0, ShapeError, label, " got ", shape,
           "; wanted [N, T, C] with a known number of steps, one at least", hint("pad sequences to one length"));
  check_state(call);
  return call;
}

/// A variable of the layer, in the dtype that it computes in. `rows` is what each gate's number sums over.
Value weight(const RecurrentCall& call, const char* name, const Initializer& initializer, std::int64_t rows,
             Dtype dtype) {
  const auto fan_in = static_cast<double>(rows), fan_out = static_cast<double>(call.features);
  return in_dtype(parameter(name, initializer, {call.x.graph(), {rows, call.width()}, fan_in, fan_out}), dtype);
}
Value bias_weight(const RecurrentCall& call, const char* name, const Initializer& initializer, Dtype dtype) {
  const auto fan_in = static_cast<double>(call.channels()), fan_out = static_cast<double>(call.features);
  return in_dtype(parameter(name, initializer, {call.x.graph(), {call.width()}, fan_in, fan_out}), dtype);
}
template <class Options>
RecurrentWeights kernels_of(const RecurrentCall& call, const Options& options, Dtype dtype) {
  return {.input_kernel = weight(call, "input_kernel", options.input_initializer, call.channels(), dtype),
          .state_kernel = weight(call, "state_kernel", options.state_initializer, call.features, dtype)};
}

/// a kernel + bias, or without where it is invalid.
Value affine(Value a, Value kernel, Value bias) {
  const Value product = matmul(a, kernel);
  return bias.valid() ? bias_add(product, bias) : product;
}

/// x + a kernel. In f32 the product is added as it is computed; in bf16 it is rounded before.
Value plus_product(Value x, Value a, Value kernel) {
  return x.dtype() == Dtype::f32 ? add_matmul(x, a, kernel) : x + matmul(a, kernel);
}

/// Zeros [N, H], as many as rows of `like` [N, ...].
Value zero_state(Value like, std::int64_t features) {
  const Value rows = slice(like, {.begin = {0, 0}, .size = {-1, features}});
  return broadcast_like(fill(like.graph(), {}, 0, like.dtype(), "zero"), rows);
}

/// The state before the first step, in the dtype of `of_x` [N, ...] and held to its rows, which the feed may decide.
RecurrentState first_state(const RecurrentCall& call, Value of_x, const RecurrentWeights& weights) {
  if (call.given.empty()) return RecurrentState(call.kind.state_parts, zero_state(of_x, call.features));
  RecurrentState state;
  for (const Value given : call.given) {
    Value first = in_dtype(given, of_x.dtype());
    const std::string of_state = text_of(call.label(), ": of the state's ", state_role(state.size()));
    if (first.shape()[0] == kDynamic || of_x.shape()[0] == kDynamic) {
      first = same_size(first, of_x, {.what = of_state + " and x, N"});
    }
    if (first.shape()[1] == kDynamic) {
      first = same_size(first, weights.state_kernel, {.axis = 1, .what = of_state + " and the layer, H"});
    }
    state.push_back(first);
  }
  return state;
}

RecurrentState next_state(const RecurrentCall& call, Value x, const RecurrentWeights& weights) {
  const Value of_x = affine(x, weights.input_kernel, weights.input_bias);
  return call.kind.step(of_x, first_state(call, of_x, weights), weights);
}

/// x, whose N, if it is not known, is held to what a state or lengths know.
Value with_known_examples(const RecurrentCall& call, Value x, Value lengths) {
  std::vector<Value> others = call.given;
  if (lengths.valid()) others.push_back(lengths);
  for (const Value& other : others) {
    if (x.shape()[0] != kDynamic || other.shape()[0] == kDynamic) continue;
    const bool is_state = !lengths.valid() || other != lengths;
    x = same_size(x, other, {.what = text_of(call.label(), ": of x and ", is_state ? "the state" : "lengths", ", N")});
  }
  return x;
}

/// x [N, T, C] by steps, [N, C] each.
std::vector<Value> steps_of(Value x) {
  std::vector<Value> steps = split(x, static_cast<int>(std::min<std::int64_t>(x.shape()[1], INT32_MAX)), 1);
  for (Value& step : steps) step = reshape(step, {x.shape()[0], x.shape()[2]});
  return steps;
}

/// Which examples have each step, boolean [N, 1]; none where all have all.
std::vector<Value> present_at(const RecurrentCall& call, Value x, Value lengths) {
  if (!lengths.valid()) return {};
  if (lengths.shape()[0] == kDynamic || x.shape()[0] == kDynamic) {
    lengths = same_size(lengths, x, {.what = call.label() + ": of lengths and x, N"});
  }
  const std::int64_t steps = call.x.shape()[1];
  return split(sequence_mask(lengths, steps), static_cast<int>(std::min<std::int64_t>(steps, INT32_MAX)), 1);
}

/// All steps of x [N, T, C].
struct StepResults {
  Value outputs;
  RecurrentState last;
};
template <class Options>
StepResults all_steps(const RecurrentCall& call, Value x, const RecurrentWeights& weights, const Options& options) {
  const auto project = [&](Value of) { return affine(of, weights.input_kernel, weights.input_bias); };
  std::vector<Value> steps = options.inputs_at_once ? steps_of(project(x)) : steps_of(x);
  std::vector<Value> present = present_at(call, x, options.lengths);
  if (options.reverse) {
    std::reverse(steps.begin(), steps.end());
    std::reverse(present.begin(), present.end());
  }
  RecurrentState state;
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto names = x.graph().scope("step");
    const Value of_x = options.inputs_at_once ? steps[i] : project(steps[i]);
    if (state.empty()) state = first_state(call, of_x, weights);
    RecurrentState next = call.kind.step(of_x, state, weights);
    Value output = next[0];
    if (!present.empty()) {
      for (std::size_t part = 0; part < next.size(); ++part) next[part] = select(present[i], next[part], state[part]);
      output = select(present[i], output, fill(x.graph(), {}, 0, output.dtype(), "zero"));
    }
    state = std::move(next);
    outputs.push_back(output);
  }
  if (options.reverse) std::reverse(outputs.begin(), outputs.end());
  return {stack(outputs, 1), state};
}

// ---- LSTM.

/// 1 for the second quarter, the forget gate, and 0 for the others.
Value remembering(const InitializerRequest& request) {
  const std::int64_t gate = request.shape[0] / 4;
  const auto part = [&](std::int64_t length, double value) {
    return fill(request.graph, {length}, value, Dtype::f32, "initial_value");
  };
  return concat({part(gate, 0), part(gate, 1), part(2 * gate, 0)}, 0);
}

RecurrentState given_state(const LstmState& state) {
  return state.valid() ? RecurrentState{state.output, state.cell} : RecurrentState{};
}

RecurrentWeights weights_of(const RecurrentCall& call, const LstmOptions& options, Dtype dtype) {
  RecurrentWeights weights = kernels_of(call, options, dtype);
  if (options.bias) {
    const Initializer& initializer = options.bias_initializer ? options.bias_initializer : remembering;
    weights.input_bias = bias_weight(call, "bias", initializer, dtype);
  }
  return weights;
}

RecurrentState next_of_lstm(Value of_x, const RecurrentState& state, const RecurrentWeights& weights) {
  const LstmStep next = lstm_step(plus_product(of_x, state[0], weights.state_kernel), state[1]);
  return {next.output, next.cell};
}
constexpr RecurrentKind kLstm{.gates = 4, .state_parts = 2, .step = next_of_lstm};

// ---- GRU.

RecurrentState given_state(Value state) {
  return state.valid() ? RecurrentState{state} : RecurrentState{};
}

RecurrentWeights weights_of(const RecurrentCall& call, const GruOptions& options, Dtype dtype) {
  RecurrentWeights weights = kernels_of(call, options, dtype);
  if (options.bias) {
    weights.input_bias = bias_weight(call, "input_bias", options.bias_initializer, dtype);
    weights.state_bias = bias_weight(call, "state_bias", options.bias_initializer, dtype);
  }
  return weights;
}

RecurrentState next_of_gru(Value of_x, const RecurrentState& state, const RecurrentWeights& weights) {
  const std::vector<Value> x = split(of_x, 3, -1),
                           h = split(affine(state[0], weights.state_kernel, weights.state_bias), 3, -1);
  const Value reset = sigmoid(x[0] + h[0]), keep = sigmoid(x[1] + h[1]);
  const Value fresh = tanh(x[2] + reset * h[2]);
  return {fresh + keep * (state[0] - fresh)};
}
constexpr RecurrentKind kGru{.gates = 3, .state_parts = 1, .step = next_of_gru};

// ---- Calls.

/// What `run(call, x, weights)` gives for a call that is none to refuse, in its names.
template <class Options, class Run>
auto called(const char* layer, const RecurrentKind& kind, Value x, int rank, const RecurrentState& given,
            const Options& options, Where where, const Run& run) {
  std::vector<Value> inputs = {x, options.lengths};
  inputs.insert(inputs.begin() + 1, given.begin(), given.end());
  std::erase_if(inputs, [](Value value) { return !value.valid(); });
  return x.graph().build_at(where, inputs, [&] {
    const RecurrentCall call = checked_call(layer, kind, x, rank, given, options);
    const auto names = x.graph().scope(options.name);
    const Value input = with_known_examples(call, in_layer_dtype(x), options.lengths);
    return run(call, input, weights_of(call, options, input.dtype()));
  });
}
template <class Options>
StepResults sequence(const char* layer, const RecurrentKind& kind, Value x, const RecurrentState& given,
                     const Options& options, Where where) {
  return called(layer, kind, x, 3, given, options, where,
                [&](const RecurrentCall& call, Value input, const RecurrentWeights& weights) {
                  return all_steps(call, input, weights, options);
                });
}

}  // namespace

LstmState lstm_cell(Value x, LstmState state, const LstmOptions& options, Where where) {
  const RecurrentState next = called("lstm_cell", kLstm, x, 2, given_state(state), options, where, next_state);
  return {.output = next[0], .cell = next[1]};
}

LstmResult lstm(Value x, LstmState state, const LstmOptions& options, Where where) {
  const auto [outputs, last] = sequence("lstm", kLstm, x, given_state(state), options, where);
  return {outputs, {.output = last[0], .cell = last[1]}};
}
LstmResult lstm(Value x, const LstmOptions& options, Where where) {
  return lstm(x, LstmState{}, options, where);
}

Value gru_cell(Value x, Value state, const GruOptions& options, Where where) {
  return called("gru_cell", kGru, x, 2, given_state(state), options, where, next_state)[0];
}

GruResult gru(Value x, Value state, const GruOptions& options, Where where) {
  const auto [outputs, last] = sequence("gru", kGru, x, given_state(state), options, where);
  return {outputs, last[0]};
}
GruResult gru(Value x, const GruOptions& options, Where where) {
  return gru(x, Value(), options, where);
}

}  // namespace sectionflow
