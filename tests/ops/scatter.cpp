#include "graph/ops/scatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "autodiff/gradients.h"
#include "graph/nodes/indexing.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Of 6 rows the indices name some several times, some never, and now and then none that there is.
OpCase scatter_case(const std::string& name, Shape x_shape, Shape indices, bool is_sum, Dtype index = Dtype::i32) {
  CaseInput x = input(x_shape), places = moved_input(index, indices);
  x.has_batch = false;
  places.low = -1;
  places.high = static_cast<double>(x_shape[0]);
  std::vector<std::int64_t> dims = indices.dims();
  dims.insert(dims.end(), x_shape.dims().begin() + 1, x_shape.dims().end());
  CaseInput updates = input(Shape(dims));
  if (!is_sum) {  // no two of a place are near each other
    x.low = -20, x.high = -10;
    x.distinct = true;
    updates.distinct = true;
    updates.low = -12, updates.high = 12;
  }
  const auto num_rows = static_cast<double>(x_shape[0]);
  const std::size_t length = static_cast<std::size_t>(x_shape.num_elements() / std::max<std::int64_t>(1, x_shape[0]));
  OpCase op_case{.name = name,
                 .inputs = {x, places, updates},
                 .build =
                     [=](Graph&, const std::vector<Value>& in) {
                       return std::vector{is_sum ? scatter_add(in[0], in[1], in[2]) : scatter_max(in[0], in[1], in[2])};
                     },
                 .reference =
                     [=](const std::vector<Doubles>& in) {
                       Doubles y = in[0];
                       for (std::size_t n = 0; n < in[1].size(); ++n) {
                         if (in[1][n] < 0 || in[1][n] >= num_rows) continue;
                         for (std::size_t c = 0; c < length; ++c) {
                           double& to = y[static_cast<std::size_t>(in[1][n]) * length + c];
                           to = is_sum ? to + in[2][n * length + c] : std::max(to, in[2][n * length + c]);
                         }
                       }
                       return std::vector<Doubles>{y};
                     },
                 .tolerance = {.relative = is_sum ? 16.0 : 0.0, .absolute = is_sum ? 64.0 : 0.0},
                 .dynamic_batch = indices.rank() > 0,
                 .same_bits_for_any_threads = true};
  return op_case;
}

OpCase narrow(OpCase op_case) {
  op_case = in_bf16(op_case);
  op_case.name += "_bf16";
  if (op_case.tolerance.relative == 0) op_case.gradient_outputs = {};  // equal numbers are kinks
  return op_case;
}

std::vector<OpCase> scatter_cases() {
  std::vector<OpCase> cases;
  for (const bool is_sum : {true, false}) {
    const std::string kind = is_sum ? "add_" : "max_";
    for (const auto& [name, x, indices] : {std::tuple{"rows", Shape{6, 5}, Shape{9}},
                                           {"numbers", Shape{6}, Shape{4, 3}},
                                           {"planes", Shape{5, 3, 4}, Shape{2, 3}},
                                           {"one_index", Shape{4, 3}, Shape{}},
                                           {"no_indices", Shape{4, 3}, Shape{0}},
                                           {"wide", Shape{7, 301}, Shape{11}}}) {
      cases.push_back(scatter_case(kind + name, x, indices, is_sum));
    }
    cases.push_back(scatter_case(kind + "by_i64", {40, 8}, {101}, is_sum, Dtype::i64));
    cases.push_back(scatter_case(kind + "again_by_i64", {6, 8}, {101}, is_sum, Dtype::i64));
    cases.push_back(narrow(cases[cases.size() - 8]));
    cases.push_back(narrow(cases[cases.size() - 4]));
  }
  cases.push_back(scatter_case("add_many", {1009, 12}, {3001}, true));
  return cases;
}

class Scatter : public testing::TestWithParam<OpCase> {};
TEST_P(Scatter, CombinesRowsByIndexWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Scatter, testing::ValuesIn(scatter_cases()), case_name);

TEST(ScatterExactly, RowsAreAddedToWhatIsThereInTheOrderOfTheIndices) {
  const float large = 16777216.0F;
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({2, 1}, {large, 1}));
  const Value indices = constant(graph, HostTensor::of<std::int32_t>({5}, {0, 1, 0, 1, 1}));
  const Value updates = constant(graph, HostTensor::of<float>({5, 1}, {1, large, -large, -large, 1}));
  for (const int threads : {1, 2, 7}) {
    EXPECT_EQ(doubles_of(run_kernels({scatter_add(x, indices, updates)}, {}, {.threads = threads})[0]),
              (Doubles{0, 1}));
  }
}

// Rows that are named again and again are taken in the order of their places: by columns of few, by rows of many.
TEST(ScatterExactly, RowsNamedAgainAndAgainAreAddedInTheOrderOfTheIndices) {
  for (const std::int64_t num_rows : {3, 70}) {
    for (const std::int64_t length : {1, 130, 530}) {
      const std::int64_t count = 7 * num_rows;
      HostTensor indices(Dtype::i32, {count}), updates(Dtype::f32, {count, length}),
          sums(Dtype::f32, {num_rows, length});
      for (std::int64_t n = 0; n < count; ++n) {
        // Half of them name row 1; -1 and num_rows are no rows.
        const std::int64_t row = n % 2 == 0 ? 1 : n * n % (num_rows + 2) - 1;
        indices.values<std::int32_t>()[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(row);
        for (std::int64_t c = 0; c < length; ++c) {
          const auto at = static_cast<std::size_t>(n * length + c);
          updates.values<float>()[at] = std::sin(static_cast<float>(at)) * (n % 3 == 0 ? 1e6F : 1.0F);
          if (row < 0 || row >= num_rows) continue;
          sums.values<float>()[static_cast<std::size_t>(row * length + c)] += updates.values<float>()[at];
        }
      }
      Graph graph;
      const Value x = fill(graph, {num_rows, length}, 0);
      const Value y = scatter_add(x, constant(graph, std::move(indices)), constant(graph, std::move(updates)));
      for (const int threads : {1, 2, 5}) {
        EXPECT_TRUE(bitwise_equal(run_kernels({y}, {}, {.threads = threads})[0], sums)) << num_rows << " x " << length;
      }
    }
  }
}

TEST(ScatterExactly, ANaNIsLargestAndItsPlaceHasNoGradient) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3});
  const Value indices = constant(graph, HostTensor::of<std::int32_t>({4}, {0, 0, 1, 5}));
  const Value updates = constant(graph, HostTensor::of<float>({4}, {NAN, 9, 7, 9}));
  const Value y = scatter_max(x, indices, updates);
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({3}, {8, 7, 6}));
  const auto results = run_kernels({y, gradients(reduce_sum(y), {x})[0]}, feeds);
  EXPECT_TRUE(std::isnan(results[0].values<float>()[0]));
  EXPECT_EQ(results[0].values<float>()[1], 7);
  EXPECT_EQ(results[0].values<float>()[2], 6);
  EXPECT_EQ(doubles_of(results[1]), (Doubles{0, 0.5, 1}));
}

TEST(ScatterExactly, TheSecondDerivativeOfARowThatThereIsNotIsZero) {
  Graph graph;
  const Value table = constant(graph, HostTensor::of<float>({2, 1}, {3, 4}));
  const Value indices = constant(graph, HostTensor::of<std::int64_t>({3}, {1, -1, 2}));
  EXPECT_EQ(doubles_of(run_kernels({gather_present(table, indices)}, {})[0]), (Doubles{4, 0, 0}));
}

TEST(ScatterShapes, RefuseUpdatesThatDoNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3}), i = placeholder(graph, "i", {2}, Dtype::i32);
  const Value rows = placeholder(graph, "rows", {2, 3}), short_rows = placeholder(graph, "short", {2, 2});
  const Value narrow_rows = placeholder(graph, "narrow", {2, 3}, Dtype::bf16);
  const Value scalar = placeholder(graph, "scalar", {});
  const int before = graph.num_nodes();
  expect_refused<ShapeError>([&] { scatter_add(x, i, short_rows); }, "scatter_add 'scatter_add'",
                             {"f32[2,2]", "f32[4,3]", "i32[2]", "wanted f32[2,3]"});
  expect_refused<ShapeError>([&] { scatter_max(scalar, i, rows); }, "scatter_max 'scatter_max'", {"f32[]", "[V, ...]"});
  expect_refused<ArgumentError>([&] { scatter_add(x, i, narrow_rows); }, "scatter_add 'scatter_add'", {"one dtype"});
  expect_refused<ArgumentError>([&] { scatter_add(x, rows, rows); }, "scatter_add 'scatter_add'", {"i32 or i64"});
  expect_refused<ArgumentError>([&] { scatter_add(i, i, i); }, "scatter_add 'scatter_add'", {"i32[2]"});
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow
