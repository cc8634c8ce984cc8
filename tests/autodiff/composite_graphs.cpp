// Gradients of composite graphs against central differences of a reference in double.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "autodiff/gradients.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// y = x w, plain. Shapes: x [rows, inner], w [inner, columns].
Doubles product(const Doubles& x, const Doubles& w, std::size_t rows, std::size_t inner, std::size_t columns) {
  Doubles y(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < inner; ++k)
      for (std::size_t j = 0; j < columns; ++j) y[i * columns + j] += x[i * inner + k] * w[k * columns + j];
  return y;
}

double cross_entropy(const Doubles& logits, std::size_t row, std::size_t classes, std::size_t label) {
  double largest = -INFINITY, sum = 0;
  for (std::size_t c = 0; c < classes; ++c) largest = std::max(largest, logits[row * classes + c]);
  for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[row * classes + c] - largest);
  return largest + std::log(sum) - logits[row * classes + label];
}

OpCase shared_weight() {
  // Weights used three times, once as a regulariser: y = x w, z = y w, out = [z + y^2, sum(w^2)].
  return {.name = "weight_used_three_times",
          .inputs = {input({4, 3}), parameter({3, 3})},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                const Value y = matmul(in[0], in[1]);
                return std::vector{matmul(y, in[1]) + y * y, reduce_sum(in[1] * in[1])};
              },
          .reference =
              [](const std::vector<Doubles>& in) {
                const Doubles y = product(in[0], in[1], 4, 3, 3);
                Doubles z = product(y, in[1], 4, 3, 3);
                for (std::size_t i = 0; i < z.size(); ++i) z[i] += y[i] * y[i];
                double norm = 0;
                for (double w : in[1]) norm += w * w;
                return std::vector<Doubles>{z, {norm}};
              },
          .tolerance = {.relative = 8, .absolute = 16},
          .gradient_outputs = {0, 1},
          .dynamic_batch = true};
}

OpCase fan_out() {
  // One value read four ways, with broadcasting: as a row, as its mean, divided and subtracted.
  return {.name = "value_read_four_ways",
          .inputs = {input({5, 4}, 1, 2), parameter({4}, 1, 2)},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                const Value h = in[0] * in[1];
                const Value centre = reduce_mean(h, {.axes = {1}, .keep_dims = true});
                return std::vector{(h - centre) / h + reshape(reshape(h, {-1}), {-1, 4}) * in[1]};
              },
          .reference =
              [](const std::vector<Doubles>& in) {
                Doubles y(20);
                for (std::size_t n = 0; n < 5; ++n) {
                  double centre = 0;
                  for (std::size_t c = 0; c < 4; ++c) centre += in[0][n * 4 + c] * in[1][c] / 4;
                  for (std::size_t c = 0; c < 4; ++c) {
                    const double h = in[0][n * 4 + c] * in[1][c];
                    y[n * 4 + c] = (h - centre) / h + h * in[1][c];
                  }
                }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 8, .absolute = 16}};
}

OpCase classifier() {
  // Two layers, a residual and a loss. Away from relu's kink: its inputs are positive.
  return {.name = "residual_classifier",
          .inputs = {input({6, 3}, 0.5, 1), parameter({3, 3}, 0.1, 1), parameter({3}, 0.1, 1), parameter({3, 4})},
          .build =
              [](Graph& graph, const std::vector<Value>& in) {
                const Value h = relu(bias_add(matmul(in[0], in[1]), in[2]));
                const Value logits = matmul(h + in[0], in[3]);
                const Value labels = constant(graph, HostTensor::of<std::int32_t>({6}, {0, 1, 2, 3, 1, 0}));
                return std::vector{mean(softmax_cross_entropy(logits, labels))};
              },
          .reference =
              [](const std::vector<Doubles>& in) {
                Doubles h = product(in[0], in[1], 6, 3, 3);
                for (std::size_t i = 0; i < h.size(); ++i) h[i] += in[2][i % 3] + in[0][i];
                const Doubles logits = product(h, in[3], 6, 3, 4);
                const std::size_t labels[] = {0, 1, 2, 3, 1, 0};
                double loss = 0;
                for (std::size_t n = 0; n < 6; ++n) loss += cross_entropy(logits, n, 4, labels[n]) / 6;
                return std::vector<Doubles>{{loss}};
              },
          .tolerance = {.relative = 8, .absolute = 16}};
}

class CompositeGraphs : public testing::TestWithParam<OpCase> {};
TEST_P(CompositeGraphs, GradientsEqualCentralDifferences) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CompositeGraphs, testing::Values(shared_weight(), fan_out(), classifier()), case_name);

TEST(Gradients, OfAConvolutionalNetworkEqualDifferencesOfItsOwnForward) {
  // Layers, batch statistics and a shared input: no reference but the forward pass itself, hence a coarse step.
  Graph graph;
  const Value x = placeholder(graph, "x", {8, 6, 6, 2});
  const Value labels = placeholder(graph, "labels", {8}, Dtype::i32);
  const Value is_training = constant(graph, HostTensor::scalar(true), "is_training");
  Value y = batch_norm(conv2d(x, {.features = 4, .stride = {2, 2}}), is_training);
  y = y * y + conv2d(y, {.features = 4});
  const Value loss = mean(softmax_cross_entropy(dense(reduce_mean(y, {.axes = {1, 2}}), {.features = 3}), labels));
  const std::vector<Value> variables = graph.values(kTrainableVariables);
  std::vector<Value> fetches = gradients(loss, variables);
  fetches.push_back(loss);

  std::mt19937 random(7);
  const auto uniform = [&] { return static_cast<float>(random()) * 0x1p-31F - 1; };
  testing_support::Feeds feeds;
  std::map<Value, std::vector<float>> direction;
  feeds.emplace(x, HostTensor(x.type()));
  feeds.emplace(labels, HostTensor::of<std::int32_t>({8}, {0, 1, 2, 0, 1, 2, 0, 1}));
  for (const Value& variable : graph.values(kVariables)) feeds.emplace(variable, HostTensor(variable.type()));
  for (auto& [value, tensor] : feeds) {
    if (tensor.dtype() != Dtype::f32) continue;
    for (float& element : tensor.values<float>()) element = uniform();
  }
  const auto result = run_kernels(fetches, feeds);
  double along = 0;
  for (std::size_t k = 0; k < variables.size(); ++k) {
    for (float dw : result[k].values<float>()) {
      direction[variables[k]].push_back(uniform());
      along += static_cast<double>(dw) * direction[variables[k]].back();
    }
  }
  const auto loss_at = [&](float step) {
    testing_support::Feeds moved;
    for (const auto& [value, tensor] : feeds) {
      HostTensor& copy = moved.emplace(value, tensor.clone()).first->second;
      if (!direction.contains(value)) continue;
      auto elements = copy.values<float>();
      for (std::size_t i = 0; i < elements.size(); ++i) elements[i] += step * direction[value][i];
    }
    return static_cast<double>(run_kernels({loss}, moved)[0].item<float>());
  };
  // Fourth order: f32 losses of about 1 have 1e-7 noise, so the step is large and its own error must be small.
  const float h = 0x1p-6F;
  const double wanted = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12.0 * h);
  EXPECT_GT(std::abs(wanted), 0.05);
  EXPECT_NEAR(along, wanted, 1e-3 * std::abs(wanted) + 1e-4);
}

}  // namespace
}  // namespace sectionflow
