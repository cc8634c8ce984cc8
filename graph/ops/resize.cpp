#include "graph/ops/resize.h"

#include "graph/nodes/resize.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

TensorType resized_type(const ShapeRequest& request, const TensorType& x) {
  const auto& options = request.get<Resize2dOptions>();
  SF_CHECK(options.height >= 1 && options.width >= 1, ArgumentError, request.label, ": wanted size is ", options.height,
           " x ", options.width, "; wanted a height and a width >= 1");
  const bool is_nhwc = options.format == DataFormat::nhwc;
  const int height_axis = is_nhwc ? 1 : 2;
  SF_CHECK(x.shape.rank() == 4 && x.shape[height_axis] != 0 && x.shape[height_axis + 1] != 0, ShapeError, request.label,
           " got ", x.text(), "; wanted ", is_nhwc ? "[N, H, W, C]" : "[N, C, H, W]", " with a pixel at least");
  SF_CHECK(is_f32_or_bf16(x.dtype) || options.method == ResizeMethod::nearest, ArgumentError, request.label, " got ",
           x.text(), "; wanted f32 or bf16 for bilinear; try cast");
  std::vector<std::int64_t> dims = x.shape.dims();
  dims[height_axis] = options.height;
  dims[height_axis + 1] = options.width;
  return {x.dtype, Shape(std::move(dims))};
}

}  // namespace

void define_resize_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<Resize2dOptions>([](auto& fields, auto& described) {
    fields("height", described.height);
    fields("width", described.width);
    fields.choice("method", described.method,
                  {{ResizeMethod::nearest, "nearest"}, {ResizeMethod::bilinear, "bilinear"}});
    fields("align_corners", described.align_corners);
    describe_format(fields, described.format);
  });
  registry.add({.name = "resize2d", .options = options, .infer = [](const ShapeRequest& r) {
                  return std::vector{resized_type(r, r.inputs[0])};
                }});
  registry.add(gradient_by_shape("resize2d_grad", options, [](const ShapeRequest& r, const TensorType& x) {
    const TensorType y = resized_type(r, x);
    check_f32_or_bf16(y, r.label);
    return y;
  }));
}

Value resize2d(Value x, Resize2dOptions options, Where where) {
  return x.graph().add_node("resize2d", {x}, options, "resize2d", where).output();
}
Value resize2d_grad(Value dy, Value x, const Resize2dOptions& options) {
  return x.graph().add_node("resize2d_grad", {dy, x}, options, "resize2d_grad").output();
}

}  // namespace sectionflow
