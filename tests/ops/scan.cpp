#include "graph/ops/scan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "graph/ops/basic.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Sums along the middle of [outer, length, inner].
Doubles sums_of(const Doubles& x, std::size_t length, std::size_t inner, const CumsumOptions& options) {
  Doubles y(x.size());
  for (std::size_t line = 0; length > 0 && line < x.size() / length; ++line) {
    double sum = 0;
    for (std::size_t step = 0; step < length; ++step) {
      const std::size_t place = options.reverse ? length - 1 - step : step;
      const std::size_t at = (line / inner * length + place) * inner + line % inner;
      y[at] = options.exclusive ? sum : sum + x[at];
      sum += x[at];
    }
  }
  return y;
}

OpCase cumsum_case(const std::string& name, const Shape& shape, int axis, CumsumOptions options = {}) {
  std::size_t inner = 1;
  const int place = axis < 0 ? axis + shape.rank() : axis;
  for (int i = place + 1; i < shape.rank(); ++i) inner *= static_cast<std::size_t>(shape[i]);
  const auto length = static_cast<std::size_t>(shape[place]);
  // Positive terms: an error of each addition is one of the sum.
  return {
      .name = name,
      .inputs = {input(shape, 0.1, 1)},
      .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{cumsum(in[0], axis, options)}; },
      .reference =
          [=](const std::vector<Doubles>& in) { return std::vector<Doubles>{sums_of(in[0], length, inner, options)}; },
      .tolerance = {.relative = static_cast<double>(length), .absolute = 1},
      .gradient_tolerance = {.relative = 32 + static_cast<double>(length), .absolute = 32},
      .dynamic_batch = place > 0,
      .same_bits_for_any_threads = true};
}

std::vector<OpCase> cumsum_cases() {
  std::vector<OpCase> cases;
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      const CumsumOptions options{.exclusive = exclusive, .reverse = reverse};
      const std::string kind = text_of(exclusive ? "_exclusive" : "", reverse ? "_reverse" : "");
      cases.push_back(cumsum_case("rows" + kind, {7, 13}, -1, options));
      cases.push_back(cumsum_case("columns" + kind, {9, 5}, 0, options));
      cases.push_back(cumsum_case("middle" + kind, {3, 11, 6}, 1, options));
      cases.push_back(cumsum_case("long_rows" + kind, {6, 700}, 1, options));
    }
  }
  for (const auto& [name, shape, axis] : {std::tuple{"vector", Shape{129}, 0},
                                          {"one", Shape{1, 1}, 1},
                                          {"none", Shape{0, 4}, 1},
                                          {"no_length", Shape{4, 0}, 1},
                                          {"wide", Shape{2, 5, 1300}, -2},
                                          {"many_rows", Shape{1001, 33}, 1},
                                          {"long_columns", Shape{300, 70}, 0}}) {
    cases.push_back(cumsum_case(name, shape, axis));
  }
  for (const std::size_t i : {0U, 2U, 11U, 15U}) {
    OpCase narrow = in_bf16(cases[i]);
    narrow.name += "_bf16";
    cases.push_back(narrow);
  }
  return cases;
}

class Cumsum : public testing::TestWithParam<OpCase> {};
TEST_P(Cumsum, SumsWhatComesBefore) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Cumsum, testing::ValuesIn(cumsum_cases()), case_name);

TEST(CumsumExactly, AddsOneElementAfterTheOther) {
  // 1 is lost when it is added to 2^24, and kept when the large numbers have cancelled.
  const float large = 16777216.0F;
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({4}, {large, 1, -large, 1}));
  const auto results = run_kernels({cumsum(x, 0), cumsum(x, 0, {.reverse = true})}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<float>({4}, {large, large, 0, 1})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<float>({4}, {2, 2 - large, 1 - large, 1})));
}

TEST(CumsumExactly, SumsWholeNumbersThatWrapAround) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::lowest();
  Graph graph;
  const Value x = constant(graph, HostTensor::of<std::int64_t>({2, 3}, {kMost, 1, 5, -1, -2, 3}));
  const Value y = constant(graph, HostTensor::of<std::int32_t>({3}, {kLeast, -1, 7}));
  const auto results = run_kernels({cumsum(x, 1), cumsum(x, 0), cumsum(y, 0, {.exclusive = true})}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<std::int64_t>({2, 3}, {kMost, -kMost - 1, 4 - kMost, -1, -3, 0})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<std::int64_t>({2, 3}, {kMost, 1, 5, kMost - 1, -1, 8})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<std::int32_t>({3}, {0, kLeast, -(kLeast + 1)})));
}

TEST(CumsumShapes, RefuseOtherAxesAndDtypes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), scalar = placeholder(graph, "scalar", {});
  const Value bytes = placeholder(graph, "bytes", {2}, Dtype::u8);
  const int before = graph.num_nodes();
  expect_refused<ShapeError>([&] { cumsum(x, 2); }, "cumsum 'cumsum'", {"f32[2,3]", "axis 2"});
  expect_refused<ShapeError>([&] { cumsum(scalar, 0); }, "cumsum 'cumsum'", {"f32[]"});
  expect_refused<ArgumentError>([&] { cumsum(bytes, 0); }, "cumsum 'cumsum'", {"u8[2]", "f32, bf16, i32 or i64"});
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_EQ(cumsum(placeholder(graph, "y", {kDynamic, 3}), 0).type().text(), "f32[?,3]");
}

}  // namespace
}  // namespace sectionflow
