#include "graph/ops/gather.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/moved.h"

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

std::vector<OpCase> dtype_cases() {
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
INSTANTIATE_TEST_SUITE_P(Dtypes, Gather, testing::ValuesIn(dtype_cases()), case_name);

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

}  // namespace
}  // namespace sectionflow
