#include "graph/ops/matmul.h"

#include <algorithm>
#include <cmath>

#include "graph/nodes/matmul.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// The dimensions that the first `count` of a and b stand for, where a known one decides an unknown one.
std::vector<std::int64_t> leading_dims(const ShapeRequest& request, int count) {
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  std::vector<std::int64_t> dims;
  for (int i = 0; i < count; ++i) {
    SF_CHECK(a[i] == b[i] || a[i] == kDynamic || b[i] == kDynamic, ShapeError, request.label, " got ", a, " and ", b,
             "; leading dimensions ", a[i], " and ", b[i], " differ; wanted equal ones");
    dims.push_back(a[i] == kDynamic ? b[i] : a[i]);
  }
  return dims;
}

std::vector<TensorType> infer_matmul(const ShapeRequest& request) {
  const Dtype dtype = check_f32_or_bf16(request);
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const auto& options = request.get<MatmulOptions>();
  SF_CHECK(a.rank() >= 2 && b.rank() >= 2 && (b.rank() == 2 || b.rank() == a.rank()), ShapeError, request.label,
           " got ", a, " x ", b, "; wanted two matrices, two batches of them, or a batch and one matrix; try reshape");
  const bool shared = b.rank() == 2 && a.rank() > 2;
  SF_CHECK(!shared || !options.transpose_a, ShapeError, request.label, " got ", a, "^T x ", b,
           "; a batch times one matrix takes a as it lies; try transpose");
  const std::int64_t inner_a = a[options.transpose_a ? -2 : -1];
  const std::int64_t inner_b = b[options.transpose_b ? -1 : -2];
  SF_CHECK(inner_a == inner_b || inner_a == kDynamic || inner_b == kDynamic, ShapeError, request.label, " got ", a,
           options.transpose_a ? "^T" : "", " x ", b, options.transpose_b ? "^T" : "", "; inner dimensions ", inner_a,
           " and ", inner_b, " differ");
  std::vector<std::int64_t> y =
      shared ? std::vector(a.dims().begin(), a.dims().end() - 2) : leading_dims(request, a.rank() - 2);
  y.push_back(a[options.transpose_a ? -1 : -2]);
  y.push_back(b[options.transpose_b ? -2 : -1]);
  return {{dtype, Shape(std::move(y))}};
}

std::vector<TensorType> infer_over_rows(const ShapeRequest& request) {
  const Dtype dtype = check_f32_or_bf16(request);
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  SF_CHECK(a.rank() >= 1 && a.rank() == b.rank(), ShapeError, request.label, " got ", a, " and ", b,
           "; wanted [..., M] and [..., N]");
  (void)leading_dims(request, a.rank() - 1);
  return {{dtype, {a[-1], b[-1]}}};
}

/// |A| |B| |C| of a product of [m, k] and [k, n] is the square of m k n.
double product_flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const Shape &a = inputs[0].shape, &b = inputs[1].shape, &y = outputs[0].shape;
  double batch = 1;
  if (a.rank() > 2 && b.rank() > 2) {
    for (int axis = 0; axis + 2 < y.rank(); ++axis) batch *= static_cast<double>(y[axis]);
  }
  const auto elements = [](const Shape& shape) { return static_cast<double>(shape.num_elements()); };
  return 2 * std::sqrt(elements(a) * elements(b) * elements(y) / std::max(1.0, batch));
}

}  // namespace

void define_matmul_ops(OpRegistry& registry) {
  registry.add({.name = "matmul",
                .inputs = 2,
                .options = described_by<MatmulOptions>([](auto& fields, auto& options) {
                  fields("transpose_a", options.transpose_a);
                  fields("transpose_b", options.transpose_b);
                }),
                .infer = infer_matmul,
                .flops = product_flops});
  registry.add({.name = "matmul_over_rows", .inputs = 2, .infer = infer_over_rows, .flops = product_flops});
}

Value matmul(Value a, Value b, MatmulOptions options, Where where) {
  return a.graph().add_node("matmul", {a, b}, options, "matmul", where).output();
}
Value matmul_over_rows(Value a, Value b) {
  return a.graph().add_node("matmul_over_rows", {a, b}, {}, "matmul_over_rows").output();
}

}  // namespace sectionflow
