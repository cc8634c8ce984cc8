// A normalisation by moving averages is one factor and one summand a channel: the factors go into the weights of the
// convolution or product before it, the summands into a bias.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/nodes/convolution.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/matmul.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

using Content = std::shared_ptr<const HostTensor>;

/// y = x k + s per channel.
struct ChannelMap {
  std::vector<double> factors, summands;  // [C]
};

/// A batch norm, what it is folded into, and what that gives.
struct Fold {
  const Node* norm = nullptr;     ///< the batch norm
  const Node* bias = nullptr;     ///< the bias_add before it; nullptr where there is none
  const Node* product = nullptr;  ///< the convolution or product before that
  DataFormat format = DataFormat::nhwc;
  Content weights{}, summands{};
};

const HostTensor* f32_content(Value value) {
  const HostTensor* content = constant_content(value);
  return content != nullptr && content->dtype() == Dtype::f32 ? content : nullptr;
}

/// Whether the channels of what the node makes are those of its weights, which are then its input 1.
bool is_product(const Node& node, DataFormat format) {
  if (is_op(node, "conv2d") || is_op(node, "conv3d")) return node.options<ConvolutionOptions>().steps.format == format;
  return is_op(node, "matmul") && format == DataFormat::nhwc && node.inputs()[1].shape().rank() == 2;
}

/// What reads it alone, and waits for nothing else.
bool is_private(const Node& node, const std::vector<std::vector<int>>& readers) {
  return readers[static_cast<std::size_t>(node.id())][0] == 1 && node.control_inputs().empty() &&
         node.order_inputs().empty() && !node.branch().exists();
}

/// What a batch norm in evaluation whose numbers are constants is folded into; none of any other node.
std::optional<Fold> place_of(const Node& norm, const std::vector<std::vector<int>>& readers) {
  if (!is_op(norm, "batch_norm") || norm.branch().exists() || !norm.control_inputs().empty()) return std::nullopt;
  if (!norm.order_inputs().empty() || constant_boolean(norm.inputs()[5]) != false) return std::nullopt;
  const auto& read = readers[static_cast<std::size_t>(norm.id())];
  if (read[1] > 0 || read[2] > 0) return std::nullopt;
  for (std::size_t i = 1; i <= 4; ++i) {
    if (f32_content(norm.inputs()[i]) == nullptr) return std::nullopt;
  }
  Fold fold{.norm = &norm, .format = norm.options<BatchNormOptions>().format};
  const Node* before = &norm.inputs()[0].node();
  if (is_op(*before, "bias_add") && before->options<BiasAddOptions>().format == fold.format) {
    if (!is_private(*before, readers) || f32_content(before->inputs()[1]) == nullptr) return std::nullopt;
    fold.bias = before;
    before = &before->inputs()[0].node();
  }
  fold.product = before;
  const bool folds =
      is_product(*before, fold.format) && is_private(*before, readers) && f32_content(before->inputs()[1]) != nullptr;
  return folds ? std::optional<Fold>(fold) : std::nullopt;
}

/// (x + bias - mean) / sqrt(variance + epsilon) * scale + shift, in double.
ChannelMap channel_map(const Fold& fold) {
  const auto values = [&](std::size_t input) { return f32_content(fold.norm->inputs()[input])->values<float>(); };
  const auto scale = values(1), shift = values(2), mean = values(3), variance = values(4);
  const double epsilon = static_cast<double>(fold.norm->options<BatchNormOptions>().epsilon);
  ChannelMap map;
  for (std::size_t c = 0; c < scale.size(); ++c) {
    const double factor = static_cast<double>(scale[c]) / std::sqrt(static_cast<double>(variance[c]) + epsilon);
    const double bias =
        fold.bias != nullptr ? static_cast<double>(f32_content(fold.bias->inputs()[1])->values<float>()[c]) : 0.0;
    map.factors.push_back(factor);
    map.summands.push_back((bias - static_cast<double>(mean[c])) * factor + static_cast<double>(shift[c]));
  }
  return map;
}

/// The weights, each times the factor of its channel: [..., C], and [C, K] of a product with the transpose.
Content scaled_weights(const Node& product, const ChannelMap& map) {
  const HostTensor& weights = *f32_content(product.inputs()[1]);
  const bool is_transposed = is_op(product, "matmul") && product.options<MatmulOptions>().transpose_b;
  const std::size_t channels = map.factors.size();
  HostTensor scaled = weights.clone();
  const auto elements = scaled.values<float>();
  const std::size_t in_row = channels == 0 || elements.empty() ? 1 : elements.size() / channels;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::size_t channel = is_transposed ? i / in_row : i % channels;
    elements[i] = static_cast<float>(static_cast<double>(elements[i]) * map.factors[channel]);
  }
  return std::make_shared<const HostTensor>(std::move(scaled));
}

Content summands_of(const ChannelMap& map) {
  HostTensor summands(Dtype::f32, {static_cast<std::int64_t>(map.summands.size())});
  for (std::size_t c = 0; c < map.summands.size(); ++c) {
    summands.values<float>()[c] = static_cast<float>(map.summands[c]);
  }
  return std::make_shared<const HostTensor>(std::move(summands));
}

/// The fold of a batch norm; none where a number that comes of it is infinite or NaN: by itself it may be neither.
std::optional<Fold> fold_of(const Node& norm, const std::vector<std::vector<int>>& readers) {
  std::optional<Fold> fold = place_of(norm, readers);
  if (!fold) return std::nullopt;
  const ChannelMap map = channel_map(*fold);
  fold->weights = scaled_weights(*fold->product, map);
  fold->summands = summands_of(map);
  const auto is_finite = [](const Content& content) {
    const auto numbers = content->values<float>();
    return std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
  };
  const bool folds = is_finite(fold->weights) && is_finite(fold->summands);
  return folds ? fold : std::nullopt;
}

/// Makes the product, its bias and, where the batch norm has it, the relu. The last has the name of the batch norm.
void make(const Fold& fold, const Graph& graph, GraphCopy& copy) {
  const Node &norm = *fold.norm, &product = *fold.product;
  const Value weights =
      copy.add_constant(product, fold.weights, copy.free_name(product.inputs()[1].node().name() + "/folded"));
  const Value summands = copy.add_constant(norm, fold.summands, copy.free_name(norm.name() + "/bias"));
  std::vector<Value> inputs = {copy.mapped(product.inputs()[0]), weights};
  const Value y =
      copy.add(product, product.op().name, std::move(inputs), product.any_options(), product.name()).output();
  const bool relu = norm.options<BatchNormOptions>().relu;
  const std::string name = relu ? copy.free_name(norm.name() + "/bias_add") : norm.name();
  Value result = copy.add(norm, "bias_add", {y, summands}, BiasAddOptions{fold.format}, name).output();
  if (relu) result = copy.add(norm, "relu", {result}, {}, norm.name()).output();
  copy.map(graph.node(norm.id()).output(), result);
}

}  // namespace

Transform fold_batch_norms_transform() {
  return {.apply = [](const TransformedGraph& given, const TransformArguments&) {
    const auto readers = reader_counts(given.graph, given.outputs);
    std::map<const Node*, Fold> folds;
    std::set<const Node*> gone;
    for (NodeId id = 0; id < given.graph.num_nodes(); ++id) {
      const std::optional<Fold> fold = fold_of(given.graph.node(id), readers);
      if (!fold) continue;
      folds.emplace(fold->norm, *fold);
      gone.insert(fold->product);
      if (fold->bias != nullptr) gone.insert(fold->bias);
    }
    GraphCopy copy(given);
    copy.copy_all([&](const Node& node, GraphCopy& made) {
      const auto fold = folds.find(&node);
      if (fold != folds.end()) make(fold->second, given.graph, made);
      return fold != folds.end() || gone.contains(&node);
    });
    return copy.finish(given.outputs);
  }};
}

}  // namespace sectionflow
