#include "transform/quantized_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "graph/nodes/quantize.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/quantize.h"
#include "transform/graph_copy.h"

namespace sectionflow {
namespace {

constexpr float kMostOfWeights = 127;  // -128 has no counterpart

std::shared_ptr<const HostTensor> shared_tensor(HostTensor tensor) {
  return std::make_shared<const HostTensor>(std::move(tensor));
}

ScaledAxes channel_axes(const Shape& shape, int axis) {
  return {shape, Shape{shape[axis]}, axis};
}

/// Calls body(element, channel) for all elements.
template <class Body>
void for_each_weight(const ScaledAxes& axes, const Body& body) {
  std::size_t element = 0;
  for (std::int64_t o = 0; o < axes.outer; ++o) {
    for (std::int64_t c = 0; c < axes.channels; ++c) {
      for (std::int64_t i = 0; i < axes.inner; ++i) body(element++, static_cast<std::size_t>(c));
    }
  }
}

}  // namespace

std::optional<QuantizedWeights> quantized_weights(const HostTensor& numbers, int axis) {
  const auto values = numbers.values<float>();
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) return std::nullopt;
  const ScaledAxes axes = channel_axes(numbers.shape(), axis);
  HostTensor scales(Dtype::f32, {axes.channels}), integers(Dtype::i8, numbers.shape());
  const auto scale = scales.values<float>();
  for_each_weight(axes, [&](std::size_t i, std::size_t c) { scale[c] = std::max(scale[c], std::abs(values[i])); });
  for (float& each : scale) each = each > 0 ? std::max(each / kMostOfWeights, kLeastScale) : 1;
  const auto integer = integers.values<std::int8_t>();
  for_each_weight(axes, [&](std::size_t i, std::size_t c) {
    const float nearest = std::nearbyint(values[i] / scale[c]);
    integer[i] = static_cast<std::int8_t>(std::clamp(nearest, -kMostOfWeights, kMostOfWeights));
  });
  return QuantizedWeights{shared_tensor(std::move(integers)), shared_tensor(std::move(scales)), axis};
}

int channel_axis(const Node& reader, std::size_t input) {
  const int rank = reader.inputs()[input].shape().rank();
  const bool is_transposed = is_op(reader, "conv_transpose2d") || is_op(reader, "conv_transpose3d") ||
                             (is_op(reader, "matmul") && reader.options<MatmulOptions>().transpose_b);
  if (is_transposed && input == 1) return rank - 2;
  // A table's rows are looked up one by one.
  const bool is_table = is_op(reader, "gather") && input == 0;
  return is_table ? 0 : rank - 1;
}

std::shared_ptr<const HostTensor> constant_numbers(Value value) {
  if (value.dtype() != Dtype::f32) return nullptr;
  if (value.node().op().is_given()) {
    const HostTensor* content = constant_content(value);
    return content != nullptr ? shared_tensor(content->clone()) : nullptr;
  }
  if (!is_op(value.node(), "dequantize")) return nullptr;
  const HostTensor* integers = constant_content(value.node().inputs()[0]);
  const HostTensor* scales = constant_content(value.node().inputs()[1]);
  const auto& options = value.node().options<QuantizeOptions>();
  if (integers == nullptr || scales == nullptr || integers->dtype() != Dtype::i8 || options.zero_point != 0) {
    return nullptr;
  }
  HostTensor numbers(Dtype::f32, integers->shape());
  const auto out = numbers.values<float>();
  const auto in = integers->values<std::int8_t>();
  const auto scale = scales->values<float>();
  for_each_weight(ScaledAxes(integers->shape(), scales->shape(), options.axis),
                  [&](std::size_t i, std::size_t c) { out[i] = static_cast<float>(in[i]) * scale[c]; });
  return shared_tensor(std::move(numbers));
}

}  // namespace sectionflow
