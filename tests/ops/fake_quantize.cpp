#include "graph/ops/fake_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/nodes/fake_quantize.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reduce.h"
#include "tests/support/contains.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

/// An element beside its range, in double but for the two divisions, whose rounding decides what is nearest.
struct Rounded {
  Rounded(double x, double minimum, double maximum) {
    const bool is_unsigned = minimum >= 0;
    lowest = is_unsigned ? 0 : -128;
    highest = is_unsigned ? 255 : 127;
    const auto most = static_cast<float>(std::max(std::abs(minimum), std::abs(maximum)));
    scale = most > 0 ? static_cast<double>(most / static_cast<float>(highest)) : 1.0;
    ratio = static_cast<double>(static_cast<float>(x) / static_cast<float>(scale));
    integer = std::clamp(std::nearbyint(ratio), lowest, highest);
    is_within = ratio >= lowest - 0.5 && ratio <= highest + 0.5;
  }
  double range_gradient() const { return (integer - (is_within ? ratio : 0)) / highest; }
  double lowest, highest, scale, ratio, integer;
  bool is_within;
};

/// Inputs x, minimum, maximum and dy; the results y, dx, and the terms of the range's gradient.
OpCase fake_quantize_case(const std::string& name, const Shape& x, const Shape& range, double least, double low,
                          double high) {
  return {.name = name,
          .inputs = {input(x, -3, 3), parameter(range, least, low), parameter(range, low, high), input(x)},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                return std::vector{fake_quantize(in[0], in[1], in[2]), fake_quantize_grad(in[3], in[0], in[1], in[2]),
                                   fake_quantize_range_grad(in[3], in[0], in[1], in[2])};
              },
          .reference =
              [](const std::vector<Doubles>& in) {
                Doubles y = in[0], dx = in[3], terms = in[3];
                for (std::size_t i = 0; i < y.size(); ++i) {
                  const std::size_t channel = i % std::max<std::size_t>(1, in[1].size());
                  const Rounded of(in[0][i], in[1][channel], in[2][channel]);
                  y[i] = of.integer * of.scale;
                  dx[i] = of.is_within ? in[3][i] : 0;
                  terms[i] = in[3][i] * of.range_gradient();
                }
                return std::vector<Doubles>{y, dx, terms};
              },
          .gradient_outputs = {},
          .dynamic_batch = x.rank() > 1,
          .same_bits_for_any_threads = true};
}

class FakeQuantizeCases : public testing::TestWithParam<OpCase> {};
TEST_P(FakeQuantizeCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, FakeQuantizeCases,
                         testing::Values(fake_quantize_case("signed", {77, 33}, {}, -2, -1, 2),
                                         fake_quantize_case("unsigned", {77, 33}, {}, 0, 1, 2),
                                         fake_quantize_case("channels", {7, 9, 8, 24}, {24}, -2, -0.5, 2.5),
                                         fake_quantize_case("below_zero", {9, 17}, {17}, -4, -1, -0.5),
                                         fake_quantize_case("large", {3, 151, 333}, {}, -1, -0.5, 3),
                                         fake_quantize_case("one_channel", {13, 1}, {1}, -2, -1, 2),
                                         fake_quantize_case("scalar", {}, {}, -2, -1, 2),
                                         fake_quantize_case("no_rows", {0, 4}, {4}, -2, -1, 2)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, FakeQuantizeCases,
                         testing::Values(in_bf16(fake_quantize_case("tensor", {77, 33}, {}, -2, -1, 2), {0, 3}),
                                         in_bf16(fake_quantize_case("channels", {9, 17}, {17}, 0, 1, 2), {0, 3})),
                         case_name);

std::vector<HostTensor> computed(const std::vector<Value>& values, Value x, const std::vector<float>& content) {
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>(x.shape(), content));
  return run_kernels(values, feeds);
}

TEST(FakeQuantize, HasTheBitsOfIntegers) {
  Graph graph;
  constexpr std::int64_t kCount = 1001;
  const Value x = placeholder(graph, "x", {kCount});
  std::vector<float> content;
  for (int i = 0; i < kCount; ++i) content.push_back(0.0137F * static_cast<float>(i - 500));
  const auto number = [&](float value) { return constant(graph, value); };
  const Value scale = number(3.7F / 127.0F), positive = number(3.7F / 255.0F);
  const auto found = computed(
      {fake_quantize(x, number(-3.7F), number(1.0F)), dequantize(quantize(x, scale), scale),
       fake_quantize(x, number(0.0F), number(3.7F)), dequantize(quantize(x, positive, {.dtype = Dtype::u8}), positive)},
      x, content);
  EXPECT_EQ(first_difference(found[0], found[1]), "");
  EXPECT_EQ(first_difference(found[2], found[3]), "");
}

TEST(FakeQuantize, KeepsNaNAndTakesEveryRange) {
  Graph graph;
  const float infinity = std::numeric_limits<float>::infinity();
  const Value x = placeholder(graph, "x", {4});
  const auto number = [&](float value) { return constant(graph, value); };
  const auto found =
      computed({fake_quantize(x, number(-1.0F), number(1.0F)), fake_quantize(x, number(0.0F), number(0.0F))}, x,
               {std::nanf(""), infinity, -infinity, 0.2F});
  const auto y = found[0].values<float>();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 1.0F);
  EXPECT_NEAR(static_cast<double>(y[2]), -128.0 / 127, 1e-6);
  EXPECT_EQ(found[1].values<float>()[3], 0.0F);
}

TEST(FakeQuantize, GivesTheLargerEndTheGradientOfItsRange) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3});
  const auto gradients_of_ends = [&](float low, float high) {
    const Value minimum = variable("low", fill(graph, {}, static_cast<double>(low))),
                maximum = variable("high", fill(graph, {}, static_cast<double>(high)));
    const Value y = reduce_sum(fake_quantize(x, minimum, maximum));
    const std::vector<Value> found = gradients(y, {x, minimum, maximum});
    Feeds feeds;
    feeds.emplace(x, HostTensor::of<float>({3}, {-9, 0.1F, 9}));
    feeds.emplace(minimum, HostTensor::scalar(low));
    feeds.emplace(maximum, HostTensor::scalar(high));
    std::vector<double> ends;
    for (const HostTensor& each : run_kernels(found, feeds)) {
      for (const double element : doubles_of(each)) ends.push_back(element);
    }
    return ends;
  };
  // Cut off on both sides: -128 / 127 and 1 cancel nearly; what is within adds how far it was moved.
  const double inside = Rounded(0.1, -1, 2).range_gradient();
  const auto larger_maximum = gradients_of_ends(-1, 2);
  EXPECT_EQ(std::vector(larger_maximum.begin(), larger_maximum.begin() + 3), (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(larger_maximum[3], 0);
  EXPECT_NEAR(larger_maximum[4], 1 - 128.0 / 127 + inside, 1e-6);
  const auto larger_minimum = gradients_of_ends(-2, 1);
  EXPECT_NEAR(larger_minimum[3], -(1 - 128.0 / 127 + inside), 1e-6);
  EXPECT_EQ(larger_minimum[4], 0);
}

TEST(FakeQuantize, RefusesOtherRangesAndSecondDerivatives) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), row = placeholder(graph, "row", {3});
  EXPECT_THROW(fake_quantize(x, row, placeholder(graph, "one", {})), ShapeError);
  EXPECT_THROW(fake_quantize(x, placeholder(graph, "two", {2}), placeholder(graph, "also", {2})), ShapeError);
  EXPECT_THROW(fake_quantize(placeholder(graph, "i", {3}, Dtype::i32), row, row), ArgumentError);
  EXPECT_THROW(fake_quantize(x, placeholder(graph, "b", {3}, Dtype::bf16), placeholder(graph, "c", {3}, Dtype::bf16)),
               ArgumentError);
  const Value dx = gradients(reduce_sum(fake_quantize(x, neg(row), row) * x), {x})[0];
  const std::string text = whole_error_text<ArgumentError>([&] { (void)gradients(reduce_sum(dx * x), {x}); });
  EXPECT_TRUE(contains(text, "straight through a step")) << text;
}

}  // namespace
}  // namespace sectionflow::testing_support
