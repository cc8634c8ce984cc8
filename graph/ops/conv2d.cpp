#include "graph/ops/conv2d.h"

#include <algorithm>

#include "graph/op_registry.h"

namespace sectionflow {
namespace {

void check_f32(const ShapeRequest& request) {
  for (const TensorType& type : request.inputs) {
    SF_CHECK(type.dtype == Dtype::f32, ArgumentError, request.label, " got ", type.text(), "; wanted f32; try cast");
  }
}

struct Extent {
  std::int64_t out, before, after;
};

/// Output size and padding along one axis.
Extent extent_of(std::int64_t size, std::int64_t kernel, std::int64_t stride, const Padding& padding, int axis,
                 const std::string& label) {
  SF_CHECK(size != kDynamic, ShapeError, label, ": height and width must be known; only the batch may be -1");
  SF_CHECK(stride >= 1, ArgumentError, label, ": stride ", stride, "; wanted >= 1");
  SF_CHECK(kernel >= 1, ShapeError, label, ": the filter's height and width must be known and >= 1");
  Extent extent{0, padding.before()[axis], padding.after()[axis]};
  SF_CHECK(extent.before >= 0 && extent.after >= 0, ArgumentError, label, ": negative padding");
  if (padding.kind() == Padding::Kind::same) {
    extent.out = (size + stride - 1) / stride;
    const std::int64_t total = std::max<std::int64_t>(0, (extent.out - 1) * stride + kernel - size);
    extent.before = total / 2;
    extent.after = total - extent.before;
    return extent;
  }
  const std::int64_t padded = size + extent.before + extent.after;
  SF_CHECK(kernel <= padded, ShapeError, label, ": kernel of ", kernel, " is larger than the padded image of ", padded,
           "; try Padding::same");
  extent.out = (padded - kernel) / stride + 1;
  return extent;
}

}  // namespace

Conv2dGeometry conv2d_geometry(const Shape& x, const Shape& w, const Conv2dOptions& options, const std::string& label) {
  SF_CHECK(x.rank() == 4 && w.rank() == 4, ShapeError, label, " got x ", x, " and w ", w,
           "; wanted [N, H, W, C] and [KH, KW, C, F]");
  SF_CHECK(x[3] == w[2], ShapeError, label, ": input ", x, " has ", x[3], " channels, filter ", w, " wants ", w[2]);
  const Extent rows = extent_of(x[1], w[0], options.stride[0], options.padding, 0, label);
  const Extent columns = extent_of(x[2], w[1], options.stride[1], options.padding, 1, label);
  return {.batch = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .kernel_height = w[0],
          .kernel_width = w[1],
          .filters = w[3],
          .out_height = rows.out,
          .out_width = columns.out,
          .stride = options.stride,
          .pad_before = {rows.before, columns.before},
          .pad_after = {rows.after, columns.after}};
}

namespace {

TensorType output_type(const ShapeRequest& request, const Shape& x, const Shape& w) {
  const auto g = conv2d_geometry(x, w, request.get<Conv2dOptions>(), request.label);
  return {Dtype::f32, {g.batch, g.out_height, g.out_width, g.filters}};
}

// Inputs of both: dy, the other factor, and the tensor whose gradient is taken, for its shape. X, W: where x and w are.
template <int X, int W>
std::vector<TensorType> infer_backward(const ShapeRequest& request) {
  check_f32(request);
  const TensorType y = output_type(request, request.inputs[X].shape, request.inputs[W].shape);
  SF_CHECK(may_agree(request.inputs[0], y), ShapeError, request.label, " got dy ", request.inputs[0].shape, " for x ",
           request.inputs[X].shape, " and w ", request.inputs[W].shape, "; wanted ", y.shape);
  return {request.inputs[2]};
}

}  // namespace

void define_conv2d_ops(OpRegistry& registry) {
  registry.add({.name = "conv2d", .infer = [](const ShapeRequest& r) {
                  check_f32(r);
                  return std::vector{output_type(r, r.inputs[0].shape, r.inputs[1].shape)};
                }});
  const auto uses = [](std::size_t, HostBooleans) {
    return std::vector{InputUse::data, InputUse::data, InputUse::shape_only};
  };
  registry.add({.name = "conv2d_backward_input", .infer = infer_backward<2, 1>, .uses = uses});
  registry.add({.name = "conv2d_backward_filter", .infer = infer_backward<1, 2>, .uses = uses});
}

Value conv2d(Value x, Value w, Conv2dOptions options, Where where) {
  return x.graph().add_node("conv2d", {x, w}, options, "conv2d", where).output();
}
Value conv2d_backward_input(Value dy, Value w, Value x, Conv2dOptions options) {
  return dy.graph().add_node("conv2d_backward_input", {dy, w, x}, options, "conv2d_backward_input").output();
}
Value conv2d_backward_filter(Value dy, Value x, Value w, Conv2dOptions options) {
  return dy.graph().add_node("conv2d_backward_filter", {dy, x, w}, options, "conv2d_backward_filter").output();
}

}  // namespace sectionflow
