#include "graph/ops/lstm_step.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/lstm_step.h"
#include "graph/nodes/unary.h"
#include "graph/ops/parts.h"

namespace sectionflow {
namespace {

// Outputs: output, cell', gates.
std::vector<Value> lstm_step_gradient(const GradientRequest& r) {
  const Value gates = r.node.output(2), cell = r.input(1), cell_after = r.node.output(1);
  const auto or_zeros = [&](std::size_t output) {
    const Value gradient = r.output_gradients[output];
    return gradient.valid() ? gradient : full_like(cell, 0);
  };
  LstmStepGradients g = lstm_step_grad(or_zeros(0), or_zeros(1), gates, cell, cell_after);
  // Only gradients of gradients reach the gates.
  if (const Value dgates = r.output_gradients[2]; dgates.valid()) {
    const std::vector<Value> d = split(dgates, 4, -1), y = split(gates, 4, -1);
    g.dsums = g.dsums + concat({sigmoid_grad(d[0], y[0]), sigmoid_grad(d[1], y[1]), tanh_grad(d[2], y[2]),
                                sigmoid_grad(d[3], y[3])},
                               -1);
  }
  return {g.dsums, g.dcell};
}

// With (i, f, g, o) the gates, t = tanh(cell') and m = dcell' + doutput o (1 - t^2), the gradient of cell':
//   dsums = (m g i(1 - i), m cell f(1 - f), m i (1 - g^2), doutput t o(1 - o)),  dcell = m f.
// Below, (s_i, s_f, s_g, s_o) and e are the gradients of these, and `of_m` that of m.
std::vector<Value> lstm_step_grad_gradient(const GradientRequest& r) {
  const Value doutput = r.input(0), cell = r.input(3), t = tanh(r.input(4));
  const std::vector<Value> gates = split(r.input(2), 4, -1);
  const Value i = gates[0], f = gates[1], g = gates[2], o = gates[3];
  const Value s = r.output_gradients[0].valid() ? r.output_gradients[0] : full_like(r.input(2), 0);
  const Value e = r.output_gradients[1].valid() ? r.output_gradients[1] : full_like(cell, 0);
  const std::vector<Value> parts = split(s, 4, -1);
  const Value s_i = parts[0], s_f = parts[1], s_g = parts[2], s_o = parts[3];
  const auto of_sigmoid = [](Value y) { return y * (1.0F - y); };
  const auto of_tanh = [](Value y) { return 1.0F - square(y); };

  const Value m = r.input(1) + doutput * o * of_tanh(t);
  const Value of_m = s_i * g * of_sigmoid(i) + s_f * cell * of_sigmoid(f) + s_g * i * of_tanh(g) + e * f;
  const Value through_output = s_o * of_sigmoid(o);
  const Value of_i = m * (s_i * g * (1.0F - i * 2.0F) + s_g * of_tanh(g));
  const Value of_f = m * (s_f * cell * (1.0F - f * 2.0F) + e);
  const Value of_g = m * (s_i * of_sigmoid(i) - s_g * i * g * 2.0F);
  const Value of_o = doutput * (s_o * t * (1.0F - o * 2.0F) + of_m * of_tanh(t));
  const Value of_t = doutput * (through_output - of_m * o * t * 2.0F);
  return {of_m * o * of_tanh(t) + through_output * t, of_m, concat({of_i, of_f, of_g, of_o}, -1),
          m * s_f * of_sigmoid(f), of_t * of_tanh(t)};
}

}  // namespace

void add_lstm_step_gradients(GradientRegistry& registry) {
  registry.add("lstm_step", lstm_step_gradient);
  registry.add("lstm_step_grad", lstm_step_grad_gradient);
}

}  // namespace sectionflow
