// Each reason for which an operation stays f32 is told.

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "sectionflow.h"
#include "transform/quantize_nodes.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;

HostTensor ones(const Shape& shape) {
  HostTensor tensor(Dtype::f32, shape);
  for (float& each : tensor.values<float>()) each = 1;
  return tensor;
}

struct ReasonCase {
  std::string name, reason;
  std::function<std::vector<Value>(Graph&)> build;
};

/// A convolution of "x" [2, 6, 6, 4] by one filter a channel.
Value convolution(Graph& graph, const std::string& x = "x") {
  return conv2d(placeholder(graph, x, {2, 6, 6, 4}), constant(graph, ones({1, 1, 4, 4})));
}
Value rows(Graph& graph) {
  return placeholder(graph, "rows", {kDynamic, 8});
}

std::vector<ReasonCase> reason_cases() {
  using Values = std::vector<Value>;
  return {
      {"narrow", "it is not f32",
       [](Graph& g) -> Values {
         return {conv2d(cast(placeholder(g, "x", {2, 6, 6, 4}), Dtype::bf16),
                        cast(constant(g, ones({1, 1, 4, 4})), Dtype::bf16))};
       }},
      {"open_weights", "its weights are of unknown size",
       [](Graph& g) -> Values {
         return {matmul(rows(g), placeholder(g, "w", {8, kDynamic}))};
       }},
      {"batches", "it multiplies batches of matrices",
       [](Graph& g) -> Values {
         return {matmul(placeholder(g, "x", {2, 3, 8}), constant(g, ones({2, 8, 4})))};
       }},
      {"turned", "it reads its first matrix the other way round",
       [](Graph& g) -> Values {
         return {matmul(placeholder(g, "x", {8, 3}), constant(g, ones({8, 4})), {.transpose_a = true})};
       }},
      {"long_sums", "an i32 holds those of 65536 surely",
       [](Graph& g) -> Values {
         return {matmul(placeholder(g, "x", {2, 65537}), constant(g, ones({65537, 1})))};
       }},
      {"constant", "all that it reads is constant",
       [](Graph& g) -> Values {
         return {matmul(constant(g, ones({2, 8})), constant(g, ones({8, 4})))};
       }},
      {"fused_bias", "its bias is no constant",
       [](Graph& g) -> Values {
         const Value bias = placeholder(g, "bias", {4});
         return {fused_convolution(placeholder(g, "x", {2, 6, 6, 4}), constant(g, ones({1, 1, 4, 4})), bias, {},
                                   {.convolution = {window_steps<2>(1, 1, Padding::same, DataFormat::nhwc)}})};
       }},
      {"wild_bias", "its bias is not finite",
       [](Graph& g) -> Values {
         HostTensor bias(Dtype::f32, {4});
         bias.values<float>()[2] = HUGE_VALF;
         return {fused_convolution(placeholder(g, "x", {2, 6, 6, 4}), constant(g, ones({1, 1, 4, 4})),
                                   constant(g, std::move(bias)), {},
                                   {.convolution = {window_steps<2>(1, 1, Padding::same, DataFormat::nhwc)}})};
       }},
      {"sum_of_f32", "not all that it reads is of 8 bits",
       [](Graph& g) -> Values {
         return {convolution(g) + placeholder(g, "y", {2, 6, 6, 4})};
       }},
      {"sum_of_shapes", "what it reads is of several shapes",
       [](Graph& g) -> Values {
         const Value column = matmul(rows(g), constant(g, ones({8, 1}))),
                     wide = matmul(g.find("rows").output(), constant(g, ones({8, 4})));
         return {column + wide};
       }},
      {"open_sum", "what it reads may be of several shapes",
       [](Graph& g) -> Values {
         const Value x = rows(g), w = constant(g, ones({8, 4}));
         return {matmul(x, w) + matmul(placeholder(g, "other", {kDynamic, 8}), w)};
       }},
      {"waits", "it is in a branch, or waits for what it does not read",
       [](Graph& g) -> Values {
         const Value y = convolution(g), first = relu(placeholder(g, "y", {3}));
         g.add_control_edge(Operation(first), Operation(y));
         return {y, first};
       }},
      {"norm", "fold_batch_norms folds it",
       [](Graph& g) -> Values {
         const auto of = [&](float number) { return constant(g, HostTensor::of<float>({1}, {number})); };
         const Value x = placeholder(g, "x", {2, 1});
         return {batch_norm(x, of(1), of(0), of(0), of(1), constant(g, HostTensor::scalar(false))).y};
       }},
  };
}

class QuantizeReasons : public testing::TestWithParam<ReasonCase> {};

TEST_P(QuantizeReasons, AreTold) {
  Graph graph;
  const std::vector<Value> outputs = GetParam().build(graph);
  const InferenceGraph made = transform_graph(graph, outputs, "");
  EXPECT_THAT(quantize_report(made).text(), HasSubstr(GetParam().reason));
}
INSTANTIATE_TEST_SUITE_P(Cases, QuantizeReasons, testing::ValuesIn(reason_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(QuantizeReasons, PackedWeightsGoBehindIt) {
  Graph graph;
  const Value y = conv2d(placeholder(graph, "x", {kDynamic, 6, 6, 16}), constant(graph, ones({3, 3, 16, 32})));
  const InferenceGraph packed = transform_graph(graph, {y}, "pack_weights");
  if (packed.outputs[0].node().inputs()[1].shape().rank() != 1) GTEST_SKIP() << "weights are read as they lie here";
  EXPECT_THAT(quantize_report(packed).text(), HasSubstr("pack weights behind quantize_nodes"));
}

}  // namespace
}  // namespace sectionflow
