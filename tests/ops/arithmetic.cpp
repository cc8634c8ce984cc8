#include "graph/ops/arithmetic.h"

#include <cmath>
#include <limits>

#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// The element of a tensor of `shape` that is repeated at `index` of `out`, which `shape` broadcasts to.
std::size_t source_index(std::int64_t index, const Shape& out, const Shape& shape) {
  std::int64_t source = 0, stride = 1;
  for (int i = 1; i <= out.rank(); ++i) {
    const std::int64_t position = index % out[-i];
    index /= out[-i];
    if (i > shape.rank()) continue;
    source += shape[-i] == 1 ? 0 : position * stride;
    stride *= shape[-i];
  }
  return static_cast<std::size_t>(source);
}

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
    }
  }
  return cases;
}

class BinaryArithmetic : public testing::TestWithParam<OpCase> {};
TEST_P(BinaryArithmetic, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BinaryArithmetic, testing::ValuesIn(binary_cases()), case_name);

class AddN : public testing::TestWithParam<OpCase> {};
TEST_P(AddN, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}

std::vector<OpCase> add_n_cases() {
  std::vector<OpCase> cases;
  for (int count : {1, 2, 3, 6}) {
    for (const Shape& shape : {Shape{5, 3}, Shape{}, Shape{0, 2}, Shape{20011}}) {
      cases.push_back({.name = "of_" + std::to_string(count) + "_with_" + std::to_string(shape.num_elements()),
                       .inputs = std::vector<CaseInput>(static_cast<std::size_t>(count), input(shape)),
                       .build = [](Graph&, const std::vector<Value>& in) { return std::vector{add_n(in)}; },
                       .reference =
                           [](const std::vector<Doubles>& in) {
                             Doubles y(in[0].size(), 0.0);
                             for (const Doubles& x : in) {
                               for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
                             }
                             return std::vector<Doubles>{y};
                           },
                       .dynamic_batch = shape.rank() > 0,
                       .same_bits_for_any_threads = true});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, AddN, testing::ValuesIn(add_n_cases()), case_name);

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

TEST(Arithmetic, AddsSubtractsAndMultipliesI64WithWrapAround) {
  Graph graph;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const Value a = constant(graph, HostTensor::of<std::int64_t>({2, 2}, {kMax, -5, std::int64_t{1} << 62, kMin}));
  const Value b = constant(graph, HostTensor::of<std::int64_t>({2}, {4, 1}));
  const auto results = run_kernels({a + b, a - b, a * b}, {});
  EXPECT_TRUE(same_bits(results[0],
                        HostTensor::of<std::int64_t>({2, 2}, {kMin + 3, -4, (std::int64_t{1} << 62) + 4, kMin + 1})));
  EXPECT_TRUE(
      same_bits(results[1], HostTensor::of<std::int64_t>({2, 2}, {kMax - 4, -6, (std::int64_t{1} << 62) - 4, kMax})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<std::int64_t>({2, 2}, {-4, -5, 0, kMin})));
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

TEST(Arithmetic, AddNAddsFromLeftToRightOverWhicheverInputItLies) {
  // 2^24 swallows a 1 that comes alone: every other order gives other bits.
  Graph graph;
  const Value one = fill(graph, {5000}, 1), big = fill(graph, {5000}, 0x1p24), minus = fill(graph, {5000}, -0x1p24);
  const Value two = fill(graph, {5000}, 2);
  const Value sum = add_n({big, one, minus, two}), other = add_n({one, two, big, minus});
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs, InPlaceUse::last_pairs}) {
    const auto results = run_kernels({sum, other}, {}, {.in_place = in_place});
    for (float y : results[0].values<float>()) ASSERT_EQ(y, 2);
    for (float y : results[1].values<float>()) ASSERT_EQ(y, 4);
  }
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
