#include "graph/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// ln softmax of each row of `length`.
Doubles log_softmax_of(const Doubles& x, std::size_t length) {
  Doubles y = x;
  for (std::size_t row = 0; row < x.size(); row += length) {
    const double shift = *std::max_element(x.begin() + row, x.begin() + row + length);
    double sum = 0;
    for (std::size_t c = 0; c < length; ++c) sum += std::exp(x[row + c] - shift);
    for (std::size_t c = 0; c < length; ++c) y[row + c] = x[row + c] - shift - std::log(sum);
  }
  return y;
}

std::vector<OpCase> cases() {
  struct Case {
    const char* name;
    Shape shape;
    double range;
  };
  const Case table[] = {{"vector", {7}, 3},           {"one", {5, 1}, 3},
                        {"odd", {3, 4, 17}, 3},       {"wide", {9, 33}, 80},
                        {"none", {0, 5}, 1},          {"of_none", {3, 0}, 1},
                        {"many_rows", {4001, 3}, 3},  {"vocabulary", {3, 5027}, 3},
                        {"heads", {2, 3, 37, 64}, 6}, {"several_warps", {1100, 33}, 6}};
  std::vector<OpCase> all;
  for (const Case& line : table) {
    const auto length = static_cast<std::size_t>(line.shape[-1]);
    for (bool is_log : {false, true}) {
      all.push_back({.name = std::string(is_log ? "log_" : "") + line.name,
                     .inputs = {input(line.shape, -line.range, line.range)},
                     .build =
                         [=](Graph&, const std::vector<Value>& in) {
                           return std::vector{is_log ? log_softmax(in[0]) : softmax(in[0])};
                         },
                     .reference =
                         [=](const std::vector<Doubles>& in) {
                           Doubles y = log_softmax_of(in[0], length);
                           if (!is_log) {
                             for (double& value : y) value = std::exp(value);
                           }
                           return std::vector<Doubles>{y};
                         },
                     // x - max is rounded, and its error is one of the exponential's argument.
                     .tolerance = {.relative = 4 + line.range, .absolute = is_log ? 2.0 : 1e-30},
                     .dynamic_batch = line.shape.rank() > 1,
                     .same_bits_for_any_threads = true});
      if (line.name == std::string_view("odd")) all.push_back(in_bf16(all.back(), {}, is_log ? 8 : 2));
    }
  }
  return all;
}

class Softmax : public testing::TestWithParam<OpCase> {};
TEST_P(Softmax, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Softmax, testing::ValuesIn(cases()), case_name);

TEST(SoftmaxOps, TakeImpossibleElementsAndPassNanOn) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({4, 2}, {-INFINITY, 3, NAN, 1, -INFINITY, -INFINITY, 1e4F, 0}));
  const auto results = run_kernels({softmax(x), log_softmax(x)}, {});
  EXPECT_TRUE(is_near(results[0], Doubles{0, 1, NAN, NAN, NAN, NAN, 1, 0}, {.relative = 0, .absolute = 0}));
  EXPECT_TRUE(is_near(results[1], Doubles{-INFINITY, 0, NAN, NAN, NAN, NAN, 0, -1e4}, {.relative = 0, .absolute = 0}));
}

TEST(SoftmaxOps, RefuseScalarsAndOtherDtypes) {
  Graph graph;
  EXPECT_THROW(softmax(placeholder(graph, "x", {})), ShapeError);
  EXPECT_THROW(log_softmax(placeholder(graph, "x", {})), ShapeError);
  EXPECT_THROW(softmax(placeholder(graph, "x", {2}, Dtype::f64)), ArgumentError);
  EXPECT_THROW(log_softmax(placeholder(graph, "x", {2}, Dtype::i32)), ArgumentError);
}

}  // namespace
}  // namespace sectionflow
