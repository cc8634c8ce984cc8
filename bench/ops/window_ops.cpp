#include <algorithm>

#include "bench/ops/bench_case.h"
#include "bench/ops/op_table.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/ctc_loss.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/pool.h"
#include "graph/ops/softmax.h"

namespace sectionflow::bench {
namespace {

template <std::size_t kRank, Value (*kOp)(Value, PoolNdOptions<kRank>, Where)>
void pool(CaseBuilder& b) {
  PoolNdOptions<kRank> options;
  options.window = b.settings().per_axis<kRank>("kernel");
  options.stride = b.settings().per_axis<kRank>("stride");
  options.padding = b.settings().padding<kRank>("padding");
  b.result(kOp(b.operand(b.shape()), options, Where::here()));
}

template <Value (*kOp)(Value, DataFormat, Where)>
void global_pool(CaseBuilder& b) {
  b.result(kOp(b.operand(b.shape()), DataFormat::nhwc, Where::here()));
}

/// In training: mean and variance are those of the batch.
void batch_norm_case(CaseBuilder& b) {
  const Shape channels{b.shape()[-1]};
  const Value x = b.operand(b.shape()), scale = b.f32_operand(channels), shift = b.f32_operand(channels);
  const Value mean = b.constant_operand(channels, Dtype::f32, -1, 1);
  const Value variance = b.constant_operand(channels, Dtype::f32, 0.5, 1);
  b.result(batch_norm(x, scale, shift, mean, variance, b.yes()).y);
}

void layer_norm_case(CaseBuilder& b) {
  const Shape last{b.shape()[-1]};
  const Value x = b.operand(b.shape()), scale = b.f32_operand(last);
  b.result(layer_norm(x, scale, b.f32_operand(last)));
}

void rms_norm_case(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  b.result(rms_norm(x, b.f32_operand({b.shape()[-1]})));
}

void norm_of_groups(CaseBuilder& b, std::int64_t groups) {
  const Shape channels{b.shape()[-1]};
  const Value x = b.operand(b.shape()), scale = b.f32_operand(channels);
  b.result(group_norm(x, scale, b.f32_operand(channels), {.groups = groups}));
}
void group_norm_case(CaseBuilder& b) {
  norm_of_groups(b, b.settings().count("groups"));
}
/// A group for each channel.
void instance_norm_case(CaseBuilder& b) {
  norm_of_groups(b, b.shape()[-1]);
}

template <Value (*kOp)(Value, Where)>
void of_rows(CaseBuilder& b) {
  b.result(kOp(b.operand(b.shape()), Where::here()));
}

void cross_entropy(CaseBuilder& b) {
  const Value logits = b.operand(b.shape());
  const auto classes = static_cast<double>(b.shape()[1]);
  b.result(softmax_cross_entropy(logits, b.constant_operand({b.shape()[0]}, Dtype::i32, 0, classes)));
}

/// All steps, and a label for four of them.
void ctc_loss_case(CaseBuilder& b) {
  const std::int64_t examples = b.shape()[0], steps = b.shape()[1], num_labels = std::max<std::int64_t>(1, steps / 4);
  const Value logits = b.operand(b.shape());
  const auto lengths = [&](std::int64_t length) {
    const auto number = static_cast<double>(length);
    return b.constant_operand({examples}, Dtype::i32, number, number + 0.5);
  };
  const Value labels =
      b.constant_operand({examples, num_labels}, Dtype::i32, 1, std::max(1.5, static_cast<double>(b.shape()[2])));
  b.result(ctc_loss(logits, labels, lengths(steps), lengths(num_labels)));
}

}  // namespace

void add_window_ops(std::vector<BenchedOp>& ops) {
  const std::vector<DefaultSetting> halved = {{"kernel", "2"}, {"stride", "2"}, {"padding", "valid"}};
  const std::vector<DefaultSetting> overlapping = {{"kernel", "3"}, {"stride", "2"}, {"padding", "same"}};
  const std::string image = "[N, H, W, C]", volume = "[N, D, H, W, C]", rows = "[..., C]";
  const BenchedOp all[] = {
      {.name = "max_pool2d",
       .axes = image,
       .shape = "64x56x56x64",
       .settings = overlapping,
       .build = pool<2, max_pool2d>},
      {.name = "average_pool2d",
       .axes = image,
       .shape = "64x56x56x64",
       .settings = halved,
       .build = pool<2, average_pool2d>},
      {.name = "max_pool3d",
       .axes = volume,
       .shape = "4x48x48x48x32",
       .settings = halved,
       .build = pool<3, max_pool3d>},
      {.name = "average_pool3d",
       .axes = volume,
       .shape = "4x48x48x48x32",
       .settings = halved,
       .build = pool<3, average_pool3d>},
      {.name = "global_average_pool2d",
       .axes = image,
       .shape = "64x56x56x64",
       .build = global_pool<global_average_pool2d>},
      {.name = "batch_norm", .axes = "[..., N, C]", .shape = "64x56x56x64", .build = batch_norm_case},
      {.name = "layer_norm", .axes = rows, .shape = "16384x768", .build = layer_norm_case},
      {.name = "rms_norm", .axes = rows, .shape = "16384x768", .build = rms_norm_case},
      {.name = "group_norm",
       .axes = "[N, ..., C]",
       .shape = "64x56x56x64",
       .settings = {{"groups", "32"}},
       .build = group_norm_case},
      {.name = "instance_norm", .axes = "[N, ..., C]", .shape = "64x56x56x64", .build = instance_norm_case},
      {.name = "softmax", .axes = rows, .shape = "16384x768", .build = of_rows<softmax>},
      {.name = "log_softmax", .axes = rows, .shape = "16384x768", .build = of_rows<log_softmax>},
      {.name = "softmax_cross_entropy", .axes = "[N, C]", .shape = "1024x16384", .build = cross_entropy},
      {.name = "ctc_loss", .axes = "[N, T, C]", .shape = "16x512x1024", .build = ctc_loss_case}};
  ops.insert(ops.end(), std::begin(all), std::end(all));
}

}  // namespace sectionflow::bench
