#include <array>

#include "graph/nodes/matmul.h"
#include "graph/nodes/window.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/convolution.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/lstm_step.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pool.h"
#include "graph/ops/softmax.h"
#include "graph/parameter.h"
#include "tests/support/gradient_subjects.h"

namespace sectionflow::testing_support {
namespace {

constexpr DrawnRange kScale{.low = 0.5, .high = 1.5};

DataFormat any_format(SubjectBuilder& b) {
  return b.coin() ? DataFormat::nhwc : DataFormat::nchw;
}

template <bool kAdds>
void matmul_subject(SubjectBuilder& b) {
  const std::int64_t m = b.number(1, 3), k = b.number(1, 4), n = b.number(1, 3);
  const bool is_batch = b.coin(), is_shared = is_batch && b.coin();
  const MatmulOptions options{.transpose_a = !is_shared && b.coin(), .transpose_b = b.coin()};
  std::vector<std::int64_t> first, second;
  if (is_batch) first = b.shape(static_cast<int>(b.number(1, 2)), 3).dims();
  if (!is_shared) second = first;
  first.insert(first.end(), {options.transpose_a ? k : m, options.transpose_a ? m : k});
  second.insert(second.end(), {options.transpose_b ? n : k, options.transpose_b ? k : n});
  const Value x = b.source(Shape(first)), y = matmul(x, b.source(Shape(second)), options);
  b.result(kAdds ? add_matmul(b.source(y.shape()), x, y.node().inputs()[1], options) : y);
}

void lstm_step_subject(SubjectBuilder& b) {
  std::vector<std::int64_t> dims = b.shape(static_cast<int>(b.number(1, 3)), 3).dims();
  const Value cell = b.source(Shape(dims));
  dims.back() *= 4;
  const LstmStep step = lstm_step(b.source(Shape(dims)), cell);
  b.result(step.output);
  if (b.coin()) b.result(step.cell);
}

void matmul_over_rows_subject(SubjectBuilder& b) {
  std::vector<std::int64_t> dims = b.shape(static_cast<int>(b.number(1, 3)), 3).dims();
  const Value x = b.source(Shape(dims));
  dims.back() = b.number(1, 4);
  b.result(matmul_over_rows(x, b.source(Shape(dims))));
}

void bias_add_subject(SubjectBuilder& b) {
  const DataFormat format = any_format(b);
  const Shape shape = b.shape(static_cast<int>(b.number(format == DataFormat::nhwc ? 1 : 2, 4)));
  const Value x = b.source(shape);
  b.result(bias_add(x, b.source({shape[channel_axis(format)]}), {.format = format}));
}

/// `axes` with a number from `low` to `high` for each.
template <std::size_t rank>
void draw(SubjectBuilder& b, PerAxis<rank>& axes, std::int64_t low, std::int64_t high) {
  std::array<std::int64_t, rank> numbers;
  for (std::int64_t& number : numbers) number = b.number(low, high);
  axes = numbers;
}

/// Options of a window that fits an image of 4 along each axis.
template <class Options, std::size_t rank>
Options any_window(SubjectBuilder& b) {
  Options options{.format = any_format(b)};
  draw(b, options.stride, 1, 2);
  const std::int64_t kind = b.number(0, 2);
  PerAxis<rank> before, after;
  draw(b, before, 0, 1);
  draw(b, after, 0, 1);
  options.padding = kind == 0 ? SpatialPadding<rank>::same
                              : (kind == 1 ? SpatialPadding<rank>::valid : SpatialPadding<rank>(before, after));
  return options;
}

Shape image(SubjectBuilder& b, std::size_t rank, std::int64_t channels, DataFormat format, std::int64_t least = 4) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < rank; ++i) sizes.push_back(b.number(least, 5));
  return image_shape({b.number(1, 2), channels, std::move(sizes)}, format);
}

/// `kOp` is a convolution or a transposed one, whose filter is [.., outputs, inputs].
template <std::size_t rank, Value (*kOp)(Value, Value, const ConvNdOptions<rank>&, Where), bool kTransposed>
void convolution_subject(SubjectBuilder& b) {
  auto options = any_window<ConvNdOptions<rank>, rank>(b);
  options.groups = b.number(1, 2);
  draw(b, options.dilation, 1, 2);
  if constexpr (kTransposed) {
    if (options.padding.kind() != PaddingKind::same) {
      std::array<std::int64_t, rank> output_padding;
      for (std::size_t i = 0; i < rank; ++i) output_padding[i] = b.number(0, options.stride[i] - 1);
      options.output_padding = output_padding;
    }
  }
  const std::int64_t inputs = options.groups * b.number(1, 2), outputs = options.groups * b.number(1, 2);
  std::vector<std::int64_t> w;
  for (std::size_t i = 0; i < rank; ++i) w.push_back(b.number(1, 2));
  if (kTransposed) {
    w.insert(w.end(), {outputs / options.groups, inputs});
  } else {
    w.insert(w.end(), {inputs / options.groups, outputs});
  }
  const Value x = b.source(image(b, rank, inputs, options.format, kTransposed ? 3 : 4));
  b.result(kOp(x, b.source(Shape(std::move(w))), options, {}));
}

template <std::size_t rank, Value (*kOp)(Value, PoolNdOptions<rank>, Where)>
void pool_subject(SubjectBuilder& b) {
  auto options = any_window<PoolNdOptions<rank>, rank>(b);
  draw(b, options.window, 2, 3);
  options.include_padding = b.coin();
  const Shape shape = image(b, rank, b.number(1, 3), options.format);
  b.result(kOp(b.source(shape, {.distinct = true}), options, {}));
}

void batch_norm_subject(SubjectBuilder& b) {
  const BatchNormOptions options{.epsilon = 0.01F, .relu = b.coin(), .format = any_format(b)};
  std::vector<std::int64_t> dims = b.shape(static_cast<int>(b.number(2, 4)), 3).dims();
  dims[0] = b.number(4, 6);
  const Shape channels = {Shape(dims)[channel_axis(options.format)]};
  const Value x = b.source(Shape(dims)), scale = b.source(channels, kScale), shift = b.source(channels);
  const Value mean = b.data(channels), variance = b.data(channels, kScale);
  b.result(batch_norm(x, scale, shift, mean, variance, b.flag(b.number(0, 2) > 0), options).y);
}

void layer_norm_subject(SubjectBuilder& b) {
  std::vector<std::int64_t> dims = b.shape(static_cast<int>(b.number(1, 3)), 3).dims();
  dims.back() = b.number(3, 6);
  const Value x = b.source(Shape(dims)), scale = b.source({dims.back()}, kScale);
  b.result(layer_norm(x, scale, b.source({dims.back()}), {.epsilon = b.coin() ? 0.01F : 0.1F}));
}

void group_norm_subject(SubjectBuilder& b) {
  const GroupNormOptions options{.groups = b.number(1, 3), .epsilon = 0.05F, .format = any_format(b)};
  const std::int64_t rank = b.number(2, 5), images = b.number(1, 2), places = rank == 2 ? 1 : b.number(1, 3);
  const std::int64_t channels = options.groups * b.number(places == 1 ? 3 : 1, 3);
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), 1);
  dims[0] = images;
  for (std::size_t axis = 1; axis < dims.size(); ++axis) dims[axis] = axis <= 2 ? places : 2;
  dims[options.format == DataFormat::nhwc ? dims.size() - 1 : 1] = channels;
  const Value x = b.source(Shape(dims)), scale = b.source({channels}, kScale);
  b.result(group_norm(x, scale, b.source({channels}), options));
}

void rms_norm_subject(SubjectBuilder& b) {
  std::vector<std::int64_t> dims = b.shape(static_cast<int>(b.number(1, 3)), 3).dims();
  dims.back() = b.number(2, 6);
  const Value x = b.source(Shape(dims)), scale = b.source({dims.back()}, kScale);
  b.result(rms_norm(x, scale, {.epsilon = b.coin() ? 0.01F : 0.1F}));
}

template <Value (*kOp)(Value, Where)>
void softmax_subject(SubjectBuilder& b) {
  b.result(kOp(b.source(b.shape(static_cast<int>(b.number(1, 3)), 5)), {}));
}

void cross_entropy_subject(SubjectBuilder& b) {
  const std::int64_t rows = b.number(1, 4), classes = b.number(2, 5);
  const Value logits = b.source({rows, classes});
  const Value labels =
      b.coin() ? b.whole_numbers({rows}, 0, classes - 1) : b.data({rows, classes}, {.low = 0.1, .high = 0.9});
  SoftmaxCrossEntropyOptions options{.label_smoothing = b.coin() ? 0.0F : 0.2F};
  if (b.coin()) options.class_weights = b.data({classes}, kScale);
  b.result(softmax_cross_entropy(logits, labels, options));
}

template <bool kDrops>
void attention_subject(SubjectBuilder& b) {
  AttentionOptions options{.causal = b.coin()};
  if (b.coin()) options.scale = 0.7F;
  if (b.number(0, 3) == 0) options.window = b.number(1, 3);
  const std::int64_t images = b.number(1, 2), groups = b.number(1, 2), heads = groups * b.number(1, 2),
                     width = b.number(1, 4), queries = b.number(1, 4);
  std::int64_t keys = b.number(2, 4);
  if (options.causal || options.window > 0) {
    options.alignment = std::array{CausalAlignment::equal, CausalAlignment::first_key,
                                   CausalAlignment::last_key}[static_cast<std::size_t>(b.number(0, 2))];
    if (options.alignment == CausalAlignment::equal) keys = queries;
    if (options.alignment == CausalAlignment::last_key) keys += queries - 1;
  }
  if (b.coin()) options.key_lengths = b.whole_numbers({images}, 0, keys + 1);
  const auto of_mask = [&](std::int64_t size) { return b.coin() ? size : std::int64_t{1}; };
  const Shape mask{of_mask(images), of_mask(heads), of_mask(queries), keys};
  if (b.coin()) {
    options.mask = b.source(mask);
  } else if (b.coin()) {
    options.mask = greater(b.data(mask), constant(b.graph, -0.5F));
  }
  if (kDrops) {
    options.dropout = 0.4F;
    options.is_training = b.flag(b.number(0, 3) > 0);
  }
  const Value q = b.source({images, heads, queries, width}), k = b.source({images, groups, keys, width});
  b.result(attention(q, k, b.source({images, groups, keys, width}), options));
}

}  // namespace

void add_layer_subjects(std::vector<GradientSubject>& subjects) {
  const GradientSubject all[] = {{"matmul", matmul_subject<false>},
                                 {"add_matmul", matmul_subject<true>},
                                 {"lstm_step", lstm_step_subject},
                                 {"matmul_over_rows", matmul_over_rows_subject},
                                 {"bias_add", bias_add_subject},
                                 {"conv2d", convolution_subject<2, conv2d, false>},
                                 {"conv3d", convolution_subject<3, conv3d, false>},
                                 {"conv_transpose2d", convolution_subject<2, conv_transpose2d, true>},
                                 {"conv_transpose3d", convolution_subject<3, conv_transpose3d, true>},
                                 {"max_pool2d", pool_subject<2, max_pool2d>},
                                 {"average_pool2d", pool_subject<2, average_pool2d>},
                                 {"max_pool3d", pool_subject<3, max_pool3d>},
                                 {"average_pool3d", pool_subject<3, average_pool3d>},
                                 {"batch_norm", batch_norm_subject},
                                 {"layer_norm", layer_norm_subject},
                                 {"rms_norm", rms_norm_subject},
                                 {"group_norm", group_norm_subject},
                                 {"softmax", softmax_subject<softmax>},
                                 {"log_softmax", softmax_subject<log_softmax>},
                                 {"softmax_cross_entropy", cross_entropy_subject},
                                 {"attention", attention_subject<false>},
                                 {"attention_dropout", attention_subject<true>}};
  subjects.insert(subjects.end(), std::begin(all), std::end(all));
}

}  // namespace sectionflow::testing_support
