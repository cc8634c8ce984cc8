#include "bench/ops/op_work.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/nodes/pool.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"

namespace sectionflow::bench {
namespace {

double elements(const TensorType& type) {
  return static_cast<double>(type.shape.num_elements());
}

/// Rows of the last axis.
double rows(const TensorType& type) {
  return elements(type) / static_cast<double>(type.shape[-1]);
}

/// A node with its concrete types.
struct TypedNode {
  const Node& node;
  std::vector<TensorType> inputs, outputs;
  Work estimate;  ///< what planners know of it
};

using Flops = std::function<double(const TypedNode&)>;

Flops each_output(double flops) {
  return [=](const TypedNode& n) { return flops * elements(n.outputs[0]); };
}
Flops each_input(double flops) {
  return [=](const TypedNode& n) { return flops * elements(n.inputs[0]); };
}
/// For each element of an input, and for each of its rows.
Flops along_rows(double flops, double flops_a_row, std::size_t input = 0) {
  return [=](const TypedNode& n) { return flops * elements(n.inputs[input]) + flops_a_row * rows(n.inputs[input]); };
}
/// For each element of the first input, and for each channel of another that has one number a channel.
Flops along_channels(double flops, double flops_a_channel, std::size_t channels) {
  return [=](const TypedNode& n) {
    return flops * elements(n.inputs[0]) + flops_a_channel * elements(n.inputs[channels]);
  };
}

double estimated(const TypedNode& n) {
  return n.estimate.flops;
}

double taps(const TypedNode& n) {
  double taps = 1;
  for (std::int64_t size : n.node.options<PoolOptions>().window) taps *= static_cast<double>(size);
  return taps;
}
/// Each window is compared, or added up and divided.
double max_pool_flops(const TypedNode& n) {
  return taps(n) * elements(n.outputs[0]);
}
double average_pool_flops(const TypedNode& n) {
  return (taps(n) + 1) * elements(n.outputs[0]);
}
/// Each dy is divided, and added to each element of its window.
double average_pool_grad_flops(const TypedNode& n) {
  return (taps(n) + 1) * elements(n.inputs[0]);
}

bool is_mean(const TypedNode& n) {
  return n.node.options<ReduceNodeOptions>().reduction == Reduction::mean;
}
double reduce_flops(const TypedNode& n) {
  return elements(n.inputs[0]) + (is_mean(n) ? elements(n.outputs[0]) : 0);
}
double reduce_grad_flops(const TypedNode& n) {
  return is_mean(n) ? elements(n.inputs[0]) : 0;
}
/// Each element is compared and counted, and each dy divided by its count.
double reduce_max_grad_flops(const TypedNode& n) {
  return 2 * elements(n.inputs[1]) + elements(n.inputs[0]);
}

/// Flops by op. Of gradients the first input is dy.
using FlopsByOp = std::map<std::string, Flops>;

void add_products_and_moves(FlopsByOp& k) {
  for (const char* op : {"conv2d", "conv3d", "conv2d_backward_input", "conv3d_backward_input", "conv2d_backward_filter",
                         "conv3d_backward_filter", "conv_transpose2d", "conv_transpose3d", "matmul", "matmul_over_rows",
                         "add_matmul", "attention", "attention_grad"}) {
    k[op] = estimated;
  }
  for (const char* op :
       {"assign", "cast", "concat", "concat_grad", "gather", "gather_present", "pad", "pad_grad", "resize2d", "slice",
        "slice_grad", "split", "split_grad", "transpose", "fill", "reshape", "same_size"}) {
    k[op] = each_input(0);
  }
}

void add_elementwise(FlopsByOp& k) {
  for (const char* op : {"add",         "mul",    "div",  "neg",       "maximum", "minimum", "greater", "less",
                         "logical_and", "select", "relu", "relu_grad", "tanh",    "exp",     "square",  "bias_add",
                         "expm1",       "log1p",  "abs",  "sin",       "cos",     "erf"}) {
    k[op] = each_output(1);
  }
  k["clip"] = k["clip_grad"] = k["maximum_grad"] = k["square_grad"] = each_output(2);
  k["dropout"] = k["dropout_grad"] = each_output(2);
  k["sign"] = k["leaky_relu"] = k["leaky_relu_grad"] = each_output(2);  // a comparison, and a product or another one
  k["elu"] = k["elu_grad"] = each_output(3);
  k["softplus"] = each_output(6);         // max(x, 0) + ln(1 + e^-|x|)
  k["mish"] = each_output(6);             // e = e^x, n = e (e + 2): x n / (n + 2)
  k["mish_grad"] = each_output(13);       // dy (n / m + x 4 e (1 + e) / (m m)) with m = n + 2
  k["hard_swish"] = each_output(5);       // x min(max(x + 3, 0), 6) / 6
  k["hard_swish_grad"] = each_output(6);  // two comparisons, dy ((x + x + 3) / 6)
  k["tanh_grad"] = k["sigmoid_grad"] = each_output(3);
  k["sigmoid"] = each_output(4);
  k["silu"] = each_output(5);
  k["silu_grad"] = each_output(9);
  // Of a cell: three sigmoids, two tanh, f c + i g, and o tanh(c').
  k["lstm_step"] = [](const TypedNode& n) { return 18 * elements(n.inputs[1]); };
  // tanh; the sum dc of two gradients; of each gate three products and one that is left from 1 or a square; dc f.
  k["lstm_step_grad"] = [](const TypedNode& n) { return 23 * elements(n.inputs[3]); };
  k["gelu"] = each_output(5);        // x (1 + erf(x c)) / 2
  k["gelu_grad"] = each_output(11);  // dy ((1 + erf(x c)) / 2 + x c' e^(-x x / 2))
}

void add_sums(FlopsByOp& k) {
  k["bias_add_grad"] = k["gather_grad"] = k["resize2d_grad"] = k["argmax"] = each_input(1);
  k["cumsum"] = k["top_k"] = k["take_along_grad"] = each_input(1);
  k["scatter"] = [](const TypedNode& n) { return elements(n.inputs[2]); };
  k["reduce"] = reduce_flops;
  k["reduce_grad"] = reduce_grad_flops;
  k["reduce_max_grad"] = reduce_max_grad_flops;
  k["global_norm"] = [](const TypedNode& n) { return 2 * elements(n.inputs[0]) + 1; };
  k["global_norm_grad"] = each_output(1);
  for (const std::string rank : {"2d", "3d"}) {
    k["max_pool" + rank] = max_pool_flops;
    k["max_pool" + rank + "_grad"] = each_input(1);
    k["average_pool" + rank] = average_pool_flops;
    k["average_pool" + rank + "_grad"] = average_pool_grad_flops;
  }
}

void add_normalisations(FlopsByOp& k) {
  // mean, variance and r = 1 / sqrt(variance + epsilon); then (x - mean) r scale + shift.
  k["batch_norm"] = along_channels(8, 5, 1);
  k["layer_norm"] = along_rows(8, 5);
  // Sums of dy and of dy (x - mean) r; then dx = a (dy - b - (x - mean) r c) of three numbers a channel. Where the
  // scale is not one of a channel but of an element, there are two sums more.
  k["batch_norm_grad"] = along_channels(9, 6, 2);
  k["layer_norm_grad"] = along_rows(13, 2);
  // The mean of squares and r = 1 / sqrt(mean + epsilon); then x r scale. The gradient sums dy x r and dy scale x r.
  k["rms_norm"] = along_rows(4, 4);
  k["rms_norm_grad"] = along_rows(9, 1);
  // As of layers, with a mean for each group.
  k["group_norm"] = [](const TypedNode& n) { return 8 * elements(n.inputs[0]) + 5 * elements(n.outputs[1]); };
  k["group_norm_grad"] = [](const TypedNode& n) { return 13 * elements(n.inputs[0]) + 2 * elements(n.inputs[3]); };
  k["ctc_loss"] = k["ctc_loss_grad"] = estimated;
  k["categorical"] = along_rows(4, 0);  // the largest, and the sum of e^(x - largest)
  k["random_like"] = each_output(5);    // -ln(-ln(1 - v)) of Gumbel numbers
  k["softmax"] = along_rows(5, 0);
  k["softmax_grad"] = along_rows(4, 0);
  k["log_softmax"] = along_rows(5, 1);
  k["log_softmax_grad"] = along_rows(4, 0);
  k["softmax_cross_entropy"] = along_rows(4, 3);
  k["softmax_cross_entropy_grad"] = along_rows(3, 2, 2);
}

void add_updates(FlopsByOp& k) {
  k["apply_sgd"] = each_input(2);
  k["apply_momentum"] = each_input(4);
  k["apply_adam"] = each_input(12);
  k["apply_adam_w"] = each_input(14);
  k["apply_adagrad"] = each_input(7);
  k["apply_rms_prop"] = each_input(9);
  k["apply_lion"] = each_input(11);       // variable (1 - d) - rate sign(b m + (1 - b) g); m = c m + (1 - c) g
  k["apply_lamb"] = each_input(21);       // AdamW's direction; two sums of squares; a step
  k["apply_adafactor"] = each_input(13);  // g^2 twice summed; g / max(root of r c); its sum of squares; a step
  k["apply_adam_8bit"] = each_input(19);  // Adam, a root squared, and of each slot a product, a maximum, a quotient
}

const FlopsByOp& known_flops() {
  static const FlopsByOp known = [] {
    FlopsByOp all;
    add_products_and_moves(all);
    add_elementwise(all);
    add_sums(all);
    add_normalisations(all);
    add_updates(all);
    return all;
  }();
  return known;
}

double bytes_of(const TypedNode& n) {
  const std::string& op = n.node.op().name;
  const auto result = [&] { return static_cast<double>(n.outputs[0].bytes()); };
  if (op == "slice") return 2 * result();
  if (op == "gather") return 2 * result() + static_cast<double>(n.inputs[1].bytes());
  double bytes = n.estimate.bytes;
  for (int updated : n.node.op().updated_inputs) {
    bytes += static_cast<double>(n.inputs[static_cast<std::size_t>(updated)].bytes());
  }
  // The old content is not read.
  if (op == "assign") bytes -= static_cast<double>(n.inputs[0].bytes());
  return bytes;
}

}  // namespace

Work op_work(const ConcreteGraph& graph, NodeId id) {
  TypedNode typed{
      .node = graph.graph().node(id), .inputs = {}, .outputs = graph.types(id), .estimate = work_of(graph, id)};
  for (const Value& input : typed.node.inputs()) typed.inputs.push_back(graph.type(input));
  const auto flops = known_flops().find(typed.node.op().name);
  SF_CHECK(flops != known_flops().end(), InternalError, "op_work: nothing is known of ", typed.node.label());
  return {.flops = flops->second(typed), .bytes = bytes_of(typed)};
}

}  // namespace sectionflow::bench
