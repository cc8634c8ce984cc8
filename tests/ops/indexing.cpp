#include "graph/ops/indexing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "autodiff/gradients.h"
#include "graph/nodes/indexing.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

OpCase gather_case(const std::string& name, Shape table_shape, Shape indices, Dtype index_dtype = Dtype::i32,
                   Dtype dtype = Dtype::f32) {
  CaseInput table = moved_input(dtype, table_shape);
  table.has_batch = false;
  CaseInput places = moved_input(index_dtype, std::move(indices));
  places.high = static_cast<double>(table_shape[0] - 1);
  OpCase op_case = moving_case(
      name, {table, places}, [](Graph&, const std::vector<Value>& in) { return std::vector{gather(in[0], in[1])}; },
      [num_rows = static_cast<std::size_t>(table_shape[0])](const std::vector<Doubles>& in) {
        const std::size_t length = in[0].size() / num_rows;
        Doubles y;
        for (double index : in[1]) {
          for (std::size_t c = 0; c < length; ++c) y.push_back(in[0][static_cast<std::size_t>(index) * length + c]);
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> gather_dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    for (Dtype index : {Dtype::i32, Dtype::i64}) {
      cases.push_back(gather_case(text_of(dtype_name(dtype), "_by_", dtype_name(index)), {7, 3}, {11}, index, dtype));
    }
  }
  return cases;
}

class Gather : public testing::TestWithParam<OpCase> {};
TEST_P(Gather, TakesRowsAndAddsTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Gather,
    testing::Values(gather_case("tokens", {50, 24}, {4, 9}), gather_case("one_token", {50, 24}, {}),
                    gather_case("one_row", {1, 5}, {6}), gather_case("numbers", {13}, {3, 2}),
                    gather_case("planes", {5, 3, 2, 4}, {2, 7}, Dtype::i64), gather_case("empty_rows", {5, 0}, {3}),
                    gather_case("no_indices", {5, 3}, {0}), gather_case("no_indices_inside", {5, 3}, {4, 0}),
                    gather_case("one_short_piece", {9, 65}, {40}), gather_case("often_the_same", {2, 130}, {500}),
                    gather_case("wide", {31, 5003}, {29}), gather_case("large", {5003, 40}, {3001}, Dtype::i64),
                    gather_case("many_numbers", {100, 1}, {40009})),
    case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, Gather, testing::ValuesIn(gather_dtype_cases()), case_name);

template <class Index>
void expect_missing_rows(const std::vector<Index>& indices) {
  Graph graph;
  const auto count = static_cast<std::int64_t>(indices.size());
  const Value table = placeholder(graph, "table", {3, 2}),
              rows = constant(graph, HostTensor::of<Index>({count}, indices));
  const Value whole = constant(graph, HostTensor::of<std::int32_t>({3, 2}, {1, 2, 3, 4, 5, 6}));
  // dy is 1 everywhere, also in the rows that the table does not have.
  const Value dtable = gather_grad(fill(graph, {count, 2}, 1), rows, table);
  Feeds feeds;
  feeds.emplace(table, HostTensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const auto results = run_kernels({gather(table, rows), gather(whole, rows), dtable}, feeds);
  std::vector<float> wanted_gradient(6, 0.0F);
  for (std::size_t n = 0; n < indices.size(); ++n) {
    for (std::size_t c = 0; c < 2; ++c) {
      const bool is_bad = indices[n] < 0 || indices[n] > 2;
      const float y = results[0].values<float>()[n * 2 + c];
      const auto i = static_cast<std::size_t>(indices[n]) * 2 + c;
      EXPECT_TRUE(is_bad ? std::isnan(y) : y == static_cast<float>(i + 1)) << "index " << indices[n];
      EXPECT_EQ(results[1].values<std::int32_t>()[n * 2 + c], is_bad ? 0 : static_cast<std::int32_t>(i + 1));
      if (!is_bad) wanted_gradient[i] += 1;
    }
  }
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<float>({3, 2}, wanted_gradient)));
}

TEST(GatherExactly, AnIndexOutOfRangeGivesNaNAndAddsNothing) {
  expect_missing_rows<std::int32_t>({0, 3, 2, -1, 1, 1, INT32_MIN, INT32_MAX});
  expect_missing_rows<std::int64_t>({0, 3, 2, -1, 1, 1, std::int64_t{1} << 32, INT64_MIN, INT64_MAX});
}

TEST(GatherExactly, ATableWithoutRowsHasNone) {
  Graph graph;
  const Value table = fill(graph, {0, 2}, 1), rows = fill(graph, {1}, 0, Dtype::i32);
  const auto results = run_kernels({gather(table, rows), gather_grad(fill(graph, {1, 2}, 1), rows, table)}, {});
  for (float y : results[0].values<float>()) EXPECT_TRUE(std::isnan(y));
  EXPECT_EQ(results[1].shape(), (Shape{0, 2}));
}

TEST(GatherExactly, ARowThatATableOfBf16LacksIsNaN) {
  Graph graph;
  const Value rows = constant(graph, HostTensor::of<std::int32_t>({2}, {-1, 1}));
  const auto results = run_kernels({gather(fill(graph, {3, 5}, 1, Dtype::bf16), rows)}, {});
  for (std::size_t i = 0; i < 10; ++i) {
    const float y = results[0].values<BFloat16>()[i];
    EXPECT_TRUE(i < 5 ? std::isnan(y) : y == 1.0F) << "element " << i << " is " << y;
  }
}

TEST(GatherExactly, GradientsAreAddedInTheOrderOfTheIndices) {
  // 1 is lost when it is added to 2^24 first, and kept when the large numbers have cancelled.
  const float large = 16777216.0F;
  Graph graph;
  const Value dy = constant(graph, HostTensor::of<float>({6, 1}, {large, 1, 1, -large, large, -large}));
  const Value rows = constant(graph, HostTensor::of<std::int32_t>({6}, {0, 0, 1, 0, 1, 1}));
  const Value table = fill(graph, {2, 1}, 0);
  for (int threads : {1, 2, 7}) {
    const auto results = run_kernels({gather_grad(dy, rows, table)}, {}, {.threads = threads});
    EXPECT_TRUE(same_bits(results[0], HostTensor::of<float>({2, 1}, {0, 0}))) << threads << " threads";
  }
  const Value other = constant(graph, HostTensor::of<float>({3, 1}, {large, -large, 1}));
  const Value same = constant(graph, HostTensor::of<std::int32_t>({3}, {1, 1, 1}));
  EXPECT_TRUE(same_bits(run_kernels({gather_grad(other, same, table)}, {})[0], HostTensor::of<float>({2, 1}, {0, 1})));
}

TEST(GatherShapes, PutTheIndicesInFront) {
  Graph graph;
  const Value table = placeholder(graph, "table", {7, 3, 2}, Dtype::u8);
  const Value tokens = placeholder(graph, "tokens", {kDynamic, 5}, Dtype::i64);
  EXPECT_EQ(gather(table, tokens).type().text(), "u8[?,5,3,2]");
  EXPECT_EQ(gather(table, placeholder(graph, "one", {}, Dtype::i32)).type().text(), "u8[3,2]");
}

TEST(GatherShapes, RefuseOtherTablesAndIndices) {
  Graph graph;
  const Value table = placeholder(graph, "table", {7, 3}), scalar = placeholder(graph, "scalar", {});
  const Value rows = placeholder(graph, "rows", {2}, Dtype::i32), bytes = placeholder(graph, "bytes", {2}, Dtype::u8);
  const int before = graph.num_nodes();
  expect_refused<ShapeError>([&] { gather(scalar, rows); }, "gather 'gather'", {"f32[]", "[V, ...]"});
  expect_refused<ArgumentError>([&] { gather(table, bytes); }, "gather 'gather'", {"u8[2]", "i32 or i64", "try cast"});
  expect_refused<ArgumentError>([&] { gather(table, table); }, "gather 'gather'", {"f32[7,3]"});
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(GatherExactly, OnlyTheIndicesAreKeptForTheGradient) {
  Graph graph;
  const Value table = placeholder(graph, "table", {7, 3}), rows = placeholder(graph, "rows", {2}, Dtype::i32);
  const Value dtable = gradients(reduce_sum(gather(table, rows)), {table})[0];
  const auto uses = dtable.node().op().input_uses(3, std::vector<std::optional<bool>>(3));
  EXPECT_EQ(uses, (std::vector{InputUse::data, InputUse::data, InputUse::shape_only}));
}

/// Indices from beside the classes too.
OpCase one_hot_case(const std::string& name, Shape indices, OneHotOptions options, Dtype dtype = Dtype::i32) {
  CaseInput in = moved_input(dtype, std::move(indices));
  in.low = -1;
  in.high = static_cast<double>(options.depth);
  OpCase op_case = moving_case(
      name, {in}, [options](Graph&, const std::vector<Value>& in) { return std::vector{one_hot(in[0], options)}; },
      [options](const std::vector<Doubles>& in) {
        Doubles y;
        for (double index : in[0]) {
          for (std::int64_t c = 0; c < options.depth; ++c) {
            y.push_back(static_cast<double>(c) == index ? options.on_value : options.off_value);
          }
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

class OneHot : public testing::TestWithParam<OpCase> {};
TEST_P(OneHot, IsOnAtTheIndex) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, OneHot,
    testing::Values(one_hot_case("scalar", {}, {.depth = 5}), one_hot_case("one_class", {7}, {.depth = 1}),
                    one_hot_case("ten_classes", {33}, {.depth = 10}),
                    one_hot_case("i64", {3, 5}, {.depth = 4}, Dtype::i64), one_hot_case("empty", {0, 3}, {.depth = 4}),
                    one_hot_case("other_values", {9}, {.depth = 3, .on_value = 0.5F, .off_value = -2.0F}),
                    one_hot_case("large", {501, 3}, {.depth = 101}, Dtype::i64)),
    case_name);

TEST(OneHotExactly, AnIndexOutOfRangeGivesARowOfOff) {
  Graph graph;
  const Value indices =
      constant(graph, HostTensor::of<std::int64_t>({5}, {-1, 2, std::int64_t{1} << 32, INT64_MIN, INT64_MAX}));
  const Value y = one_hot(indices, {.depth = 2, .off_value = 3});
  EXPECT_EQ(doubles_of(run_kernels({y}, {})[0]), Doubles(10, 3.0));
}

TEST(OneHotShapes, AddAnAxisOfClasses) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3}, Dtype::i64);
  EXPECT_EQ(one_hot(x, {.depth = 4}).type().text(), "f32[?,3,4]");
}

TEST(OneHotShapes, RefuseOtherIndicesAndNoClasses) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), i = placeholder(graph, "i", {2}, Dtype::i32);
  expect_refused<ArgumentError>([&] { one_hot(x, {.depth = 4}); }, "one_hot 'one_hot'", {"f32[2]", "i32 or i64"});
  expect_refused<ArgumentError>([&] { one_hot(i, {}); }, "one_hot 'one_hot'", {"depth is 0"});
  EXPECT_EQ(graph.num_nodes(), 2);
}

std::vector<std::int32_t> argmax_of(Shape shape, const std::vector<float>& x) {
  Graph graph;
  const HostTensor y =
      std::move(run_kernels({argmax(constant(graph, HostTensor::of<float>(std::move(shape), x)))}, {})[0]);
  return {y.values<std::int32_t>().begin(), y.values<std::int32_t>().end()};
}

using Indices = std::vector<std::int32_t>;

TEST(Argmax, GivesTheIndexOfTheLargest) {
  EXPECT_EQ(argmax_of({2, 3}, {1, 3, 2, -1, -2, -3}), (Indices{1, 0}));
  EXPECT_EQ(argmax_of({4}, {1, 2, 3, 4}), (Indices{3}));
  EXPECT_EQ(argmax_of({2, 2, 1}, {5, 6, 7, 8}), (Indices{0, 0, 0, 0}));
}

TEST(Argmax, GivesTheFirstOfSeveral) {
  EXPECT_EQ(argmax_of({3, 4}, {1, 2, 2, 2, 0, 0, 0, 0, -0.0F, 0.0F, -1, 0.0F}), (Indices{1, 0, 0}));
  EXPECT_EQ(argmax_of({2, 2}, {-INFINITY, -INFINITY, INFINITY, INFINITY}), (Indices{0, 0}));
}

TEST(Argmax, TakesTheFirstNaNForTheLargest) {
  EXPECT_EQ(argmax_of({4, 3}, {1, NAN, 2, NAN, 3, NAN, INFINITY, 1, NAN, 1, NAN, NAN}), (Indices{1, 0, 2, 1}));
}

// One path is taken for few classes, lanes for more, and their tails.
TEST(Argmax, GivesTheFirstOfTheLargestForEveryNumberOfClasses) {
  constexpr std::int64_t kRows = 40, kMostClasses = 100;
  for (std::int64_t classes = 1; classes <= kMostClasses; ++classes) {
    std::vector<float> x;
    Indices expected;
    for (std::int64_t n = 0; n < kRows; ++n) {
      std::int32_t at = 0;
      for (std::int32_t c = 0; c < classes; ++c) {
        x.push_back(static_cast<float>((n * 31 + c * (7 + n)) % 13));
        if (x.back() > x[static_cast<std::size_t>(n * classes + at)]) at = c;
      }
      expected.push_back(at);
    }
    ASSERT_EQ(argmax_of({kRows, classes}, x), expected) << classes << " classes";
  }
}

TEST(Argmax, RefusesRowsThatI32DoesNotCount) {
  Graph graph;
  const Value x = placeholder(graph, "x", {1, std::int64_t{1} << 31});
  expect_refused<ShapeError>([&] { argmax(x); }, "argmax 'argmax'", {"f32[1,2147483648]", "below 2^31"});
  EXPECT_EQ(argmax(placeholder(graph, "y", {1, (std::int64_t{1} << 31) - 1})).type().text(), "i32[1]");
}

TEST(Argmax, TakesNoRows) {
  EXPECT_EQ(argmax_of({0, 3}, {}), Indices{});
}

TEST(Argmax, GivesTheSameOnEveryThreadCount) {
  constexpr std::int64_t kRows = 5003, kClasses = 11;
  HostTensor content(Dtype::f32, {kRows, kClasses});
  for (std::int64_t n = 0; n < kRows; ++n)
    content.values<float>()[static_cast<std::size_t>(n * kClasses + n % kClasses)] = 1;
  Graph graph;
  const Value y = argmax(constant(graph, std::move(content)));
  for (int threads : {1, 2, 3}) {
    const HostTensor result = std::move(run_kernels({y}, {}, {.threads = threads})[0]);
    for (std::int32_t n = 0; std::int32_t index : result.values<std::int32_t>()) ASSERT_EQ(index, n++ % kClasses);
  }
}

}  // namespace

}  // namespace sectionflow
