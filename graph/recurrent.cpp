#include "graph/recurrent.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/nodes/layout.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// What the two kinds of layers have in common. `rank` is that of x: 2 of a step, 3 of a sequence.
struct RecurrentCall {
  const char* layer;
  Value x;
  int rank;
  std::int64_t features;
  int gates;
  const std::string& name;

  std::string label() const { return text_of(layer, " '", name, "'"); }
  std::int64_t channels() const { return x.shape()[-1]; }
  std::int64_t width() const { return features * gates; }
};

template <class Options>
RecurrentCall call_of(const char* layer, Value x, int rank, int gates, const Options& options) {
  const RecurrentCall call{layer, x, rank, options.features, gates, options.name};
  const std::string label = call.label();
  check_layer_input(x, layer, options.name);
  SF_CHECK(options.features > 0, ArgumentError, label, ": features is ", options.features, "; wanted > 0");
  (void)checked_multiply(options.features, gates, label);
  SF_CHECK(rank == 3 || !options.reverse, ArgumentError, label, ": reverse is true; wanted it of a sequence alone");
  const Shape& shape = x.shape();
  SF_CHECK(shape.rank() == rank && shape[-1] > 0, ShapeError, label, " got ", shape, "; wanted ",
           rank == 3 ? "[N, T, C] with T and C known" : "[N, C] with C known",
           hint(rank == 3 ? "lstm_cell and gru_cell take a step, [N, C]" : "lstm and gru take a sequence, [N, T, C]"));
  SF_CHECK(rank == 2 || shape[1] > 0, ShapeError, label, " got ", shape,
           "; wanted [N, T, C] with a known number of steps, one at least", hint("pad sequences to one length"));
  return call;
}

/// Throws: ArgumentError, ShapeError for a state that does not go with x.
void check_state(const RecurrentCall& call, const char* role, Value state) {
  SF_CHECK(state.valid(), ArgumentError, call.label(), ": the state has no ", role,
           "; wanted output and cell, or neither for zeros");
  const TensorType wanted{state.dtype(), {call.x.shape()[0], call.features}};
  SF_CHECK(is_f32_or_bf16(state.dtype()) && may_agree(state.type(), wanted), ShapeError, call.label(), ": the state's ",
           role, " is ", state.type().text(), "; wanted f32 or bf16 ", wanted.shape);
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

/// a kernel + bias, or without where it is invalid.
Value affine(Value a, Value kernel, Value bias) {
  const Value product = matmul(a, kernel);
  return bias.valid() ? bias_add(product, bias) : product;
}

/// Zeros [N, H], as many as rows of `like` [N, ...].
Value zero_state(Value like, std::int64_t features) {
  const Value rows = slice(like, {.begin = {0, 0}, .size = {-1, features}});
  return broadcast_like(fill(like.graph(), {}, 0, like.dtype(), "zero"), rows);
}

/// x [N, T, C] by steps, [N, C] each.
std::vector<Value> steps_of(Value x) {
  std::vector<Value> steps = split(x, static_cast<int>(std::min<std::int64_t>(x.shape()[1], INT32_MAX)), 1);
  for (Value& step : steps) step = reshape(step, {x.shape()[0], x.shape()[2]});
  return steps;
}

/// The sequence of what `next` gives for each step's product of x, in the order of x. `project` makes that product.
template <class Project, class Next>
Value over_steps(Value x, bool at_once, bool reverse, Project&& project, Next&& next) {
  std::vector<Value> steps = at_once ? steps_of(project(x)) : steps_of(x);
  if (reverse) std::reverse(steps.begin(), steps.end());
  std::vector<Value> outputs;
  for (const Value& step : steps) {
    const auto names = x.graph().scope("step");
    outputs.push_back(next(at_once ? step : project(step)));
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  return stack(outputs, 1);
}

// ---- LSTM.

struct LstmWeights {
  Value input_kernel, state_kernel, bias{};
};

/// 1 for the second quarter, the forget gate, and 0 for the others.
Value remembering(const InitializerRequest& request) {
  const std::int64_t gate = request.shape[0] / 4;
  const auto part = [&](std::int64_t length, double value) {
    return fill(request.graph, {length}, value, Dtype::f32, "initial_value");
  };
  return concat({part(gate, 0), part(gate, 1), part(2 * gate, 0)}, 0);
}

RecurrentCall check_lstm(const char* layer, Value x, int rank, const LstmState& state, const LstmOptions& options) {
  RecurrentCall call = call_of(layer, x, rank, 4, options);
  if (state.valid()) {
    check_state(call, "output", state.output);
    check_state(call, "cell", state.cell);
  }
  return call;
}

LstmWeights lstm_weights(const RecurrentCall& call, const LstmOptions& options, Dtype dtype) {
  LstmWeights weights{.input_kernel = weight(call, "input_kernel", options.input_initializer, call.channels(), dtype),
                      .state_kernel = weight(call, "state_kernel", options.state_initializer, call.features, dtype)};
  if (options.bias) {
    weights.bias = bias_weight(call, "bias", options.bias_initializer ? options.bias_initializer : remembering, dtype);
  }
  return weights;
}

/// `of_x`: x input_kernel + bias, [N, 4 H].
LstmState lstm_step(Value of_x, LstmState state, Value state_kernel) {
  const std::vector<Value> gates = split(of_x + matmul(state.output, state_kernel), 4, -1);
  const Value cell = sigmoid(gates[1]) * state.cell + sigmoid(gates[0]) * tanh(gates[2]);
  return {.output = sigmoid(gates[3]) * tanh(cell), .cell = cell};
}

LstmState lstm_start(Value of_x, const LstmState& state, std::int64_t features) {
  if (state.valid()) return {in_dtype(state.output, of_x.dtype()), in_dtype(state.cell, of_x.dtype())};
  const Value zero = zero_state(of_x, features);
  return {zero, zero};
}

/// Of a step and of a sequence, of which all else is alike.
std::vector<Value> with_state(Value x, std::initializer_list<Value> state) {
  std::vector<Value> inputs = {x};
  std::copy_if(state.begin(), state.end(), std::back_inserter(inputs), [](Value value) { return value.valid(); });
  return inputs;
}

// ---- GRU.

struct GruWeights {
  Value input_kernel, state_kernel, input_bias{}, state_bias{};
};

RecurrentCall check_gru(const char* layer, Value x, int rank, Value state, const GruOptions& options) {
  RecurrentCall call = call_of(layer, x, rank, 3, options);
  if (state.valid()) check_state(call, "output", state);
  return call;
}

GruWeights gru_weights(const RecurrentCall& call, const GruOptions& options, Dtype dtype) {
  GruWeights weights{.input_kernel = weight(call, "input_kernel", options.input_initializer, call.channels(), dtype),
                     .state_kernel = weight(call, "state_kernel", options.state_initializer, call.features, dtype)};
  if (options.bias) {
    weights.input_bias = bias_weight(call, "input_bias", options.bias_initializer, dtype);
    weights.state_bias = bias_weight(call, "state_bias", options.bias_initializer, dtype);
  }
  return weights;
}

/// `of_x`: x input_kernel + input_bias, [N, 3 H].
Value gru_step(Value of_x, Value state, const GruWeights& weights) {
  const std::vector<Value> x = split(of_x, 3, -1),
                           h = split(affine(state, weights.state_kernel, weights.state_bias), 3, -1);
  const Value reset = sigmoid(x[0] + h[0]), keep = sigmoid(x[1] + h[1]);
  const Value fresh = tanh(x[2] + reset * h[2]);
  return fresh + keep * (state - fresh);
}

Value gru_start(Value of_x, Value state, std::int64_t features) {
  return state.valid() ? in_dtype(state, of_x.dtype()) : zero_state(of_x, features);
}

}  // namespace

LstmState lstm_cell(Value x, LstmState state, const LstmOptions& options, Where where) {
  return x.graph().build_at(where, with_state(x, {state.output, state.cell}), [&] {
    const RecurrentCall call = check_lstm("lstm_cell", x, 2, state, options);
    const auto names = x.graph().scope(options.name);
    const Value input = in_layer_dtype(x);
    const LstmWeights weights = lstm_weights(call, options, input.dtype());
    const Value of_x = affine(input, weights.input_kernel, weights.bias);
    return lstm_step(of_x, lstm_start(of_x, state, options.features), weights.state_kernel);
  });
}

LstmResult lstm(Value x, LstmState state, const LstmOptions& options, Where where) {
  return x.graph().build_at(where, with_state(x, {state.output, state.cell}), [&] {
    const RecurrentCall call = check_lstm("lstm", x, 3, state, options);
    const auto names = x.graph().scope(options.name);
    const Value input = in_layer_dtype(x);
    const LstmWeights weights = lstm_weights(call, options, input.dtype());
    LstmState last = state;
    bool is_first = true;
    const auto project = [&](Value of) { return affine(of, weights.input_kernel, weights.bias); };
    const Value outputs = over_steps(input, options.inputs_at_once, options.reverse, project, [&](Value of_x) {
      if (std::exchange(is_first, false)) last = lstm_start(of_x, state, options.features);
      last = lstm_step(of_x, last, weights.state_kernel);
      return last.output;
    });
    return LstmResult{outputs, last};
  });
}
LstmResult lstm(Value x, const LstmOptions& options, Where where) {
  return lstm(x, LstmState{}, options, where);
}

Value gru_cell(Value x, Value state, const GruOptions& options, Where where) {
  return x.graph().build_at(where, with_state(x, {state}), [&] {
    const RecurrentCall call = check_gru("gru_cell", x, 2, state, options);
    const auto names = x.graph().scope(options.name);
    const Value input = in_layer_dtype(x);
    const GruWeights weights = gru_weights(call, options, input.dtype());
    const Value of_x = affine(input, weights.input_kernel, weights.input_bias);
    return gru_step(of_x, gru_start(of_x, state, options.features), weights);
  });
}

GruResult gru(Value x, Value state, const GruOptions& options, Where where) {
  return x.graph().build_at(where, with_state(x, {state}), [&] {
    const RecurrentCall call = check_gru("gru", x, 3, state, options);
    const auto names = x.graph().scope(options.name);
    const Value input = in_layer_dtype(x);
    const GruWeights weights = gru_weights(call, options, input.dtype());
    Value last = state;
    bool is_first = true;
    const auto project = [&](Value of) { return affine(of, weights.input_kernel, weights.input_bias); };
    const Value outputs = over_steps(input, options.inputs_at_once, options.reverse, project, [&](Value of_x) {
      if (std::exchange(is_first, false)) last = gru_start(of_x, state, options.features);
      last = gru_step(of_x, last, weights);
      return last;
    });
    return GruResult{outputs, last};
  });
}
GruResult gru(Value x, const GruOptions& options, Where where) {
  return gru(x, Value(), options, where);
}

}  // namespace sectionflow
