#include "bench/ops/bench_case.h"
#include "bench/ops/op_table.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/matmul.h"
#include "graph/ops/attention.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/convolution.h"
#include "graph/ops/matmul.h"

namespace sectionflow::bench {
namespace {

/// The shape of x with another last axis.
Shape with_last(const Shape& x, std::int64_t last) {
  std::vector<std::int64_t> dims = x.dims();
  dims.back() = last;
  return Shape(std::move(dims));
}

/// `kOp` is a convolution, w [K..., C / groups, F], or a transposed one, w [K..., F / groups, C].
template <std::size_t kRank, Value (*kOp)(Value, Value, const ConvNdOptions<kRank>&, Where), bool kTransposed>
void convolution(CaseBuilder& b) {
  const Settings& settings = b.settings();
  ConvNdOptions<kRank> options;
  options.stride = settings.per_axis<kRank>("stride");
  options.padding = settings.padding<kRank>("padding");
  options.groups = settings.count("groups");
  const PerAxis<kRank> kernel = settings.per_axis<kRank>("kernel");
  std::vector<std::int64_t> w(kernel.begin(), kernel.end());
  const std::int64_t channels = b.shape()[-1], filters = settings.count("filters");
  if (kTransposed) {
    w.insert(w.end(), {std::max<std::int64_t>(1, filters / options.groups), channels});
  } else {
    w.insert(w.end(), {std::max<std::int64_t>(1, channels / options.groups), filters});
  }
  const Value x = b.operand(b.shape());
  b.result(kOp(x, b.operand(Shape(std::move(w))), options, Where::here()));
}

void product(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  b.result(matmul(x, b.operand({b.shape()[-1], b.settings().count("columns")})));
}

void batch_product(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  std::vector<std::int64_t> second = b.shape().dims();
  second[second.size() - 2] = b.shape()[-1];
  second.back() = b.settings().count("columns");
  b.result(matmul(x, b.operand(Shape(std::move(second)))));
}

void product_over_rows(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  b.result(matmul_over_rows(x, b.operand(with_last(b.shape(), b.settings().count("columns")))));
}

void dense_layer(CaseBuilder& b) {
  const std::int64_t columns = b.settings().count("columns");
  const Value x = b.operand(b.shape());
  const Value y = matmul(x, b.operand({b.shape()[-1], columns}));
  b.result(bias_add(y, b.operand({columns})));
}

void bias(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  b.result(bias_add(x, b.operand({b.shape()[-1]})));
}

void attention_heads(CaseBuilder& b) {
  const Shape& q = b.shape();
  const Shape keys{q[0], q[1], b.settings().count("keys"), q[3]};
  const Value query = b.operand(q), key = b.operand(keys), value = b.operand(keys);
  b.result(attention(query, key, value, {.causal = b.settings().yes_or_no("causal")}));
}

}  // namespace

void add_layer_ops(std::vector<BenchedOp>& ops) {
  const BenchedOp all[] = {
      {.name = "conv2d",
       .axes = "[N, H, W, C]",
       .shape = "32x56x56x64",
       .settings = {{"filters", "64"}, {"kernel", "3"}, {"stride", "1"}, {"padding", "same"}, {"groups", "1"}},
       .build = convolution<2, conv2d, false>},
      {.name = "conv3d",
       .axes = "[N, D, H, W, C]",
       .shape = "4x24x24x24x32",
       .settings = {{"filters", "32"}, {"kernel", "3"}, {"stride", "1"}, {"padding", "same"}, {"groups", "1"}},
       .build = convolution<3, conv3d, false>},
      {.name = "conv_transpose2d",
       .axes = "[N, H, W, C]",
       .shape = "16x28x28x128",
       .settings = {{"filters", "64"}, {"kernel", "2"}, {"stride", "2"}, {"padding", "same"}, {"groups", "1"}},
       .build = convolution<2, conv_transpose2d, true>},
      {.name = "conv_transpose3d",
       .axes = "[N, D, H, W, C]",
       .shape = "4x12x12x12x64",
       .settings = {{"filters", "32"}, {"kernel", "2"}, {"stride", "2"}, {"padding", "same"}, {"groups", "1"}},
       .build = convolution<3, conv_transpose3d, true>},
      {.name = "matmul",
       .axes = "[..., M, K]",
       .shape = "1024x1024",
       .settings = {{"columns", "1024"}},
       .build = product},
      {.name = "batch_matmul",
       .axes = "[..., B, M, K]",
       .shape = "48x256x256",
       .settings = {{"columns", "256"}},
       .build = batch_product},
      {.name = "matmul_over_rows",
       .axes = "[..., R, M]",
       .shape = "4096x512",
       .settings = {{"columns", "512"}},
       .build = product_over_rows},
      {.name = "dense",
       .axes = "[..., R, C]",
       .shape = "4096x512",
       .settings = {{"columns", "512"}},
       .build = dense_layer},
      {.name = "bias_add", .axes = "[..., C]", .shape = "64x56x56x64", .build = bias},
      {.name = "attention",
       .axes = "[N, H, T, D]",
       .shape = "4x12x256x64",
       .settings = {{"keys", "256"}, {"causal", "no"}},
       .build = attention_heads}};
  ops.insert(ops.end(), std::begin(all), std::end(all));
}

}  // namespace sectionflow::bench
