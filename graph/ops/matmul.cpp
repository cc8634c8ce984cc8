#include "graph/ops/matmul.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/nodes/matmul.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// The dimensions that the first `count` of a and b stand for, where a known one decides an unknown one.
std::vector<std::int64_t> leading_dims(const ShapeRequest& request, int count) {
  const Shape& a = request.inputs[request.inputs.size() - 2].shape;
  const Shape& b = request.inputs.back().shape;
  std::vector<std::int64_t> dims;
  for (int i = 0; i < count; ++i) {
    SF_CHECK(a[i] == b[i] || a[i] == kDynamic || b[i] == kDynamic, ShapeError, request.label, " got ", a, " and ", b,
             "; leading dimensions ", a[i], " and ", b[i], " differ; wanted equal ones");
    dims.push_back(a[i] == kDynamic ? b[i] : a[i]);
  }
  return dims;
}

/// a and b are the last two inputs.
std::vector<TensorType> infer_matmul(const ShapeRequest& request) {
  const Dtype dtype = check_f32_or_bf16(request);
  const std::size_t first = request.inputs.size() - 2;
  const Shape& a = request.inputs[first].shape;
  const Shape& b = request.inputs[first + 1].shape;
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

std::vector<TensorType> infer_add_matmul(const ShapeRequest& request) {
  const TensorType product = infer_matmul(request)[0], x = request.inputs[0];
  SF_CHECK(may_agree(x, product), ShapeError, request.label, " got x ", x.text(), " and a product ", product.text(),
           "; wanted equal shapes");
  return {x.shape.is_static() ? x : product};
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

std::int64_t product_of(const Shape& shape, int begin, int end) {
  std::int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= shape[axis];
  return product;
}

/// Blocks of near 256 rows, for products of `entries` times `rows_an_entry` rows of up to `width` numbers.
///
/// Only of rows as long as a vocabulary: their matrix fits no cache, and a tile of it that serves block after block
/// makes up for what more and smaller products cost. Products of half that width would take 4 to 12 % longer.
ProductBlocks blocks_of(std::int64_t entries, std::int64_t rows_an_entry, std::int64_t width, bool sums) {
  constexpr std::int64_t kFewest = 128, kWanted = 256, kMost = 512;
  const std::int64_t rows = entries * rows_an_entry;
  if (width < kLeastWidthOfBlocks || rows < 2 * kFewest) return {};
  const auto fits = [=](std::int64_t block) {
    return rows % block == 0 && rows >= 2 * block && (block % rows_an_entry == 0 || rows_an_entry % block == 0);
  };
  const auto of = [=](std::int64_t block) {
    return ProductBlocks{block, std::max<std::int64_t>(1, block / rows_an_entry), sums};
  };
  for (std::int64_t block = kWanted; block >= kFewest; --block) {
    if (fits(block)) return of(block);
  }
  for (std::int64_t block = kWanted + 1; block <= kMost; ++block) {
    if (fits(block)) return of(block);
  }
  return {};
}

/// The parts of a product in these blocks.
std::optional<RowParts> parts_of(const ProductBlocks& blocks) {
  if (!blocks) return std::nullopt;
  if (!blocks.sums) {
    return RowParts{.inputs = {PartUse::rows, PartUse::whole}, .outputs = {PartUse::rows}, .block = blocks.entries};
  }
  return RowParts{.inputs = {PartUse::rows, PartUse::rows}, .outputs = {PartUse::sum}, .block = blocks.entries};
}

std::optional<RowParts> matmul_parts(const ConcreteRequest& r) {
  const ProductBlocks blocks = matmul_blocks(r.inputs[0].shape, r.inputs[1].shape, r.get<MatmulOptions>());
  // A sum of bf16 would be rounded after every part.
  if (blocks.sums && r.outputs[0].dtype != Dtype::f32) return std::nullopt;
  return parts_of(blocks);
}

std::optional<RowParts> over_rows_parts(const ConcreteRequest& r) {
  if (r.outputs[0].dtype != Dtype::f32) return std::nullopt;
  return parts_of(over_rows_blocks(r.inputs[0].shape, r.inputs[1].shape));
}

/// |A| |B| |C| of a product of [m, k] and [k, n] is the square of m k n. a and b are the last two inputs.
double product_flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const Shape &a = inputs[inputs.size() - 2].shape, &b = inputs.back().shape, &y = outputs[0].shape;
  double batch = 1;
  if (a.rank() > 2 && b.rank() > 2) {
    for (int axis = 0; axis + 2 < y.rank(); ++axis) batch *= static_cast<double>(y[axis]);
  }
  const auto elements = [](const Shape& shape) { return static_cast<double>(shape.num_elements()); };
  return 2 * std::sqrt(elements(a) * elements(b) * elements(y) / std::max(1.0, batch));
}

}  // namespace

ProductBlocks matmul_blocks(const Shape& a, const Shape& b, const MatmulOptions& options) {
  if (a.rank() > 2 && b.rank() > 2) return {};
  const std::int64_t b_rows = b[options.transpose_b ? 1 : 0], columns = b[options.transpose_b ? 0 : 1];
  // y = a^T b with both as they lie is a sum over their rows.
  if (options.transpose_a) {
    return options.transpose_b ? ProductBlocks() : blocks_of(a[0], 1, std::max(a[1], columns), true);
  }
  return blocks_of(a[0], product_of(a, 1, a.rank() - 1), std::max(b_rows, columns), false);
}

ProductBlocks over_rows_blocks(const Shape& a, const Shape& b) {
  if (a.rank() < 2) return {};
  return blocks_of(a[0], product_of(a, 1, a.rank() - 1), std::max(a[-1], b[-1]), true);
}

void define_matmul_ops(OpRegistry& registry) {
  const auto options = described_by<MatmulOptions>([](auto& fields, auto& options) {
    fields("transpose_a", options.transpose_a);
    fields("transpose_b", options.transpose_b);
  });
  registry.add(
      {.name = "add_matmul", .inputs = 3, .options = options, .infer = infer_add_matmul, .flops = product_flops});
  registry.add({.name = "matmul",
                .inputs = 2,
                .options = options,
                .infer = infer_matmul,
                .parts = matmul_parts,
                .flops = product_flops});
  registry.add({.name = "matmul_over_rows",
                .inputs = 2,
                .infer = infer_over_rows,
                .parts = over_rows_parts,
                .flops = product_flops});
}

Value matmul(Value a, Value b, MatmulOptions options, Where where) {
  return a.graph().add_node("matmul", {a, b}, options, "matmul", where).output();
}
Value add_matmul(Value x, Value a, Value b, MatmulOptions options) {
  return a.graph().add_node("add_matmul", {x, a, b}, options, "add_matmul").output();
}
Value matmul_over_rows(Value a, Value b) {
  return a.graph().add_node("matmul_over_rows", {a, b}, {}, "matmul_over_rows").output();
}

}  // namespace sectionflow
