#include "graph/ops/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/nodes/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/broadcast_reference.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

struct BinaryOp {
  const char* name;
  Value (*build)(Value, Value, Where);
  double (*apply)(double, double);
};
const BinaryOp kBinaryOps[] = {
    {"add", add, [](double a, double b) { return a + b; }},
    {"sub", sub, [](double a, double b) { return a - b; }},
    {"mul", mul, [](double a, double b) { return a * b; }},
    {"div", div, [](double a, double b) { return a / b; }},
    {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
    {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
};

struct ShapePair {
  const char* name;
  Shape a, b;
};
const ShapePair kShapePairs[] = {
    {"same", {7, 5}, {7, 5}},
    {"scalars", {}, {}},
    {"ones", {1, 1}, {1}},
    {"scalar_right", {3, 11}, {}},
    {"scalar_left", {1}, {3, 11}},
    {"trailing_vector", {2, 6, 7}, {7}},
    {"trailing_vector_left", {7}, {6, 7}},
    {"trailing_matrix", {3, 5, 6}, {5, 6}},
    {"column", {6, 7}, {6, 1}},
    {"channel_of_rows", {2, 3, 4, 5}, {2, 1, 1, 5}},
    {"outer_product", {4, 1, 3}, {5, 1}},
    {"alternating", {3, 1, 5, 1}, {1, 4, 1, 2}},
    {"five_dims", {2, 1, 3, 1, 2}, {2, 3, 1, 2, 1}},
    {"empty", {0, 3}, {3}},
    {"empty_by_broadcast", {2, 1}, {2, 0}},
    {"large_same", {129, 257}, {129, 257}},
    {"large_scalar", {40001}, {}},
    {"large_bias", {601, 67}, {67}},
    {"large_columns", {3, 20011}, {3, 1}},
};

std::vector<OpCase> binary_cases() {
  std::vector<OpCase> cases;
  for (const BinaryOp& op : kBinaryOps) {
    for (const ShapePair& shapes : kShapePairs) {
      CaseInput b = input(shapes.b);
      b.away_from_zero = 0.5;
      const auto reference = [apply = op.apply, shapes](const std::vector<Doubles>& in) {
        const Shape out = broadcast_shapes(shapes.a, shapes.b, "test");
        Doubles y(static_cast<std::size_t>(out.num_elements()));
        for (std::size_t i = 0; i < y.size(); ++i) {
          const auto index = static_cast<std::int64_t>(i);
          y[i] = apply(in[0][source_index(index, out, shapes.a)], in[1][source_index(index, out, shapes.b)]);
        }
        return std::vector<Doubles>{y};
      };
      cases.push_back({.name = std::string(op.name) + "_" + shapes.name,
                       .inputs = {input(shapes.a), b},
                       .build =
                           [build = op.build](Graph&, const std::vector<Value>& in) {
                             return std::vector{build(in[0], in[1], Where::here())};
                           },
                       .reference = reference,
                       .tolerance = {.relative = 0.51, .absolute = 0},
                       .same_bits_for_any_threads = true});
      // The products of several rows are rounded before they are summed for the gradient.
      if (shapes.name == std::string_view("trailing_vector")) cases.push_back(in_bf16(cases.back(), {}, 4));
    }
  }
  return cases;
}

class BinaryArithmetic : public testing::TestWithParam<OpCase> {};
TEST_P(BinaryArithmetic, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BinaryArithmetic, testing::ValuesIn(binary_cases()), case_name);

struct ReduceToLikeShapes {
  const char* name;
  Shape x, like;
};
const ReduceToLikeShapes kReduceToLike[] = {
    {"same", {4, 3}, {4, 3}},
    {"leading_one", {1, 4, 3}, {4, 3}},
    {"to_scalar", {4, 3}, {}},
    {"to_vector", {9, 5, 3}, {3}},
    {"to_column", {6, 7}, {6, 1}},
    {"to_alternating", {3, 4, 5, 2}, {3, 1, 5, 1}},
    {"to_other_alternating", {3, 4, 5, 2}, {1, 4, 1, 2}},
    {"of_nothing", {0, 5}, {5}},
    {"of_nothing_to_scalar", {3, 0}, {}},
    {"to_nothing", {3, 0}, {1, 0}},
    {"bias_of_image", {20, 14, 14, 16}, {16}},
    {"large_to_scalar", {100003}, {}},
    {"many_rows_of_several", {3, 700, 40}, {3, 1, 40}},
    {"many_pieces_of_several", {70, 3, 300}, {1, 3, 1}},
};

std::vector<OpCase> reduce_to_like_cases() {
  std::vector<OpCase> cases;
  for (const ReduceToLikeShapes& shapes : kReduceToLike) {
    const auto reference = [shapes](const std::vector<Doubles>& in) {
      Doubles y(static_cast<std::size_t>(shapes.like.num_elements()), 0.0);
      for (std::size_t i = 0; i < in[0].size(); ++i) {
        y[source_index(static_cast<std::int64_t>(i), shapes.x, shapes.like)] += in[0][i];
      }
      return std::vector<Doubles>{y};
    };
    CaseInput like = input(shapes.like);
    like.differentiable = false;
    cases.push_back(
        {.name = shapes.name,
         .inputs = {input(shapes.x), like},
         .build = [](Graph&, const std::vector<Value>& in) { return std::vector{reduce_to_like(in[0], in[1])}; },
         .reference = reference,
         .tolerance = {.relative = 1, .absolute = 1e-3},
         .gradient_outputs = {},
         .same_bits_for_any_threads = true});
  }
  return cases;
}

class ReduceToLike : public testing::TestWithParam<OpCase> {};
TEST_P(ReduceToLike, MatchesTheReference) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, ReduceToLike, testing::ValuesIn(reduce_to_like_cases()), case_name);

OpCase pow_case(std::string name, const CaseInput& a, const CaseInput& b) {
  return {.name = std::move(name),
          .inputs = {a, b},
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{pow(in[0], in[1])}; },
          .reference =
              [a_shape = a.type.shape, b_shape = b.type.shape](const std::vector<Doubles>& in) {
                const Shape out = broadcast_shapes(a_shape, b_shape, "test");
                Doubles y(static_cast<std::size_t>(out.num_elements()));
                for (std::size_t i = 0; i < y.size(); ++i) {
                  const auto index = static_cast<std::int64_t>(i);
                  y[i] = std::pow(in[0][source_index(index, out, a_shape)], in[1][source_index(index, out, b_shape)]);
                }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 0.51, .absolute = 0},
          .same_bits_for_any_threads = true};
}

/// Integers, which a negative base can be raised to; they cannot move.
CaseInput exponents(std::vector<double> values) {
  CaseInput b = parameter({static_cast<std::int64_t>(values.size())});
  b.values = std::move(values);
  b.differentiable = false;
  return b;
}

class Pow : public testing::TestWithParam<OpCase> {};
TEST_P(Pow, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Pow,
                         testing::Values(pow_case("same", input({7, 5}, 0.2, 3), input({7, 5}, -2, 3)),
                                         pow_case("rows", input({6, 7}, 0.2, 3), input({7}, -2, 3)),
                                         pow_case("scalar_base", input({}, 0.2, 3), input({5, 3}, -2, 3)),
                                         pow_case("none", input({0, 3}, 0.2, 3), input({3}, -2, 3)),
                                         pow_case("negative_base", input({9, 5}, -3, -0.3),
                                                  exponents({-2, 0, 1, 2, 3})),
                                         pow_case("large", input({151, 101}, 0.2, 3), input({101}, -2, 3))),
                         case_name);

TEST(Arithmetic, PowAtZeroHasTheGradientOfPyTorch) {
  Graph graph;
  const Value a = constant(graph, HostTensor::of<float>({5}, {0, 0, 0, 0, -2}));
  const Value b = constant(graph, HostTensor::of<float>({5}, {0, 1, 2, -1, 3}));
  const Value y = pow(a, b), dy = fill(graph, {5}, 1);
  const auto results = run_kernels({y, pow_grad_base(dy, a, b), pow_grad_exponent(dy, y, a)}, {});
  const Tolerance exact{.relative = 0, .absolute = 0};
  EXPECT_TRUE(is_near(results[0], Doubles{1, 0, 0, INFINITY, -8}, exact));
  EXPECT_TRUE(is_near(results[1], Doubles{0, 1, 0, -INFINITY, 12}, exact));
  EXPECT_TRUE(is_near(results[2], Doubles{0, 0, 0, -INFINITY, NAN}, exact));
}

TEST(Arithmetic, PowTakesAFloat) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3}, {4, 2.25F, 0}));
  EXPECT_TRUE(same_bits(run_kernels({pow(x, 1.5F)}, {})[0], HostTensor::of<float>({3}, {8, 3.375F, 0})));
}

TEST(Arithmetic, MaximumAndMinimumPassNanAndShareTheGradientOfATie) {
  Graph graph;
  const Value a = constant(graph, HostTensor::of<float>({5}, {1, 2, 3, NAN, 0}));
  const Value b = constant(graph, HostTensor::of<float>({5}, {1, 3, 2, 0, NAN}));
  const Value dy = fill(graph, {5}, 4);
  const auto results = run_kernels({maximum(a, b), minimum(a, b), maximum_grad(dy, a, b), minimum_grad(dy, a, b)}, {});
  const Tolerance exact{.relative = 0, .absolute = 0};
  EXPECT_TRUE(is_near(results[0], Doubles{1, 3, 3, NAN, NAN}, exact));
  EXPECT_TRUE(is_near(results[1], Doubles{1, 2, 2, NAN, NAN}, exact));
  EXPECT_TRUE(is_near(results[2], Doubles{2, 0, 4, 4, 4}, exact));
  EXPECT_TRUE(is_near(results[3], Doubles{2, 4, 0, 4, 4}, exact));
}

template <class Whole>
void expect_signed_choices() {
  Graph graph;
  const Value a = constant(graph, HostTensor::of<Whole>({2}, {-1, 5}));
  const Value b = constant(graph, HostTensor::of<Whole>({}, {2}));
  const auto results = run_kernels({maximum(a, b), minimum(a, b)}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<Whole>({2}, {2, 5})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<Whole>({2}, {-1, 2})));
}

TEST(Arithmetic, MaximumAndMinimumOfWholeNumbersAreSigned) {
  expect_signed_choices<std::int32_t>();
  expect_signed_choices<std::int64_t>();
}

TEST(Arithmetic, RefusesDtypesThatItDoesNotCompute) {
  Graph graph;
  const auto in = [&](Dtype dtype) { return placeholder(graph, "x", {2}, dtype); };
  for (Dtype dtype : {Dtype::f64, Dtype::u8, Dtype::boolean}) {
    const Value x = in(dtype);
    for (const BinaryOp& op : kBinaryOps) EXPECT_THROW(op.build(x, x, Where::here()), ArgumentError) << op.name;
    EXPECT_THROW(pow(x, x), ArgumentError);
    EXPECT_THROW(maximum(in(Dtype::f32), x), ArgumentError);
  }
  for (Dtype dtype : {Dtype::i32, Dtype::i64}) {
    EXPECT_THROW(pow(in(dtype), in(dtype)), ArgumentError);
    EXPECT_THROW(in(dtype) / in(dtype), ArgumentError);
  }
  EXPECT_THROW(minimum(placeholder(graph, "a", {2}), placeholder(graph, "b", {3})), ShapeError);
}

template <class Whole>
void expect_wrap_around() {
  Graph graph;
  constexpr Whole kMax = std::numeric_limits<Whole>::max(), kMin = std::numeric_limits<Whole>::min();
  constexpr Whole kQuarter = kMax / 2 + 1;
  const Value a = constant(graph, HostTensor::of<Whole>({2, 2}, {kMax, -5, kQuarter, kMin}));
  const Value b = constant(graph, HostTensor::of<Whole>({2}, {4, 1}));
  const auto results = run_kernels({a + b, a - b, a * b}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<Whole>({2, 2}, {kMin + 3, -4, kQuarter + 4, kMin + 1})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<Whole>({2, 2}, {kMax - 4, -6, kQuarter - 4, kMax})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<Whole>({2, 2}, {-4, -5, 0, kMin})));
}

TEST(Arithmetic, AddsSubtractsAndMultipliesWholeNumbersWithWrapAround) {
  expect_wrap_around<std::int32_t>();
  expect_wrap_around<std::int64_t>();
}

TEST(Arithmetic, TakesOneValueOnBothSides) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3}, {3, -2, 0.5F}));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs, InPlaceUse::last_pairs}) {
    const auto results = run_kernels({x * x, x - x, add_n({x, x, x})}, {}, {.in_place = in_place});
    EXPECT_TRUE(same_bits(results[0], HostTensor::of<float>({3}, {9, 4, 0.25F})));
    EXPECT_TRUE(same_bits(results[1], HostTensor::of<float>({3}, {0, 0, 0})));
    EXPECT_TRUE(same_bits(results[2], HostTensor::of<float>({3}, {9, -6, 1.5F})));
  }
}

TEST(Arithmetic, DividesByZeroAsIeee) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3}, {1, -1, 0}));
  const HostTensor y = std::move(run_kernels({x / 0.0F}, {})[0]);
  EXPECT_EQ(y.values<float>()[0], INFINITY);
  EXPECT_EQ(y.values<float>()[1], -INFINITY);
  EXPECT_TRUE(std::isnan(y.values<float>()[2]));
}

TEST(Arithmetic, BitsDoNotDependOnTheThreadCount) {
  Graph graph;
  const Value x = placeholder(graph, "x", {37, 51, 29});
  HostTensor content(Dtype::f32, {37, 51, 29});
  for (int i = 0; float& element : content.values<float>()) element = std::sin(static_cast<float>(++i));
  const Value like = fill(graph, {37, 1, 29}, 1);
  const std::vector<Value> fetches = {x / fill(graph, {51, 1}, 3), reduce_to_like(x, like),
                                      reduce_to_like(x, fill(graph, {29}, 0)), reduce_to_like(x, fill(graph, {}, 0))};
  Feeds feeds;
  feeds.emplace(x, std::move(content));
  const auto one = run_kernels(fetches, feeds, {.threads = 1});
  for (int threads : {2, 3, 7}) {
    const auto several = run_kernels(fetches, feeds, {.threads = threads});
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], several[i])) << "fetch " << i;
  }
}

}  // namespace
}  // namespace sectionflow
