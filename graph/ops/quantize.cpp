#include "graph/ops/quantize.h"

#include "graph/nodes/quantize.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {

void check_quantized(const TensorType& type, const std::string& label) {
  SF_CHECK(is_quantized(type.dtype), ArgumentError, label, " got ", type.text(), "; wanted i8 or u8",
           hint("quantize makes such integers of f32"));
}

void check_result(const QuantizedResult& result, const std::string& label) {
  SF_CHECK(is_quantized(result.dtype) || result.dtype == Dtype::f32, ArgumentError, label, " is to give ",
           dtype_name(result.dtype), "; wanted i8, u8 or f32");
}

namespace {

/// Which type x and q have: inputs x or q, and the scale.
void check_scales(const ShapeRequest& request, Dtype integers) {
  const auto& options = request.get<QuantizeOptions>();
  const TensorType &x = request.inputs[0], &scale = request.inputs[1];
  SF_CHECK(options.zero_point >= lowest_of(integers) && options.zero_point <= highest_of(integers), ArgumentError,
           request.label, " got the zero point ", options.zero_point, "; wanted one of ", dtype_name(integers), ", ",
           lowest_of(integers), " to ", highest_of(integers));
  check_f32(scale, request.label);
  SF_CHECK(scale.shape.rank() <= 1, ShapeError, request.label, " got scales ", scale.shape,
           "; wanted one number, or one for each channel");
  if (scale.shape.rank() == 0) return;
  const std::int64_t rank = x.shape.rank();
  SF_CHECK(options.axis >= -rank && options.axis < rank, ArgumentError, request.label, " got the axis ", options.axis,
           " of ", x.shape, "; wanted one of its axes");
  const std::int64_t channels = x.shape[static_cast<int>(options.axis)], scales = scale.shape[0];
  SF_CHECK(channels == scales || channels == kDynamic || scales == kDynamic, ShapeError, request.label, " got ", scales,
           " scales for axis ", options.axis, " of ", x.shape, "; wanted ", channels);
}

std::vector<TensorType> infer_quantize(const ShapeRequest& request) {
  const Dtype dtype = request.get<QuantizeOptions>().dtype;
  check_f32(request.inputs[0], request.label);
  SF_CHECK(is_quantized(dtype), ArgumentError, request.label, " is to give ", dtype_name(dtype),
           "; wanted i8 or u8 as QuantizeOptions::dtype");
  check_scales(request, dtype);
  return {{dtype, request.inputs[0].shape}};
}

std::vector<TensorType> infer_dequantize(const ShapeRequest& request) {
  check_quantized(request.inputs[0], request.label);
  check_scales(request, request.inputs[0].dtype);
  return {{Dtype::f32, request.inputs[0].shape}};
}

std::vector<TensorType> infer_quantized_add(const ShapeRequest& request) {
  const TensorType &a = request.inputs[0], &b = request.inputs[1];
  check_quantized(a, request.label);
  check_quantized(b, request.label);
  const QuantizedResult& result = request.get<QuantizedAddOptions>().result;
  check_result(result, request.label);
  SF_CHECK(may_agree({a.dtype, b.shape}, a), ShapeError, request.label, " got ", a.text(), " and ", b.text(),
           "; wanted equal shapes");
  return {{result.dtype, a.shape}};
}

}  // namespace

void define_quantize_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<QuantizeOptions>([](auto& fields, auto& described) {
    fields("dtype", described.dtype);
    fields("zero_point", described.zero_point);
    fields("axis", described.axis);
  });
  registry.add({.name = "quantize", .inputs = 2, .options = options, .infer = infer_quantize});
  registry.add({.name = "dequantize", .inputs = 2, .options = options, .infer = infer_dequantize});
  registry.add({.name = "quantized_add",
                .inputs = 2,
                .options = described_by<QuantizedAddOptions>([](auto& fields, auto& described) {
                  fields("a_factor", described.a_factor);
                  fields("b_factor", described.b_factor);
                  describe_result(fields, described.result);
                }),
                .infer = infer_quantized_add});
}

Value quantize(Value x, Value scale, const QuantizeOptions& options, Where where) {
  return x.graph().add_node("quantize", {x, scale}, options, "quantize", where).output();
}

Value dequantize(Value q, Value scale, const QuantizeOptions& options, Where where) {
  return q.graph().add_node("dequantize", {q, scale}, options, "dequantize", where).output();
}

Value quantized_add(Value a, Value b, const QuantizedAddOptions& options, Where where) {
  return a.graph().add_node("quantized_add", {a, b}, options, "quantized_add", where).output();
}

}  // namespace sectionflow
