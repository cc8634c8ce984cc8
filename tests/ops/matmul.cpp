#include "graph/ops/matmul.h"

#include <cmath>
#include <string>

#include "graph/nodes/matmul.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "tests/graph/description.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

struct MatmulSizes {
  std::int64_t rows, inner, columns;
};

OpCase matmul_case(const MatmulSizes& s, bool transpose_a, bool transpose_b) {
  const std::string transposed = std::string(transpose_a ? "_at" : "") + (transpose_b ? "_bt" : "");
  return {.name = std::to_string(s.rows) + "x" + std::to_string(s.inner) + "x" + std::to_string(s.columns) + transposed,
          .inputs = {input(transpose_a ? Shape{s.inner, s.rows} : Shape{s.rows, s.inner}),
                     parameter(transpose_b ? Shape{s.columns, s.inner} : Shape{s.inner, s.columns})},
          .build =
              [=](Graph&, const std::vector<Value>& in) {
                return std::vector{matmul(in[0], in[1], {.transpose_a = transpose_a, .transpose_b = transpose_b})};
              },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles y(static_cast<std::size_t>(s.rows * s.columns));
                for (std::int64_t i = 0; i < s.rows; ++i)
                  for (std::int64_t k = 0; k < s.inner; ++k)
                    for (std::int64_t j = 0; j < s.columns; ++j) {
                      const double a = in[0][transpose_a ? k * s.rows + i : i * s.inner + k];
                      const double b = in[1][transpose_b ? j * s.inner + k : k * s.columns + j];
                      y[i * s.columns + j] += a * b;
                    }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 4, .absolute = static_cast<double>(s.inner) / 2 + 4},
          .dynamic_batch = s.rows == 250 && !transpose_a};
}

/// What a batch adds: leading dimensions, and whether one b serves all.
struct Batch {
  Shape leading;
  bool shared_b = false;
};

Shape with(const Shape& leading, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> dims = leading.dims();
  dims.insert(dims.end(), {rows, columns});
  return Shape(dims);
}

Doubles part(const Doubles& all, std::int64_t index, std::int64_t count) {
  return {all.begin() + index * count, all.begin() + (index + 1) * count};
}

OpCase batched_matmul_case(const MatmulSizes& s, const Batch& batch, bool transpose_a, bool transpose_b) {
  OpCase one = matmul_case(s, transpose_a, transpose_b);
  const std::int64_t count = batch.leading.num_elements();
  const Shape b_leading = batch.shared_b ? Shape{} : batch.leading;
  const Shape b = transpose_b ? with(b_leading, s.columns, s.inner) : with(b_leading, s.inner, s.columns);
  return {.name = "batch_" + std::to_string(count) + (batch.shared_b ? "_shared_" : "_") + one.name,
          .inputs = {input(transpose_a ? with(batch.leading, s.inner, s.rows) : with(batch.leading, s.rows, s.inner)),
                     batch.shared_b ? parameter(b) : input(b)},
          .build = one.build,
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles all;
                for (std::int64_t i = 0; i < count; ++i) {
                  const Doubles y = one.reference(
                      {part(in[0], i, s.rows * s.inner), part(in[1], batch.shared_b ? 0 : i, s.inner * s.columns)})[0];
                  all.insert(all.end(), y.begin(), y.end());
                }
                return std::vector<Doubles>{all};
              },
          .tolerance = one.tolerance,
          .dynamic_batch = true};
}

/// The product of a case, added to another input.
OpCase added_case(OpCase product, const Shape& y, MatmulOptions options) {
  product.name = "added_" + product.name;
  product.inputs.insert(product.inputs.begin(), input(y));
  product.inputs[0].has_batch = product.dynamic_batch;
  product.build = [options](Graph&, const std::vector<Value>& in) {
    return std::vector{add_matmul(in[0], in[1], in[2], options)};
  };
  product.reference = [of = product.reference](const std::vector<Doubles>& in) {
    std::vector<Doubles> y = of({in[1], in[2]});
    for (std::size_t i = 0; i < y[0].size(); ++i) y[0][i] += in[0][i];
    return y;
  };
  return product;
}

std::vector<OpCase> added_cases() {
  std::vector<OpCase> all;
  const auto add = [&](const MatmulSizes& s, bool transpose_a, bool transpose_b) {
    all.push_back(
        added_case(matmul_case(s, transpose_a, transpose_b), {s.rows, s.columns}, {transpose_a, transpose_b}));
  };
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const MatmulSizes& sizes : {MatmulSizes{7, 13, 5}, {250, 300, 10}, {33, 1, 17}}) {
        add(sizes, transpose_a, transpose_b);
      }
    }
  }
  add({150, 40, 800}, false, false);  // b is reordered first
  add({20, 1100, 24}, true, false);   // long sums for few results
  for (const MatmulSizes& empty : {MatmulSizes{0, 4, 3}, {4, 0, 3}, {4, 3, 0}}) add(empty, false, false);
  all.push_back(added_case(batched_matmul_case({7, 13, 5}, {{3}}, false, true), {3, 7, 5}, {.transpose_b = true}));
  all.push_back(added_case(batched_matmul_case({7, 13, 5}, {{2, 3}, true}, false, false), {2, 3, 7, 5}, {}));
  all.push_back(in_bf16(added_case(matmul_case({64, 64, 16}, true, false), {64, 16}, {.transpose_a = true})));
  all.back().name += "_bf16";
  return all;
}

std::vector<OpCase> batched_matmul_cases() {
  std::vector<OpCase> all;
  for (bool transpose_b : {false, true}) {
    for (bool transpose_a : {false, true}) {
      all.push_back(batched_matmul_case({7, 13, 5}, {{3}}, transpose_a, transpose_b));
      all.push_back(batched_matmul_case({33, 64, 17}, {{2, 3}}, transpose_a, transpose_b));
      all.push_back(batched_matmul_case({4, 5, 6}, {{1}}, transpose_a, transpose_b));
      all.push_back(batched_matmul_case({1, 9, 1}, {{4}}, transpose_a, transpose_b));
    }
    for (const Shape& leading : {Shape{3}, Shape{2, 3}, Shape{1}}) {
      all.push_back(batched_matmul_case({7, 13, 5}, {leading, true}, false, transpose_b));
    }
    all.push_back(batched_matmul_case({0, 4, 3}, {{2}, true}, false, transpose_b));
    all.push_back(batched_matmul_case({2, 4, 3}, {{0}, true}, false, transpose_b));
    all.push_back(batched_matmul_case({2, 4, 3}, {{0}}, false, transpose_b));
    all.push_back(batched_matmul_case({2, 0, 3}, {{2}}, false, transpose_b));
  }
  all.push_back(batched_matmul_case({17, 600, 18}, {{2}}, false, true));         // long sums for few results
  all.push_back(batched_matmul_case({60, 40, 800}, {{3}, true}, false, false));  // b is reordered first
  return all;
}

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> all;
  for (const MatmulSizes& sizes :
       {MatmulSizes{1, 1, 1}, {7, 13, 5}, {1, 100, 100}, {64, 64, 10}, {33, 1, 17}, {250, 300, 10}, {100, 257, 64}}) {
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true}) all.push_back(matmul_case(sizes, transpose_a, transpose_b));
  }
  all.push_back(matmul_case({150, 40, 800}, false, false));  // b is reordered first
  // Long sums for few results.
  for (const MatmulSizes& sizes : {MatmulSizes{20, 1100, 24}, {3, 777, 130}, {130, 530, 9}})
    all.push_back(matmul_case(sizes, true, false));
  for (const MatmulSizes& empty : {MatmulSizes{0, 4, 3}, {4, 0, 3}, {4, 3, 0}})
    all.push_back(matmul_case(empty, false, false));
  return all;
}

class MatmulCases : public testing::TestWithParam<OpCase> {};
TEST_P(MatmulCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, MatmulCases, testing::ValuesIn(matmul_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(
    Bf16, MatmulCases,
    testing::Values(in_bf16(matmul_case({7, 13, 5}, false, false)), in_bf16(matmul_case({33, 1, 17}, true, true)),
                    in_bf16(matmul_case({100, 257, 64}, false, true)), in_bf16(matmul_case({64, 64, 16}, true, false)),
                    in_bf16(matmul_case({79, 63, 64}, false, false)), in_bf16(matmul_case({4, 0, 3}, false, false))),
    case_name);

class AddedMatmulCases : public testing::TestWithParam<OpCase> {};
TEST_P(AddedMatmulCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, AddedMatmulCases, testing::ValuesIn(added_cases()), case_name);

class BatchedMatmulCases : public testing::TestWithParam<OpCase> {};
TEST_P(BatchedMatmulCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BatchedMatmulCases, testing::ValuesIn(batched_matmul_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, BatchedMatmulCases,
                         testing::Values(in_bf16(batched_matmul_case({7, 13, 5}, {{3}}, false, true)),
                                         in_bf16(batched_matmul_case({17, 40, 18}, {{2}, true}, false, false))),
                         case_name);

TEST(Matmul, OfBf16HasTheRangeOfBf16WhichHalfFloatsHaveNot) {
  for (const float number : {0x1p40F, 0x1p-40F}) {
    Graph graph;
    const Value a = cast(fill(graph, {64, 64}, number), Dtype::bf16);
    const std::vector<HostTensor> results = run_kernels({cast(matmul(a, a), Dtype::f32)}, Feeds{});
    for (const float sum : results[0].values<float>()) ASSERT_EQ(sum, 64 * number * number);
  }
}

TEST(Matmul, OfNoRowsHasAZeroGradientOfAMatrixThatAllShare) {
  check({.name = "over_no_rows",
         .inputs = {input({0, 2, 3}), input({0, 2, 2})},
         .build = [](Graph&, const std::vector<Value>& in) { return std::vector{matmul_over_rows(in[0], in[1])}; },
         .reference = [](const std::vector<Doubles>&) { return std::vector<Doubles>{Doubles(6, 0.0)}; },
         .gradient_outputs = {},
         .dynamic_batch = true,
         .same_bits_for_any_threads = true});
}

/// As long as the rows of products in blocks are; 256 of them are two blocks. One gradient is as wide, one a sum over
/// the rows.
constexpr std::int64_t kWide = 24576;

class WideMatmulCases : public testing::TestWithParam<OpCase> {};
TEST_P(WideMatmulCases, EqualTheReferenceAndKeepTheirBits) {
  if (!tests_run_on_cpu()) GTEST_SKIP() << "blocks and parts are for the CPU";
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, WideMatmulCases,
                         testing::Values(matmul_case({256, kWide, 1}, false, false),
                                         batched_matmul_case({64, kWide, 1}, {{4}, true}, false, false),
                                         in_bf16(matmul_case({256, kWide, 1}, false, true))),
                         case_name);

TEST(WideMatmul, IsComputedInBlocks) {
  if (!tests_run_on_cpu()) GTEST_SKIP() << "blocks and parts are for the CPU";
  Graph graph;
  const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape)); };
  for (const Value& y :
       {matmul(in({256, 1}), in({1, kWide})), matmul(in({256, 1}), in({256, kWide}), {.transpose_a = true}),
        matmul_over_rows(in({4, 64, kWide}), in({4, 64, 1}))}) {
    EXPECT_TRUE(implementation_of(y).ends_with("in blocks of 128 rows")) << implementation_of(y);
  }
}

TEST(Matmul, InfersTheShapesOfBatches) {
  Graph graph;
  const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape)); };
  EXPECT_EQ(matmul(in({kDynamic, 5, 2, 3}), in({6, kDynamic, 3, 4})).type().text(), "f32[6,5,2,4]");
  EXPECT_EQ(matmul(in({kDynamic, 2, 3}), in({3, 4})).type().text(), "f32[?,2,4]");
  EXPECT_EQ(matmul(in({5, 3, 2}), in({5, 4, 3}), {.transpose_a = true, .transpose_b = true}).type().text(),
            "f32[5,2,4]");
  EXPECT_EQ(add_matmul(in({2, 4}), in({kDynamic, 3}), in({3, 4})).type().text(), "f32[2,4]");
  EXPECT_THROW(add_matmul(in({2, 5}), in({2, 3}), in({3, 4})), ShapeError);
  EXPECT_EQ(matmul_over_rows(in({kDynamic, 2, 3}), in({5, 2, 4})).type().text(), "f32[3,4]");
}

TEST(Matmul, RefusesBatchesThatDoNotFit) {
  Graph graph;
  const auto refused = [&](Shape a, Shape b, MatmulOptions options, const std::string& wanted) {
    const Value x = placeholder(graph, "x", std::move(a)), y = placeholder(graph, "y", std::move(b));
    const std::string text = error_text<ShapeError>([&] { matmul(x, y, options); });
    EXPECT_TRUE(text.starts_with("matmul 'matmul'") && contains(text, wanted)) << text;
  };
  refused({5, 2, 3}, {4, 3, 2}, {}, "leading dimensions 5 and 4 differ");
  refused({5, 2, 3}, {5, 4, 2}, {}, "inner dimensions 3 and 4 differ");
  refused({2, 3}, {5, 3, 4}, {}, "a batch and one matrix");
  refused({2, 5, 2, 3}, {5, 3, 4}, {}, "a batch and one matrix");
  refused({5, 3, 2}, {3, 4}, {.transpose_a = true}, "try transpose");
}

}  // namespace
}  // namespace sectionflow::testing_support
