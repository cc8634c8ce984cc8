#include "graph/ops/layer_norm.h"

#include <cmath>
#include <string>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/graph/description.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

constexpr float kLayerNormEpsilon = 1e-3F;

// Inputs: x, scale, shift.
std::vector<Doubles> layer_norm_reference(const std::vector<Doubles>& in) {
  const std::size_t channels = in[1].size(), rows = in[0].size() / channels;
  const auto count = static_cast<double>(channels);
  Doubles y = in[0], means(rows), rstds(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    double* values = y.data() + row * channels;
    double squares = 0;
    for (std::size_t c = 0; c < channels; ++c) means[row] += values[c] / count;
    for (std::size_t c = 0; c < channels; ++c) squares += (values[c] - means[row]) * (values[c] - means[row]);
    rstds[row] = 1 / std::sqrt(squares / count + static_cast<double>(kLayerNormEpsilon));
    for (std::size_t c = 0; c < channels; ++c) values[c] = (values[c] - means[row]) * rstds[row] * in[1][c] + in[2][c];
  }
  return {y, means, rstds};
}

// Inputs: x, scale.
std::vector<Doubles> rms_norm_reference(const std::vector<Doubles>& in) {
  const std::size_t channels = in[1].size(), rows = in[0].size() / channels;
  Doubles y = in[0], rstds(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    double* values = y.data() + row * channels;
    double squares = 0;
    for (std::size_t c = 0; c < channels; ++c) squares += values[c] * values[c];
    rstds[row] = 1 / std::sqrt(squares / static_cast<double>(channels) + static_cast<double>(kLayerNormEpsilon));
    for (std::size_t c = 0; c < channels; ++c) values[c] *= rstds[row] * in[1][c];
  }
  return {y, rstds};
}

OpCase rms_norm_case(const std::string& name, CaseInput x) {
  const Shape channels{x.type.shape[-1]};
  const bool dynamic = x.type.shape.rank() > 1;
  return {.name = name,
          .inputs = {std::move(x), parameter(channels, 0.5, 1.5)},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                Node& node = rms_norm(in[0], in[1], {.epsilon = kLayerNormEpsilon}).node();
                return std::vector{node.output(0), node.output(1)};
              },
          .reference = rms_norm_reference,
          .tolerance = {.relative = 8, .absolute = 16},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .dynamic_batch = dynamic,
          .same_bits_for_any_threads = true};
}

OpCase layer_norm_case(const std::string& name, CaseInput x) {
  const Shape channels{x.type.shape[-1]};
  const bool dynamic = x.type.shape.rank() > 1;
  return {.name = name,
          .inputs = {std::move(x), parameter(channels, 0.5, 1.5), parameter(channels)},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                Node& node = layer_norm(in[0], in[1], in[2], {.epsilon = kLayerNormEpsilon}).node();
                return std::vector{node.output(0), node.output(1), node.output(2)};
              },
          .reference = layer_norm_reference,
          .tolerance = {.relative = 8, .absolute = 16},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .dynamic_batch = dynamic,
          .same_bits_for_any_threads = true};
}

/// Of rows that threads, warps and blocks of a GPU take, in packs or not, and of none.
template <class Case>
std::vector<OpCase> norm_cases(const Case& norm_case) {
  std::vector<OpCase> all;
  for (std::int64_t channels : {2, 3, 8, 17, 31, 32, 33, 64, 100, 257, 768}) {
    for (std::int64_t rows : {1, 7, 130}) {
      all.push_back(
          norm_case("rows_" + std::to_string(rows) + "_channels_" + std::to_string(channels), input({rows, channels})));
    }
  }
  all.push_back(norm_case("one_channel", input({5, 1})));
  all.push_back(norm_case("one_vector", input({10})));
  all.push_back(norm_case("sequences", input({5, 6, 10})));
  all.push_back(norm_case("many_blocks", input({4, 301, 65})));
  all.push_back(norm_case("many_short_rows", input({20011, 3})));
  all.push_back(norm_case("long_rows", input({3, 9001})));
  all.push_back(norm_case("no_rows", input({0, 10})));
  return all;
}

class LayerNormCases : public testing::TestWithParam<OpCase> {};
TEST_P(LayerNormCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, LayerNormCases, testing::ValuesIn(norm_cases(layer_norm_case)), case_name);
INSTANTIATE_TEST_SUITE_P(RootMeanSquare, LayerNormCases, testing::ValuesIn(norm_cases(rms_norm_case)), case_name);
INSTANTIATE_TEST_SUITE_P(RootMeanSquareBf16, LayerNormCases,
                         testing::Values(in_bf16(rms_norm_case("sequences", input({5, 6, 10})), {0}),
                                         in_bf16(rms_norm_case("many_blocks", input({4, 301, 65})), {0})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, LayerNormCases,
                         testing::Values(in_bf16(layer_norm_case("sequences", input({5, 6, 10})), {0}),
                                         in_bf16(layer_norm_case("many_blocks", input({4, 301, 65})), {0})),
                         case_name);

TEST(LayerNorm, VarianceOfValuesFarFromZeroIsAccurate) {
  // E[x^2] - E[x]^2 in f32 would lose every digit of a variance of 1/3 beside a mean of 1000.
  OpCase far = layer_norm_case("far_from_zero", input({20, 1000}, 999, 1001));
  // One rounding of the mean moves every y by 1000 / sqrt(1/3) / 2 epsilons.
  far.tolerance = {.relative = 8, .absolute = 2000};
  far.gradient_outputs = {};
  check(far);
}

TEST(LayerNormGrad, OfNoRowsIsZero) {
  check({.name = "gradients_of_no_rows",
         .inputs = {input({0, 3}), input({0, 3}), parameter({3}), input({0}), input({0})},
         .build =
             [](Graph&, const std::vector<Value>& in) {
               const auto [dx, dscale, dshift] = layer_norm_grad(in[0], in[1], in[2], in[3], in[4]);
               return std::vector{dx, dscale, dshift};
             },
         .reference =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{}, {0, 0, 0}, {0, 0, 0}};
             },
         .gradient_outputs = {},
         .same_bits_for_any_threads = true});
}

TEST(RmsNormGrad, OfNoRowsIsZero) {
  check({.name = "gradients_of_no_rows",
         .inputs = {input({0, 3}), input({0, 3}), parameter({3}), input({0})},
         .build =
             [](Graph&, const std::vector<Value>& in) {
               const auto [dx, dscale] = rms_norm_grad(in[0], in[1], in[2], in[3]);
               return std::vector{dx, dscale};
             },
         .reference =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{}, {0, 0, 0}};
             },
         .gradient_outputs = {},
         .same_bits_for_any_threads = true});
}

TEST(LayerNorm, RefusesOtherShapesAndTypes) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, "x", std::move(shape), dtype);
  };
  const Value x = in({4, 3}), channels = in({3});
  const auto refused = [&]<class Wanted>(Wanted*, Value a, Value b, Value c, const std::string& wanted) {
    const std::string text = error_text<Wanted>([&] { layer_norm(a, b, c); });
    EXPECT_TRUE(text.starts_with("layer_norm 'layer_norm") && contains(text, wanted)) << text;
  };
  ShapeError* shape = nullptr;
  ArgumentError* argument = nullptr;
  refused(shape, in({}), channels, channels, "got []");
  refused(shape, in({4, 0}), in({0}), in({0}), "C > 0");
  refused(shape, x, in({4}), channels, "as input 1, [4]; wanted [3]");
  refused(shape, x, channels, in({1, 3}), "as input 2, [1,3]; wanted [3]");
  refused(argument, in({4, 3}, Dtype::f64), channels, channels, "f64[4,3]; wanted f32");
  EXPECT_THROW(layer_norm(x, channels, channels, {.epsilon = -1}), ArgumentError);
}

TEST(RmsNorm, RefusesOtherShapesAndTypes) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, "x", std::move(shape), dtype);
  };
  const Value x = in({4, 3}), channels = in({3});
  EXPECT_TRUE(contains(error_text<ShapeError>([&] { rms_norm(in({}), channels); }), "rms_norm 'rms_norm"));
  EXPECT_TRUE(contains(error_text<ShapeError>([&] { rms_norm(in({4, 0}), in({0})); }), "C > 0"));
  EXPECT_TRUE(contains(error_text<ShapeError>([&] { rms_norm(x, in({4})); }), "as input 1, [4]; wanted [3]"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] {
                         rms_norm(in({4, 3}, Dtype::f64), channels);
                       }),
                       "f64[4,3]; wanted f32"));
  EXPECT_THROW(rms_norm(x, channels, {.epsilon = -1}), ArgumentError);
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { rms_norm(x, channels, {.name = "rn"}); }),
                       "rms_norm: name is 'rn'; it is an option of the layer alone"));
}

TEST(LayerNorm, RefusesALossOfItsStatistics) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3}), channels = placeholder(graph, "c", {3});
  Node& node = layer_norm(x, channels, channels).node();
  EXPECT_THROW(gradients(reduce_sum(node.output(1)), {x}), ArgumentError);
  EXPECT_THROW(gradients(reduce_sum(rms_norm(x, channels).node().output(1)), {x}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::testing_support
