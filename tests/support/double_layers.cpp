// Products, convolutions, pools, norms and losses.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "graph/nodes/attention.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/pool.h"
#include "graph/nodes/softmax.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/convolution.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/matmul.h"
#include "graph/ops/softmax.h"
#include "tests/ops/convolution_reference.h"
#include "tests/ops/pool_reference.h"
#include "tests/support/double_graph.h"
#include "tests/support/positions.h"

namespace sectionflow::testing_support {
namespace {

/// a and b are the last two inputs; what stands before them is added to.
std::vector<Doubles> product_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<MatmulOptions>();
  const std::size_t first = r.inputs.size() - 2;
  const Shape &a_shape = r.shape(first), &b_shape = r.shape(first + 1);
  const std::int64_t inner = a_shape[options.transpose_a ? -2 : -1];
  const auto rank = static_cast<std::size_t>(r.y_shape().rank());
  const bool shared = b_shape.rank() < a_shape.rank();
  Doubles y = first == 1 ? r.in(0) : Doubles(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Position place = position_of(static_cast<std::int64_t>(i), r.y_shape());
    Position a = place, b = shared ? Position(2) : place;
    for (std::int64_t k = 0; k < inner; ++k) {
      a[rank - 2] = options.transpose_a ? k : place[rank - 2];
      a[rank - 1] = options.transpose_a ? place[rank - 2] : k;
      b[b.size() - 2] = options.transpose_b ? place[rank - 1] : k;
      b[b.size() - 1] = options.transpose_b ? k : place[rank - 1];
      y[i] += r.in(first)[number_of(a, a_shape)] * r.in(first + 1)[number_of(b, b_shape)];
    }
  }
  return {y};
}

std::vector<Doubles> lstm_step_in_double(const DoubleRequest& r) {
  const auto width = static_cast<std::size_t>(r.shape(1)[-1]);
  Doubles output = r.in(1), after = output, gates = r.in(0);
  const auto is_tanh = [width](std::size_t i) { return i / width % 4 == 2; };
  for (std::size_t i = 0; i < gates.size(); ++i) {
    gates[i] = is_tanh(i) ? std::tanh(gates[i]) : 1 / (1 + std::exp(-gates[i]));
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double* of_row = &gates[i / width * 4 * width + i % width];
    after[i] = of_row[width] * after[i] + of_row[0] * of_row[2 * width];
    output[i] = of_row[3 * width] * std::tanh(after[i]);
  }
  return {output, after, gates};
}

std::vector<Doubles> product_over_rows_in_double(const DoubleRequest& r) {
  const auto m = static_cast<std::size_t>(r.shape(0)[-1]), n = static_cast<std::size_t>(r.shape(1)[-1]);
  Doubles y(m * n);
  for (std::size_t row = 0; row * m < r.in(0).size(); ++row) {
    for (std::size_t i = 0; i < m * n; ++i) y[i] += r.in(0)[row * m + i / n] * r.in(1)[row * n + i % n];
  }
  return {y};
}

/// The channel of element `i` of a tensor of images, or of rows.
std::size_t channel_of(std::size_t i, const Shape& shape, DataFormat format) {
  const Position place = position_of(static_cast<std::int64_t>(i), shape);
  return static_cast<std::size_t>(format == DataFormat::nhwc ? place.back() : place[1]);
}

std::vector<Doubles> biased_in_double(const DoubleRequest& r) {
  Doubles y = r.in(0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += r.in(1)[channel_of(i, r.y_shape(), r.node.options<BiasAddOptions>().format)];
  }
  return {y};
}

std::vector<Doubles> convolution_in_double(const DoubleRequest& r) {
  Doubles y(r.y_count());
  const auto g = convolution_geometry(r.shape(0), r.shape(1), r.node.options<ConvolutionOptions>(), "reference");
  for_each_product(g, [&](std::int64_t x, std::int64_t w, std::int64_t to) { y[to] += r.in(0)[x] * r.in(1)[w]; });
  return {y};
}

std::vector<Doubles> transposed_convolution_in_double(const DoubleRequest& r) {
  Doubles y(r.y_count());
  const auto g = convolution_geometry(r.shape(0), r.shape(1), r.node.options<ConvolutionOptions>(), "reference",
                                      ConvolutionKind::transposed);
  for_each_product(g, [&](std::int64_t to, std::int64_t w, std::int64_t x) { y[to] += r.in(0)[x] * r.in(1)[w]; });
  return {y};
}

template <bool kIsMaximum>
std::vector<Doubles> pool_in_double(const DoubleRequest& r) {
  return pool_reference(r.shape(0), r.node.options<PoolOptions>(), kIsMaximum, r.in(0));
}

std::vector<Doubles> batch_norm_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<BatchNormOptions>();
  const auto channels = static_cast<std::size_t>(r.node.output_types()[1].shape[0]);
  const double count = static_cast<double>(r.in(0).size()) / static_cast<double>(channels);
  Doubles mean(channels), variance(channels), y = r.in(0);
  const auto channel = [&](std::size_t i) { return channel_of(i, r.y_shape(), options.format); };
  for (std::size_t i = 0; i < y.size(); ++i) mean[channel(i)] += y[i] / count;
  for (std::size_t i = 0; i < y.size(); ++i) variance[channel(i)] += std::pow(y[i] - mean[channel(i)], 2) / count;
  if (r.in(5)[0] == 0) {
    mean = r.in(3);
    variance = r.in(4);
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = channel(i);
    y[i] = (y[i] - mean[c]) / std::sqrt(variance[c] + options.epsilon) * r.in(1)[c] + r.in(2)[c];
    if (options.relu) y[i] = std::max(y[i], 0.0);
  }
  return {y, mean, variance};
}

std::vector<Doubles> layer_norm_in_double(const DoubleRequest& r) {
  const double epsilon = r.node.options<LayerNormOptions>().epsilon;
  const std::size_t columns = r.in(1).size();
  Doubles y = r.in(0), means, rstds;
  for (std::size_t first = 0; first < y.size(); first += columns) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < columns; ++c) mean += y[first + c] / static_cast<double>(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      variance += std::pow(y[first + c] - mean, 2) / static_cast<double>(columns);
    }
    means.push_back(mean);
    rstds.push_back(1 / std::sqrt(variance + epsilon));
    for (std::size_t c = 0; c < columns; ++c) {
      y[first + c] = (y[first + c] - mean) * rstds.back() * r.in(1)[c] + r.in(2)[c];
    }
  }
  return {y, means, rstds};
}

std::vector<Doubles> group_norm_in_double(const DoubleRequest& r) {
  const auto options = r.node.options<GroupNormOptions>();
  const Shape& x = r.node.inputs()[0].shape();
  const auto channels = r.in(1).size(), groups = static_cast<std::size_t>(options.groups);
  Doubles y = r.in(0);
  const std::size_t image = y.size() / static_cast<std::size_t>(x[0]);
  const std::size_t inner = options.format == DataFormat::nhwc ? 1 : image / channels;
  const auto channel = [&](std::size_t i) { return i / inner % channels; };
  const auto group = [&](std::size_t i) { return i / image * groups + channel(i) / (channels / groups); };
  Doubles means(y.size() / image * groups), rstds(means.size());
  const auto count = static_cast<double>(image / groups);
  for (std::size_t i = 0; i < y.size(); ++i) means[group(i)] += y[i] / count;
  for (std::size_t i = 0; i < y.size(); ++i) rstds[group(i)] += std::pow(y[i] - means[group(i)], 2) / count;
  for (double& rstd : rstds) rstd = 1 / std::sqrt(rstd + static_cast<double>(options.epsilon));
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = (y[i] - means[group(i)]) * rstds[group(i)] * r.in(1)[channel(i)] + r.in(2)[channel(i)];
  }
  return {y, means, rstds};
}

std::vector<Doubles> rms_norm_in_double(const DoubleRequest& r) {
  const double epsilon = r.node.options<RmsNormOptions>().epsilon;
  const std::size_t columns = r.in(1).size();
  Doubles y = r.in(0), rstds;
  for (std::size_t first = 0; first < y.size(); first += columns) {
    double squares = 0;
    for (std::size_t c = 0; c < columns; ++c) squares += y[first + c] * y[first + c];
    rstds.push_back(1 / std::sqrt(squares / static_cast<double>(columns) + epsilon));
    for (std::size_t c = 0; c < columns; ++c) y[first + c] *= rstds.back() * r.in(1)[c];
  }
  return {y, rstds};
}

/// The logarithms of the softmax of each row of `columns`.
Doubles log_softmax_of(const Doubles& x, std::size_t columns) {
  Doubles y = x;
  for (std::size_t first = 0; first < y.size(); first += columns) {
    const auto begin = y.begin() + static_cast<std::ptrdiff_t>(first),
               end = begin + static_cast<std::ptrdiff_t>(columns);
    const double most = *std::max_element(begin, end);
    double sum = 0;
    for (auto value = begin; value != end; ++value) sum += std::exp(*value - most);
    for (auto value = begin; value != end; ++value) *value -= most + std::log(sum);
  }
  return y;
}

std::vector<Doubles> log_softmax_in_double(const DoubleRequest& r) {
  return {log_softmax_of(r.in(0), static_cast<std::size_t>(r.shape(0)[-1]))};
}

std::vector<Doubles> softmax_in_double(const DoubleRequest& r) {
  Doubles y = log_softmax_in_double(r)[0];
  for (double& value : y) value = std::exp(value);
  return {y};
}

/// The second output, statistics, is empty: no loss may depend on it.
std::vector<Doubles> cross_entropy_in_double(const DoubleRequest& r) {
  const double smoothing = r.node.options<SoftmaxCrossEntropyNodeOptions>().label_smoothing;
  const auto classes = static_cast<std::size_t>(r.shape(0)[1]);
  const bool is_dense = r.shape(1).rank() == 2;
  const Doubles logs = log_softmax_of(r.in(0), classes);
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const std::size_t row = i / classes, c = i % classes;
    const double label = is_dense ? r.in(1)[i] : (static_cast<std::size_t>(r.in(1)[row]) == c ? 1 : 0);
    const double weight = r.inputs.size() > 2 ? r.in(2)[c] : 1;
    y[row] -= weight * ((1 - smoothing) * label + smoothing / static_cast<double>(classes)) * logs[i];
  }
  return {y, {}};
}

/// One row of attention: a query, and the inputs that limit which keys it sees.
struct AttentionRow {
  const DoubleRequest& r;
  const AttentionNodeOptions& options;
  AttentionInputs at;
  std::size_t image, head, query;

  /// Whether it sees the key; what a mask adds to its score is added to `score`.
  bool sees(std::size_t key, double& score) const {
    const std::int64_t queries = r.shape(0)[2], num_keys = r.shape(1)[2];
    const std::int64_t place = options.alignment == CausalAlignment::last_key ? num_keys - queries : 0;
    const std::int64_t behind = static_cast<std::int64_t>(key) - place - static_cast<std::int64_t>(query);
    if (options.causal && behind > 0) return false;
    if (options.window > 0 && std::abs(behind) >= options.window) return false;
    if (at.key_lengths >= 0 && static_cast<double>(key) >= r.in(static_cast<std::size_t>(at.key_lengths))[image])
      return false;
    if (at.mask < 0) return true;
    const auto mask = static_cast<std::size_t>(at.mask);
    std::size_t place_in_mask = 0;
    const std::size_t places[] = {image, head, query, key};
    for (int axis = 0; axis < 4; ++axis) {
      const auto size = static_cast<std::size_t>(r.shape(mask)[axis]);
      place_in_mask = place_in_mask * size + (size == 1 ? 0 : places[axis]);
    }
    if (r.node.inputs()[mask].dtype() == Dtype::boolean) return r.in(mask)[place_in_mask] != 0;
    score += r.in(mask)[place_in_mask];
    return true;
  }
};

/// What is left of probability `at` of all of a node that drops some, at the address that the kernel runner uses.
double dropped_probability(const DoubleRequest& r, int is_training, double p, std::size_t at) {
  if (is_training < 0 || r.in(static_cast<std::size_t>(is_training))[0] == 0) return p;
  const auto rate = static_cast<double>(r.node.options<AttentionNodeOptions>().dropout);
  const double u = random_words({.node = r.node.random_ordinal()}, at / 4)[at % 4] * 0x1p-32;
  return u < rate ? 0 : p / (1 - rate);
}

/// The second output, the logarithms of sums, is empty: no loss may depend on it.
std::vector<Doubles> attention_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<AttentionNodeOptions>();
  const auto width = static_cast<std::size_t>(r.shape(0)[3]), queries = static_cast<std::size_t>(r.shape(0)[2]),
             keys = static_cast<std::size_t>(r.shape(1)[2]), heads = static_cast<std::size_t>(r.shape(0)[1]),
             groups = static_cast<std::size_t>(r.shape(1)[1]);
  const double scale = options.scale ? double{*options.scale} : 1 / std::sqrt(static_cast<double>(width));
  std::vector<TensorType> types;
  for (const Value& input : r.node.inputs()) types.push_back(input.type());
  const AttentionInputs at(types, 3, options.drops());
  Doubles y(r.y_count());
  for (std::size_t row = 0; row * width < y.size(); ++row) {
    const AttentionRow of{r, options, at, row / queries / heads, row / queries % heads, row % queries};
    const std::size_t first = (of.image * groups + of.head * groups / heads) * keys * width;
    std::vector<std::size_t> seen;
    Doubles scores;
    for (std::size_t s = 0; s < keys; ++s) {
      double score = 0;
      for (std::size_t c = 0; c < width; ++c) {
        score += scale * r.in(0)[row * width + c] * r.in(1)[first + s * width + c];
      }
      if (!of.sees(s, score)) continue;
      seen.push_back(s);
      scores.push_back(score);
    }
    const Doubles logs = log_softmax_of(scores, scores.size());
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const double p = dropped_probability(r, at.is_training, std::exp(logs[i]), row * keys + seen[i]);
      for (std::size_t c = 0; c < width; ++c) y[row * width + c] += p * r.in(2)[first + seen[i] * width + c];
    }
  }
  return {y, {}};
}

}  // namespace

void add_layer_double_rules(DoubleRules& rules) {
  rules["matmul"] = rules["add_matmul"] = product_in_double;
  rules["lstm_step"] = lstm_step_in_double;
  rules["matmul_over_rows"] = product_over_rows_in_double;
  rules["bias_add"] = biased_in_double;
  rules["conv2d"] = rules["conv3d"] = convolution_in_double;
  rules["conv_transpose2d"] = rules["conv_transpose3d"] = transposed_convolution_in_double;
  rules["max_pool2d"] = rules["max_pool3d"] = pool_in_double<true>;
  rules["average_pool2d"] = rules["average_pool3d"] = pool_in_double<false>;
  rules["batch_norm"] = batch_norm_in_double;
  rules["layer_norm"] = layer_norm_in_double;
  rules["rms_norm"] = rms_norm_in_double;
  rules["group_norm"] = group_norm_in_double;
  rules["softmax"] = softmax_in_double;
  rules["log_softmax"] = log_softmax_in_double;
  rules["softmax_cross_entropy"] = cross_entropy_in_double;
  rules["attention"] = rules["attention_dropout"] = attention_in_double;
}

}  // namespace sectionflow::testing_support
