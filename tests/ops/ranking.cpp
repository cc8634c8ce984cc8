#include "graph/ops/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "graph/nodes/ranking.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Values and indices of the k largest of each row.
std::vector<Doubles> largest_of(const Doubles& x, std::size_t columns, std::size_t k) {
  std::vector<Doubles> found(2);
  for (std::size_t row = 0; row < x.size(); row += columns) {
    std::vector<std::size_t> order(columns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return x[row + a] > x[row + b]; });
    for (std::size_t i = 0; i < k; ++i) {
      found[0].push_back(x[row + order[i]]);
      found[1].push_back(static_cast<double>(order[i]));
    }
  }
  return found;
}

OpCase top_k_case(const std::string& name, const Shape& shape, std::int64_t k, Dtype dtype = Dtype::f32) {
  CaseInput x = moved_input(Dtype::f32, shape);
  x.distinct = dtype == Dtype::f32;
  const auto columns = static_cast<std::size_t>(shape[-1]);
  OpCase op_case = moving_case(
      name, {x},
      [k](Graph&, const std::vector<Value>& in) {
        const TopK top = top_k(in[0], k);
        return std::vector{top.values, top.indices};
      },
      [=](const std::vector<Doubles>& in) { return largest_of(in[0], columns, static_cast<std::size_t>(k)); });
  op_case.dynamic_batch = shape.rank() > 1;
  if (dtype == Dtype::bf16) {
    op_case = in_bf16(op_case);
    op_case.gradient_outputs = {};  // equal numbers are kinks
  }
  return op_case;
}

class TopKCases : public testing::TestWithParam<OpCase> {};
TEST_P(TopKCases, GiveTheLargestFromTheLargestOn) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, TopKCases,
                         testing::Values(top_k_case("first", {5, 9}, 1), top_k_case("three", {4, 3, 10}, 3),
                                         top_k_case("all", {3, 8}, 8), top_k_case("vector", {300}, 7),
                                         top_k_case("one", {6, 1}, 1), top_k_case("none", {0, 5}, 2),
                                         top_k_case("long_rows", {3, 5003}, 40), top_k_case("long_sort", {2, 700}, 700),
                                         top_k_case("many_rows", {331, 150}, 5),
                                         top_k_case("bf16", {7, 1000}, 12, Dtype::bf16),
                                         top_k_case("bf16_all", {3, 65}, 65, Dtype::bf16)),
                         case_name);

HostTensor indices_of(const Shape& shape, const std::vector<float>& x, std::int64_t k) {
  Graph graph;
  return std::move(run_kernels({top_k(constant(graph, HostTensor::of<float>(shape, x)), k).indices}, {})[0]);
}

TEST(TopKExactly, EqualOnesComeInTheirOrderAndNaNFirst) {
  EXPECT_TRUE(
      same_bits(indices_of({6}, {1, 2, 2, -0.0F, 0, 2}, 5), HostTensor::of<std::int32_t>({5}, {1, 2, 5, 0, 3})));
  EXPECT_TRUE(same_bits(indices_of({2, 4}, {1, NAN, INFINITY, NAN, -INFINITY, -INFINITY, -1, -INFINITY}, 3),
                        HostTensor::of<std::int32_t>({2, 3}, {1, 3, 2, 2, 0, 1})));
}

TEST(TopKExactly, RowsOfOrderOfEqualOnesAndOfNaNAreFound) {
  constexpr std::int64_t kColumns = 1000, kMost = 3;
  std::vector<float> x;
  for (int i = 0; i < kColumns; ++i) x.push_back(static_cast<float>(i));
  for (int i = 0; i < kColumns; ++i) x.push_back(static_cast<float>(-i));
  x.insert(x.end(), kColumns, 1.0F);
  x.insert(x.end(), kColumns, NAN);
  for (int i = 0; i < kColumns; ++i) x.push_back(i < 900 ? 2.0F : NAN);
  EXPECT_TRUE(
      same_bits(indices_of({5, kColumns}, x, kMost),
                HostTensor::of<std::int32_t>({5, kMost}, {999, 998, 997, 0, 1, 2, 0, 1, 2, 0, 1, 2, 900, 901, 902})));
}

TEST(TopKShapes, RefuseRowsThatAreTooShort) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), scalar = placeholder(graph, "scalar", {});
  const Value whole = placeholder(graph, "whole", {2}, Dtype::i32);
  const int before = graph.num_nodes();
  expect_refused<ShapeError>([&] { top_k(x, 4); }, "top_k 'top_k'", {"f32[2,3]", "4 elements or more"});
  expect_refused<ShapeError>([&] { top_k(scalar, 1); }, "top_k 'top_k'", {"f32[]", "[..., C]"});
  expect_refused<ArgumentError>([&] { top_k(x, 0); }, "top_k 'top_k'", {"k is 0"});
  expect_refused<ArgumentError>([&] { top_k(whole, 1); }, "top_k 'top_k'", {"i32[2]"});
  EXPECT_EQ(graph.num_nodes(), before);
  const TopK top = top_k(placeholder(graph, "y", {kDynamic, kDynamic}), 4);
  EXPECT_EQ(top.values.type().text(), "f32[?,4]");
  EXPECT_EQ(top.indices.type().text(), "i32[?,4]");
}

OpCase take_along_case(const std::string& name, const Shape& shape, std::int64_t count, Dtype index = Dtype::i32,
                       Dtype dtype = Dtype::f32) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.back() = count;
  CaseInput places = moved_input(index, Shape(dims));
  places.high = static_cast<double>(shape[-1] - 1);
  const auto columns = static_cast<std::size_t>(shape[-1]);
  OpCase op_case = moving_case(
      name, {moved_input(dtype, shape), places},
      [](Graph&, const std::vector<Value>& in) { return std::vector{take_along(in[0], in[1])}; },
      [=](const std::vector<Doubles>& in) {
        Doubles y;
        for (std::size_t i = 0; i < in[1].size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(count);
          y.push_back(in[0][row * columns + static_cast<std::size_t>(in[1][i])]);
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = shape.rank() > 1;
  return op_case;
}

std::vector<OpCase> take_along_cases() {
  std::vector<OpCase> cases = {
      take_along_case("rows", {5, 9}, 4),    take_along_case("repeated", {3, 2}, 50),
      take_along_case("vector", {11}, 3),    take_along_case("none", {3, 4}, 0),
      take_along_case("no_rows", {0, 4}, 2), take_along_case("large", {101, 333}, 77, Dtype::i64)};
  for (const Dtype dtype : kAllDtypes)
    cases.push_back(take_along_case(std::string(dtype_name(dtype)), {2, 3, 7}, 5, Dtype::i64, dtype));
  return cases;
}

class TakeAlong : public testing::TestWithParam<OpCase> {};
TEST_P(TakeAlong, TakesElementsAndAddsTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, TakeAlong, testing::ValuesIn(take_along_cases()), case_name);

TEST(TakeAlongExactly, AnIndexOutOfRangeGivesNaNAndAddsNothing) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({1, 3}, {1, 2, 3}));
  const Value indices = constant(graph, HostTensor::of<std::int64_t>({1, 4}, {2, -1, 3, std::int64_t{1} << 32}));
  const Value dx = take_along_grad(fill(graph, {1, 4}, 1), indices, x);
  const auto results = run_kernels({take_along(x, indices), dx, take_along(x, indices, {.missing_is_zero = true}),
                                    take_along(cast(x, Dtype::i32), indices)},
                                   {});
  EXPECT_EQ(results[0].values<float>()[0], 3);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(results[0].values<float>()[i]));
  EXPECT_EQ(doubles_of(results[1]), (Doubles{0, 0, 1}));
  EXPECT_EQ(doubles_of(results[2]), (Doubles{3, 0, 0, 0}));
  EXPECT_EQ(doubles_of(results[3]), (Doubles{3, 0, 0, 0}));
}

TEST(TakeAlongExactly, GradientsAreAddedInTheOrderOfTheIndices) {
  const float large = 16777216.0F;
  Graph graph;
  const Value dy = constant(graph, HostTensor::of<float>({1, 6}, {large, large, 1, -large, -large, 1}));
  const Value indices = constant(graph, HostTensor::of<std::int32_t>({1, 6}, {0, 1, 0, 0, 1, 1}));
  const Value dx = take_along_grad(dy, indices, fill(graph, {1, 2}, 0));
  EXPECT_EQ(doubles_of(run_kernels({dx}, {})[0]), (Doubles{0, 1}));
}

TEST(TakeAlongShapes, RefuseOtherRowsAndIndices) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), i = placeholder(graph, "i", {3, 1}, Dtype::i32);
  const int before = graph.num_nodes();
  expect_refused<ShapeError>([&] { take_along(x, i); }, "take_along 'take_along'",
                             {"f32[2,3]", "i32[3,1]", "same rows"});
  expect_refused<ArgumentError>([&] { take_along(x, x); }, "take_along 'take_along'", {"i32 or i64", "try cast"});
  EXPECT_EQ(graph.num_nodes(), before);
  const Value rows = placeholder(graph, "rows", {kDynamic, 5}, Dtype::i64);
  EXPECT_EQ(take_along(x, rows).type().text(), "f32[2,5]");
}

}  // namespace
}  // namespace sectionflow
