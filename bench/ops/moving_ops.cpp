#include <algorithm>

#include "bench/ops/bench_case.h"
#include "bench/ops/op_table.h"
#include "graph/index_functions.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/random.h"
#include "graph/ops/ranking.h"
#include "graph/ops/resize.h"
#include "graph/ops/scan.h"
#include "graph/ops/scatter.h"

namespace sectionflow::bench {
namespace {

void gather_case(CaseBuilder& b) {
  const Value table = b.operand(b.shape());
  const auto rows = static_cast<double>(b.shape()[0]);
  b.result(gather(table, b.constant_operand({b.settings().count("indices")}, Dtype::i32, 0, rows)));
}

/// As many rows as there are indices, added to those of a table.
void scatter_add_case(CaseBuilder& b) {
  const Value table = b.operand(b.shape());
  std::vector<std::int64_t> dims = b.shape().dims();
  const auto rows = static_cast<double>(dims[0]);
  dims[0] = b.settings().count("indices");
  const Value indices = b.constant_operand({dims[0]}, Dtype::i32, 0, rows);
  b.result(scatter_add(table, indices, b.operand(Shape(dims))));
}

/// Rows of the first two axes by both their places.
void gather_nd_case(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  const auto places = static_cast<double>(std::min(b.shape()[0], b.shape()[1]));
  b.result(gather_nd(x, b.constant_operand({b.settings().count("indices"), 2}, Dtype::i32, 0, places)));
}

void segment_sum_case(CaseBuilder& b) {
  const std::int64_t segments = b.settings().count("segments");
  const Value x = b.operand(b.shape());
  const Value ids = b.constant_operand({b.shape()[0]}, Dtype::i32, 0, static_cast<double>(segments));
  b.result(segment_sum(x, ids, segments));
}

void cumsum_case(CaseBuilder& b) {
  b.result(cumsum(b.operand(b.shape()), b.settings().axis("axis")));
}

void top_k_case(CaseBuilder& b) {
  b.result(top_k(b.operand(b.shape()), b.settings().count("k")).values);
}

void categorical_case(CaseBuilder& b) {
  b.result(categorical(b.operand(b.shape()), {.draws = b.settings().count("draws")}));
}

/// Draws without replacement: numbers to be added to logits, of which top_k takes the largest.
void gumbel_case(CaseBuilder& b) {
  b.result(random_gumbel_like(b.operand(b.shape())));
}

void concat_case(CaseBuilder& b) {
  std::vector<Value> parts;
  for (std::int64_t i = 0; i < b.settings().count("parts"); ++i) parts.push_back(b.operand(b.shape()));
  b.result(concat(parts, b.settings().axis("axis")));
}

/// The second half along an axis.
void slice_case(CaseBuilder& b) {
  const int axis = normalized_axis(b.settings().axis("axis"), b.shape().rank(), "slice: --axis");
  SliceOptions options{.begin = std::vector<std::int64_t>(b.shape().dims().size(), 0), .size = b.shape().dims()};
  const auto place = static_cast<std::size_t>(axis);
  options.begin[place] = options.size[place] / 2;
  options.size[place] -= options.begin[place];
  b.result(slice(b.operand(b.shape()), options));
}

/// Around every axis but the first and the last.
void pad_case(CaseBuilder& b) {
  std::vector<std::int64_t> border(b.shape().dims().size(), b.settings().count("padding"));
  border.front() = border.back() = 0;
  b.result(pad(b.operand(b.shape()), {.before = border, .after = border}));
}

/// The last axis comes to the second place, as from NHWC to NCHW.
void transpose_case(CaseBuilder& b) {
  std::vector<int> permutation = {0, b.shape().rank() - 1};
  for (int axis = 1; axis + 1 < b.shape().rank(); ++axis) permutation.push_back(axis);
  if (b.shape().rank() == 2) permutation = {1, 0};
  b.result(transpose(b.operand(b.shape()), permutation));
}

/// To the nearest pixels of a larger image.
void resize_case(CaseBuilder& b) {
  const std::int64_t factor = b.settings().count("factor");
  const Shape& x = b.shape();
  b.result(resize2d(b.operand(x), {.height = x[1] * factor, .width = x[2] * factor}));
}

}  // namespace

void add_moving_ops(std::vector<BenchedOp>& ops) {
  const BenchedOp all[] = {
      {.name = "gather",
       .axes = "[V, ...]",
       .shape = "32768x512",
       .settings = {{"indices", "16384"}},
       .build = gather_case},
      {.name = "scatter_add",
       .axes = "[V, ...]",
       .shape = "32768x512",
       .settings = {{"indices", "16384"}},
       .build = scatter_add_case},
      {.name = "gather_nd",
       .axes = "[A, B, ...]",
       .shape = "256x128x512",
       .settings = {{"indices", "16384"}},
       .build = gather_nd_case},
      {.name = "segment_sum",
       .axes = "[R, ...]",
       .shape = "32768x512",
       .settings = {{"segments", "1024"}},
       .build = segment_sum_case},
      {.name = "cumsum",
       .axes = "[..., A]",
       .shape = "64x56x56x64",
       .settings = {{"axis", "-1"}},
       .build = cumsum_case},
      {.name = "top_k", .axes = "[..., C]", .shape = "64x50257", .settings = {{"k", "40"}}, .build = top_k_case},
      {.name = "categorical",
       .axes = "[..., C]",
       .shape = "64x50257",
       .settings = {{"draws", "1"}},
       .build = categorical_case,
       .has_gradient = false},
      {.name = "random_gumbel_like",
       .axes = "[..., A]",
       .shape = "64x50257",
       .build = gumbel_case,
       .has_gradient = false,
       .takes_bf16 = false},
      {.name = "concat",
       .axes = "[..., A]",
       .shape = "32x56x56x64",
       .settings = {{"parts", "2"}, {"axis", "-1"}},
       .build = concat_case},
      {.name = "slice", .axes = "[..., A]", .shape = "64x56x56x64", .settings = {{"axis", "-1"}}, .build = slice_case},
      {.name = "pad",
       .axes = "[..., N, H, C]",
       .shape = "64x56x56x64",
       .settings = {{"padding", "1"}},
       .build = pad_case},
      {.name = "transpose", .axes = "[..., N, C]", .shape = "64x56x56x64", .build = transpose_case},
      {.name = "resize2d",
       .axes = "[N, H, W, C]",
       .shape = "16x56x56x64",
       .settings = {{"factor", "2"}},
       .build = resize_case}};
  ops.insert(ops.end(), std::begin(all), std::end(all));
}

}  // namespace sectionflow::bench
