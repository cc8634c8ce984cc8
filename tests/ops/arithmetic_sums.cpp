// Sums of the arithmetic family: add_n, and accumulate, of which gradients are made.

#include <vector>

#include "base/dtype.h"
#include "graph/nodes/arithmetic.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

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
      cases.push_back(in_bf16(cases.back()));
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, AddN, testing::ValuesIn(add_n_cases()), case_name);

TEST(AddNOfMany, AddsFromLeftToRightOverWhicheverInputItLies) {
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

class Accumulate : public testing::TestWithParam<OpCase> {};
TEST_P(Accumulate, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}

OpCase accumulate_case(const Shape& shape, Dtype from, Dtype to) {
  OpCase result = {
      .name = text_of(dtype_name(from), "_to_", dtype_name(to), "_with_", shape.num_elements()),
      .inputs = {input(shape), input(shape)},
      .build = [to](Graph&, const std::vector<Value>& in) { return std::vector{accumulate(in[0], in[1], to)}; },
      .reference =
          [](const std::vector<Doubles>& in) {
            Doubles y = in[0];
            for (std::size_t i = 0; i < y.size(); ++i) y[i] += in[1][i];
            return std::vector<Doubles>{y};
          },
      .tolerance = {.relative = 0.51, .absolute = 0},
      .dynamic_batch = shape.rank() > 0,
      .same_bits_for_any_threads = true};
  const Tolerance of_f32 = result.tolerance;
  result = in_bf16(result, from == Dtype::bf16 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{1});
  if (to == Dtype::f32) result.tolerance = of_f32;
  return result;
}

std::vector<OpCase> accumulate_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{5, 3}, Shape{}, Shape{0, 2}, Shape{20011}}) {
    for (Dtype from : {Dtype::f32, Dtype::bf16}) {
      for (Dtype to : {Dtype::f32, Dtype::bf16}) cases.push_back(accumulate_case(shape, from, to));
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, Accumulate, testing::ValuesIn(accumulate_cases()), case_name);

TEST(Accumulate, OfManyRoundsOnceAsAddNDoes) {
  // A bf16 has 8 bits: 256 swallows each 1 that is rounded in alone.
  Graph graph;
  const auto bf16 = [&](double value) { return fill(graph, {5000}, value, Dtype::bf16); };
  Value sum = bf16(256);
  for (int i = 0; i < 6; ++i) sum = accumulate(sum, bf16(1), i == 5 ? Dtype::bf16 : Dtype::f32);
  const Value at_once = add_n({bf16(256), bf16(1), bf16(1), bf16(1), bf16(1), bf16(1), bf16(1)});
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs, InPlaceUse::last_pairs}) {
    const auto results = run_kernels({sum, at_once}, {}, {.in_place = in_place});
    EXPECT_EQ(static_cast<float>(results[0].values<BFloat16>()[4711]), 262);
    EXPECT_TRUE(same_bits(results[0], results[1]));
  }
}

TEST(Accumulate, RefusesTypesThatItDoesNotAdd) {
  Graph graph;
  const auto in = [&](Dtype dtype, Shape shape) { return placeholder(graph, "x", std::move(shape), dtype); };
  const Value part = in(Dtype::bf16, {2});
  EXPECT_THROW(accumulate(in(Dtype::f32, {2}), in(Dtype::f32, {2}), Dtype::f32), ShapeError);
  EXPECT_THROW(accumulate(in(Dtype::f32, {3}), part, Dtype::f32), ShapeError);
  EXPECT_THROW(accumulate(in(Dtype::i64, {2}), part, Dtype::f32), ArgumentError);
  EXPECT_THROW(accumulate(in(Dtype::f32, {2}), part, Dtype::f64), ArgumentError);
  EXPECT_EQ(accumulate(in(Dtype::f32, {kDynamic}), part, Dtype::f32).type().text(), "f32[?]");
}

TEST(AddNOfMany, TakesAnyNumberOfValues) {
  Graph graph;
  std::vector<Value> values;
  float sum = 0;
  for (int i = 0; i < 600; ++i) {
    values.push_back(fill(graph, {7}, i));
    sum += static_cast<float>(i);  // exact
  }
  const HostTensor wanted = HostTensor::of<float>({7}, std::vector<float>(7, sum));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs, InPlaceUse::last_pairs}) {
    EXPECT_TRUE(same_bits(run_kernels({add_n(values)}, {}, {.in_place = in_place})[0], wanted));
  }
}

}  // namespace
}  // namespace sectionflow
