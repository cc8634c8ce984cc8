#include "transform/quantize_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/nodes/pool.h"
#include "graph/nodes/quantize.h"
#include "graph/nodes/unary.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/fused_convolution.h"
#include "graph/ops/matmul.h"
#include "graph/ops/quantized_convolution.h"
#include "graph/traversal.h"
#include "transform/graph_copy.h"

namespace sectionflow {
namespace {

bool runs_by_inputs_alone(const Node& node) {
  return !node.branch().exists() && node.control_inputs().empty() && node.order_inputs().empty();
}

bool is_plain_convolution(const Node& node) {
  return is_op(node, "conv2d") || is_op(node, "conv3d");
}
bool is_fused_convolution(const Node& node) {
  return is_op(node, "fused_conv2d") || is_op(node, "fused_conv3d");
}
const ConvolutionOptions& convolution_of(const Node& node) {
  return is_fused_convolution(node) ? node.options<FusedConvolutionOptions>().convolution
                                    : node.options<ConvolutionOptions>();
}

/// Which transform takes an operation away that none of 8 bits stands for.
const char* advice_on(const Node& node) {
  if (is_op(node, "dropout")) return "; remove_nodes(op=dropout) leaves it out";
  if (is_op(node, "fake_quantize")) return "; take_ranges, before the others, takes its range instead";
  if (is_op(node, "batch_norm"))
    return "; fold_batch_norms folds it into the convolution or product before it, where it can";
  if (is_op(node, "with_packed_weights")) return "; pack weights behind quantize_nodes";
  return "";
}

/// The weights of a product as [C, F], also where they are read the other way round.
HostTensor rows_of_channels(const HostTensor& weights, bool is_transposed) {
  if (!is_transposed) return weights.clone();
  const auto rows = weights.shape()[1], columns = weights.shape()[0];
  HostTensor turned(Dtype::f32, {rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      turned.values<float>()[static_cast<std::size_t>(r * columns + c)] =
          weights.values<float>()[static_cast<std::size_t>(c * rows + r)];
    }
  }
  return turned;
}

bool has_finite_numbers(const HostTensor& numbers) {
  const auto values = numbers.values<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// What keeps a product from 8 bits, but for its weights; empty where nothing does.
std::string reason_of_shape(const Node& node) {
  const Shape &x = node.inputs()[0].shape(), &w = node.inputs()[1].shape();
  if (!w.is_static()) return "its weights are of unknown size";
  if (is_op(node, "matmul")) {
    if (w.rank() != 2) return "it multiplies batches of matrices";
    if (node.options<MatmulOptions>().transpose_a) return "it reads its first matrix the other way round";
    if (x.rank() < 2) return "it has no rows";
  } else if (convolution_of(node).steps.format != DataFormat::nhwc) {
    return "its channels are not the last axis";
  }
  std::int64_t products = 1;
  for (int axis = 0; axis + 1 < w.rank(); ++axis) products *= w[axis];
  if (is_op(node, "matmul")) products = w[node.options<MatmulOptions>().transpose_b ? 1 : 0];
  if (products > kMostQuantizedProducts) {
    return text_of("it adds up ", products, " products; an i32 holds those of ", kMostQuantizedProducts, " surely");
  }
  return {};
}

}  // namespace

QuantizePlan::QuantizePlan(const TransformedGraph& given)
    : given_(given), counts_(reader_counts(given.graph, given.outputs)) {
  for (NodeId id : topological_order(DependencyGraph(given.graph))) {
    order_.push_back(&given.graph.node(id));
    for (const Value& input : order_.back()->inputs()) readers_[&input.node()] = order_.back();
  }
  for (const Node* node : order_) {
    if (inside_.contains(node) || part_of_last(*node) != nullptr) continue;
    const std::string reason = try_node(*node);
    if (!reason.empty()) reasons_.emplace(node, reason);
  }
  add_needs();
}

const QuantizedPart* QuantizePlan::part_of_last(const Node& node) const {
  const auto found = parts_.find(&node);
  return found != parts_.end() ? &found->second : nullptr;
}

ValueNeeds QuantizePlan::needs_of(const Value& value) const {
  const auto found = needs_.find(value);
  return found != needs_.end() ? found->second : ValueNeeds{};
}

void QuantizePlan::add_part(QuantizedPart part) {
  for (const Node* node : {part.first, part.bias, part.relu}) {
    if (node != nullptr && node != part.last) inside_.insert(node);
  }
  const Node* last = part.last;
  parts_.emplace(last, std::move(part));
}

void QuantizePlan::add_needs() {
  for (const Value& output : given_.outputs) needs_[output].as_floats = true;
  // Readers first.
  for (auto each = order_.rbegin(); each != order_.rend(); ++each) {
    const Node* node = *each;
    if (inside_.contains(node)) continue;
    const QuantizedPart* part = part_of_last(*node);
    if (part != nullptr && part->clip == node && !needs_of(given_.graph.node(node->id()).output()).as_integers) {
      give_back_clip(*node);
      reasons_.emplace(node, "nothing of 8 bits reads it");
      part = nullptr;
    }
    const bool goes_on = part == nullptr || needs_of(given_.graph.node(node->id()).output()).as_integers ||
                         part->kind == QuantizedPart::Kind::product || part->kind == QuantizedPart::Kind::sum;
    if (!goes_on) {
      reasons_.emplace(node, "nothing of 8 bits reads it");
      parts_.erase(node);
      part = nullptr;
    }
    if (part == nullptr) {
      for (const Value& input : node->inputs()) needs_[input].as_floats = true;
      continue;
    }
    for (const Value& input : part->integers) needs_[input].as_integers = true;
    // A residual that is f32 anyway is read as it is.
    if (part->residual.valid()) {
      ValueNeeds& needs = needs_[part->residual];
      (is_of_part(part->residual) ? needs.as_integers : needs.as_floats) = true;
    }
  }
}

std::vector<Value> QuantizePlan::ranged_values() const {
  std::vector<Value> values;
  for (const Node* node : order_) {
    for (int i = 0; i < static_cast<int>(node->output_types().size()); ++i) {
      const Value value = given_.graph.node(node->id()).output(i);
      if (!needs_of(value).as_integers) continue;
      const QuantizedPart* part = part_of_last(*node);
      // Pools and views have the scale of what they read.
      const bool has_own =
          part == nullptr || part->kind == QuantizedPart::Kind::product || part->kind == QuantizedPart::Kind::sum;
      if (has_own) values.push_back(value);
    }
  }
  return values;
}

QuantizeReport QuantizePlan::report() const {
  QuantizeReport report;
  for (const Node* node : order_) {
    if (node->op().is_given() || !node->op().has_kernel) continue;
    const auto reason = reasons_.find(node);
    report.nodes.push_back({.name = node->name(),
                            .op = node->op().name,
                            .is_quantized = reason == reasons_.end(),
                            .why = reason == reasons_.end() ? std::string() : reason->second});
  }
  return report;
}

const Node* QuantizePlan::follower(const Node& node, const char* op) const {
  if (counts_[static_cast<std::size_t>(node.id())][0] != 1) return nullptr;
  const auto reader = readers_.find(&node);
  const bool follows = reader != readers_.end() && is_op(*reader->second, op) && runs_by_inputs_alone(*reader->second);
  return follows ? reader->second : nullptr;
}

void QuantizePlan::take_tail(QuantizedPart& part, DataFormat format, bool takes_bias) {
  const Node* bias = takes_bias ? follower(*part.last, "bias_add") : nullptr;
  if (bias != nullptr && &bias->inputs()[0].node() == part.last && bias->options<BiasAddOptions>().format == format) {
    part.summands = constant_numbers(bias->inputs()[1]);
    if (part.summands != nullptr && has_finite_numbers(*part.summands)) {
      part.bias = part.last = bias;
    } else {
      part.summands = nullptr;
    }
  }
  const Node* relu = follower(*part.last, "relu");
  if (relu == nullptr) return;
  part.relu = part.last = relu;
  part.has_relu = true;
}

void QuantizePlan::take_clip(QuantizedPart& part) {
  const Node* clip = part.has_relu ? nullptr : follower(*part.last, "clip");
  if (clip == nullptr) return;
  const auto& [low, high] = clip->options<ClipOptions>();
  if (low != 0 || high <= 0 || !std::isfinite(high)) return;
  part.clip = part.last = clip;
  part.clip_high = high;
  part.has_relu = true;
}

void QuantizePlan::give_back_clip(const Node& clip) {
  QuantizedPart part = std::move(parts_.extract(&clip).mapped());
  part.clip = nullptr;
  part.last = &clip.inputs()[0].node();
  part.has_relu = false;
  inside_.erase(part.last);
  const Node* last = part.last;
  parts_.emplace(last, std::move(part));
}

std::string QuantizePlan::try_node(const Node& node) {
  if (node.op().is_given() || !node.op().has_kernel) return {};
  if (!runs_by_inputs_alone(node)) return "it is in a branch, or waits for what it does not read";
  if (is_plain_convolution(node) || is_fused_convolution(node) || is_op(node, "matmul")) return try_product(node);
  if (is_op(node, "add")) return try_sum(node);
  const bool is_pool = is_op(node, "max_pool2d") || is_op(node, "max_pool3d") || is_op(node, "average_pool2d") ||
                       is_op(node, "average_pool3d");
  if (is_pool || is_op(node, "reshape") || is_op(node, "flatten")) return try_pool(node);
  // What an earlier transform has made.
  const bool reads_integers = !node.inputs().empty() && is_quantized(node.inputs()[0].dtype());
  if (is_op(node, "quantize") || (reads_integers && !is_op(node, "cast"))) return {};
  return text_of("there is none of 8 bits", advice_on(node));
}

std::string QuantizePlan::try_product(const Node& node) {
  if (node.output_types()[0].dtype != Dtype::f32) return "it is not f32";
  std::string reason = reason_of_shape(node);
  if (!reason.empty()) return reason;
  const auto numbers = constant_numbers(node.inputs()[1]);
  if (numbers == nullptr) return "its weights are no constants";
  if (constant_numbers(node.inputs()[0]) != nullptr) return "all that it reads is constant";
  const bool is_product = is_op(node, "matmul");
  const HostTensor rows = rows_of_channels(*numbers, is_product && node.options<MatmulOptions>().transpose_b);
  QuantizedPart part{.first = &node, .last = &node, .integers = {node.inputs()[0]}};
  part.weights = quantized_weights(rows, rows.shape().rank() - 1);
  if (!part.weights) return "its weights are not finite";
  if (is_fused_convolution(node)) {
    part.summands = constant_numbers(node.inputs()[2]);
    if (part.summands == nullptr) return "its bias is no constant";
    if (!has_finite_numbers(*part.summands)) return "its bias is not finite";
    if (node.inputs().size() > 3) part.residual = node.inputs()[3];
    part.has_relu = node.options<FusedConvolutionOptions>().relu;
  } else {
    take_tail(part, is_product ? DataFormat::nhwc : convolution_of(node).steps.format, true);
  }
  take_clip(part);
  add_part(std::move(part));
  return {};
}

std::string QuantizePlan::try_sum(const Node& node) {
  const Value &a = node.inputs()[0], &b = node.inputs()[1];
  if (!is_of_part(a) || !is_of_part(b)) return "not all that it reads is of 8 bits";
  const auto& dims = a.shape().dims();
  const bool is_open = std::find(dims.begin(), dims.end(), kDynamic) != dims.end();
  if (a.shape() != b.shape()) return "what it reads is of several shapes";
  if (is_open && a != b) return "what it reads may be of several shapes; fuse takes such sums into convolutions";
  QuantizedPart part{.kind = QuantizedPart::Kind::sum, .first = &node, .last = &node, .integers = {a, b}};
  take_tail(part, DataFormat::nhwc, false);
  take_clip(part);
  add_part(std::move(part));
  return {};
}

std::string QuantizePlan::try_pool(const Node& node) {
  if (!is_of_part(node.inputs()[0])) return "what it reads is f32";
  const auto& counts = counts_[static_cast<std::size_t>(node.id())];
  if (counts.size() > 1 && counts[1] > 0) return "its indices are read";
  const bool is_view = is_op(node, "reshape") || is_op(node, "flatten");
  add_part({.kind = is_view ? QuantizedPart::Kind::view : QuantizedPart::Kind::pool,
            .first = &node,
            .last = &node,
            .integers = {node.inputs()[0]}});
  return {};
}

}  // namespace sectionflow
