#include "graph/ops/quantized_convolution.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/checked_arithmetic.h"
#include "graph/nodes/quantize.h"
#include "graph/nodes/quantized_convolution.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Checks what a convolution and a product have in common; y has `filters` as its last dimension.
std::vector<TensorType> infer_quantized_product(const ShapeRequest& request, const QuantizedProductOptions& options,
                                                Shape y, std::int64_t products) {
  check_quantized(request.inputs[0], request.label);
  SF_CHECK(request.inputs[1].dtype == Dtype::i8, ArgumentError, request.label, " got weights ",
           request.inputs[1].text(), "; wanted i8");
  check_result(options.result, request.label);
  SF_CHECK(products <= kMostQuantizedProducts, ArgumentError, request.label, " adds up ", products,
           " products of 8 bits; wanted at most ", kMostQuantizedProducts, ", whose sum always fits an i32");
  const TensorType channels{Dtype::f32, {y[-1]}};
  for (std::size_t i : {2, 3}) {
    SF_CHECK(may_agree(request.inputs[i], channels), ShapeError, request.label, " got ",
             i == 2 ? "factors " : "a bias ", request.inputs[i].text(), "; wanted ", channels.text());
  }
  if (request.inputs.size() > 4) {
    const TensorType& residual = request.inputs[4];
    SF_CHECK(is_quantized(residual.dtype) || residual.dtype == Dtype::f32, ArgumentError, request.label,
             " got a residual ", residual.text(), "; wanted i8, u8 or f32");
    SF_CHECK(may_agree(residual, {residual.dtype, y}), ShapeError, request.label, " got a residual ", residual.shape,
             "; wanted ", y);
  }
  return {{options.result.dtype, std::move(y)}};
}

/// Inputs: x, w, factor, bias and perhaps the residual.
struct QuantizedConvolutionRule {
  std::size_t rank;

  std::vector<TensorType> operator()(const ShapeRequest& request) const {
    const auto& options = request.get<QuantizedConvolutionOptions>();
    const WindowSteps& steps = options.convolution.steps;
    SF_CHECK(steps.stride.size() == rank, ArgumentError, request.label, " got ", steps.stride.size(),
             " strides; wanted one an axis, ", rank);
    SF_CHECK(steps.format == DataFormat::nhwc, ArgumentError, request.label,
             " got channels behind the batch; wanted them last");
    const auto geometry =
        convolution_geometry(request.inputs[0].shape, request.inputs[1].shape, options.convolution, request.label);
    const std::int64_t products =
        checked_multiply(geometry.num_taps(), geometry.channels / geometry.groups, request.label);
    return infer_quantized_product(request, options.product, geometry.y_shape(), products);
  }
};

std::vector<TensorType> infer_quantized_matmul(const ShapeRequest& request) {
  const Shape &x = request.inputs[0].shape, &w = request.inputs[1].shape;
  SF_CHECK(x.rank() >= 2 && w.rank() == 2 && w.is_static(), ShapeError, request.label, " got ", x, " and ", w,
           "; wanted [..., C] and [C, F]");
  SF_CHECK(x[-1] == w[0] || x[-1] == kDynamic, ShapeError, request.label, " got ", x, " and ", w,
           "; wanted as many columns as rows");
  std::vector<std::int64_t> dims = x.dims();
  dims.back() = w[1];
  return infer_quantized_product(request, request.get<QuantizedProductOptions>(), Shape(std::move(dims)), w[0]);
}

template <class Fields, class Options>
void describe_quantized_product(Fields& fields, Options& options) {
  describe_result(fields, options.result);
  fields("residual_factor", options.residual_factor);
}

std::vector<Value> inputs_of_product(Value x, Value w, Value factor, Value bias, Value residual) {
  std::vector<Value> inputs = {x, w, factor, bias};
  if (residual.valid()) inputs.push_back(residual);
  return inputs;
}

}  // namespace

void define_quantized_convolution_ops(OpRegistry& registry) {
  for (std::size_t rank : {2, 3}) {
    registry.add({.name = text_of("quantized_conv", rank, "d"),
                  .inputs = {4, 5},
                  .options = described_by<QuantizedConvolutionOptions>([](auto& fields, auto& described) {
                    describe_steps(fields, described.convolution.steps);
                    fields("groups", described.convolution.groups);
                    describe_quantized_product(fields, described.product);
                  }),
                  .infer = QuantizedConvolutionRule{rank},
                  .flops = [](auto inputs, auto outputs) { return convolution_flops(outputs[0], inputs[1]); }});
  }
  registry.add({.name = "quantized_matmul",
                .inputs = {4, 5},
                .options = described_by<QuantizedProductOptions>(
                    [](auto& fields, auto& described) { describe_quantized_product(fields, described); }),
                .infer = infer_quantized_matmul,
                .flops = [](auto inputs, auto outputs) {
                  return 2.0 * static_cast<double>(outputs[0].shape.num_elements()) *
                         static_cast<double>(inputs[1].shape[0]);
                }});
}

QuantizedProblem quantized_problem(const Node& node, const Shape& x, const Shape& w) {
  if (w.rank() != 2) {
    const auto& options = node.options<QuantizedConvolutionOptions>();
    return {options.convolution, x, w, options.product};
  }
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) rows *= x[axis];
  // Images have a pixel at least.
  return {.convolution = {.steps = window_steps<2>(1, 1, Padding::valid, DataFormat::nhwc)},
          .x = {rows > 0 ? 1 : 0, 1, std::max<std::int64_t>(rows, 1), w[0]},
          .w = {1, 1, w[0], w[1]},
          .product = node.options<QuantizedProductOptions>()};
}

Value quantized_convolution(Value x, Value w, Value factor, Value bias, Value residual,
                            const QuantizedConvolutionOptions& options, std::string_view name, Where where) {
  const std::string op = text_of("quantized_conv", options.convolution.steps.stride.size(), "d");
  return x.graph()
      .add_node(op, inputs_of_product(x, w, factor, bias, residual), options, name.empty() ? op : name, where)
      .output();
}

Value quantized_matmul(Value x, Value w, Value factor, Value bias, Value residual,
                       const QuantizedProductOptions& options, std::string_view name, Where where) {
  const char* op = "quantized_matmul";
  return x.graph()
      .add_node(op, inputs_of_product(x, w, factor, bias, residual), options, name.empty() ? op : name, where)
      .output();
}

}  // namespace sectionflow
