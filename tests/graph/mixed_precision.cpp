#include <gtest/gtest.h>

#include <map>

#include "autodiff/gradients.h"
#include "graph/layers.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/support/contains.h"
#include "tests/support/graph_round_trip.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

void expect_f32_variables(const Graph& graph) {
  for (const Value& variable : graph.values(kVariables)) EXPECT_EQ(variable.dtype(), Dtype::f32) << variable.name();
}

TEST(MixedPrecision, LayersGiveBf16AndKeepF32Variables) {
  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 8, 8, 3});
  const Value volumes = placeholder(graph, "volumes", {kDynamic, 4, 4, 4, 3});
  const Value tokens = placeholder(graph, "tokens", {kDynamic, 5}, Dtype::i32);
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const MixedPrecision precision(graph);
  for (const Value& y :
       {conv2d(images, {.features = 4, .bias = true}), conv3d(volumes, {.features = 4}),
        conv_transpose2d(images, {.features = 4}), conv_transpose3d(volumes, {.features = 4, .bias = true}),
        batch_norm(images, is_training), layer_norm(images), dense(images, {.features = 3}),
        embedding(tokens, {.vocabulary = 7, .width = 4})}) {
    EXPECT_EQ(y.dtype(), Dtype::bf16) << y.name();
  }
  expect_f32_variables(graph);
}

TEST(MixedPrecision, EndsWithItsScopeAndNests) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const auto dtype = [&](Value of) { return dense(of, {.features = 3}).dtype(); };
  EXPECT_EQ(dtype(x), Dtype::f32);
  {
    const MixedPrecision precision(graph);
    const Value y = dense(x, {.features = 3});
    EXPECT_EQ(y.dtype(), Dtype::bf16);
    {
      const MixedPrecision full(graph, Dtype::f32);
      EXPECT_EQ(dtype(y), Dtype::f32);
      EXPECT_EQ(dtype(x), Dtype::f32);
    }
    EXPECT_EQ(dtype(x), Dtype::bf16);
  }
  EXPECT_EQ(dtype(x), Dtype::f32);
  // Outside of every scope layers follow their input.
  EXPECT_EQ(dtype(cast(x, Dtype::bf16)), Dtype::bf16);
  expect_f32_variables(graph);
}

TEST(MixedPrecision, CastsWhatALayerReadsOnceAndNothingThatIsOfTheDtype) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const MixedPrecision precision(graph);
  const Value y = dense(dense(x, {.features = 3, .bias = false}), {.features = 4, .bias = false});
  std::map<std::string, int> counts;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) ++counts[graph.node(id).op().name];
  EXPECT_EQ(counts["cast"], 3);  // x and two kernels
  EXPECT_EQ(y.dtype(), Dtype::bf16);
}

TEST(MixedPrecision, GradientsOfVariablesAreF32) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  const MixedPrecision precision(graph);
  const Value logits = dense(relu(layer_norm(dense(x, {.features = 8}))), {.features = 5});
  EXPECT_EQ(logits.dtype(), Dtype::bf16);
  const Value loss = mean(softmax_cross_entropy(logits, labels));
  EXPECT_EQ(loss.type(), (TensorType{Dtype::f32, {}}));
  for (const Value& gradient : gradients(loss, graph.values(kTrainableVariables))) {
    EXPECT_EQ(gradient.dtype(), Dtype::f32) << gradient.name();
  }
  testing_support::expect_round_trip(graph);
}

TEST(MixedPrecision, NumbersBesideBf16AreBf16) {
  Graph graph;
  const Value x = cast(placeholder(graph, "x", {2, 3}), Dtype::bf16);
  for (const Value& y : {x * 1.5F, 2.0F - x, x / 3.0F}) EXPECT_EQ(y.dtype(), Dtype::bf16);
}

TEST(MixedPrecision, RefusesOtherDtypes) {
  Graph graph;
  for (Dtype dtype : {Dtype::f64, Dtype::i32, Dtype::boolean}) {
    const std::string text = error_text<ArgumentError>([&] { const MixedPrecision precision(graph, dtype); });
    EXPECT_TRUE(contains(text, "wanted bf16")) << text;
  }
  EXPECT_FALSE(graph.layer_dtype().has_value());
}

TEST(MixedPrecision, OperationsThatAreNoLayersRefuseTwoDtypes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3, 3});
  const Value narrow = cast(x, Dtype::bf16);
  const MixedPrecision precision(graph);
  const int nodes = graph.num_nodes();
  for (const auto& [text, part] :
       {std::pair<std::string, std::string>{error_text<ArgumentError>([&] { (void)(x + narrow); }),
                                            "got f32[3,3] and bf16[3,3]; wanted equal dtypes; try cast(x, Dtype::f32)"},
        {error_text<ArgumentError>([&] { matmul(narrow, x); }),
         "input 0 is bf16[3,3] and input 1 f32[3,3]; wanted one dtype"},
        {error_text<ArgumentError>([&] { relu(cast(x, Dtype::f64)); }),
         "got f64[3,3]; wanted f32 or bf16; try cast"}}) {
    EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
  }
  EXPECT_EQ(graph.num_nodes(), nodes + 1);                 // the cast to f64
  EXPECT_THROW(gradients(mean(narrow), {x}), ShapeError);  // a loss is f32
  const Value parameter = variable("parameter", x * 0.0F);
  EXPECT_THROW(assign(parameter, narrow), ArgumentError);
}

}  // namespace
}  // namespace sectionflow
