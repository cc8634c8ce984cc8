#include <cmath>
#include <limits>

#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

template <class From, class To>
void expect_cast(const std::vector<From>& from, const std::vector<To>& wanted) {
  // Repeated, so that vector body and scalar tail both see each value.
  constexpr int kTimes = 37;
  std::vector<From> all_from;
  std::vector<To> all_wanted;
  for (int i = 0; i < kTimes; ++i) {
    all_from.insert(all_from.end(), from.begin(), from.end());
    all_wanted.insert(all_wanted.end(), wanted.begin(), wanted.end());
  }
  const Shape shape{static_cast<std::int64_t>(all_from.size())};
  Graph graph;
  const Value y = cast(constant(graph, HostTensor::of<From>(shape, all_from)), dtype_of<To>);
  const auto results = run_kernels({y}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<To>(shape, all_wanted)))
      << dtype_name(dtype_of<From>) << " to " << dtype_name(dtype_of<To>);
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kMin32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();

TEST(Cast, FloatsGoToIntegersTowardsZero) {
  expect_cast<float, std::int32_t>({1.9F, -1.9F, 0.5F, -0.5F, -0.0F}, {1, -1, 0, 0, 0});
  expect_cast<float, std::int64_t>({1.9F, -1.9F, 0x1p40F, -0x1p40F},
                                   {1, -1, std::int64_t{1} << 40, -(std::int64_t{1} << 40)});
  expect_cast<float, std::uint8_t>({1.9F, 255.9F, -0.9F, 128}, {1, 255, 0, 128});
  expect_cast<float, std::int8_t>({1.9F, 127.9F, -128.9F, 128, -129}, {1, 127, -128, 0, 0});
  expect_cast<std::int8_t, float>({-128, -1, 127}, {-128, -1, 127});
  expect_cast<double, std::int32_t>({2147483647.9, -2147483648.9, 1e-300}, {kMax32, kMin32, 0});
  expect_cast<double, std::int64_t>({2251799813685249.5, -2.5}, {2251799813685249, -2});
  expect_cast<double, std::uint8_t>({254.99, 3}, {254, 3});
}

TEST(Cast, NaNAndValuesOutOfRangeGoToZero) {
  expect_cast<float, std::int32_t>({kNaN, kInf, -kInf, 0x1p31F, -0x1p31F, 0x1.FFFFFEp30F},
                                   {0, 0, 0, 0, kMin32, 2147483520});
  expect_cast<float, std::int64_t>({kNaN, kInf, -kInf, 0x1p63F, -0x1p63F, -0x1.2p63F}, {0, 0, 0, 0, kMin64, 0});
  expect_cast<float, std::uint8_t>({kNaN, kInf, -kInf, 256, -1}, {0, 0, 0, 0, 0});
  expect_cast<double, std::int32_t>({NAN, INFINITY, 2147483648.0, -2147483649.0}, {0, 0, 0, 0});
  expect_cast<double, std::int64_t>({NAN, -INFINITY, 0x1p63, -0x1p63}, {0, 0, 0, kMin64});
  expect_cast<double, std::uint8_t>({NAN, 1e300, 256, -1}, {0, 0, 0, 0});
}

TEST(Cast, BooleanIsWhatDiffersFromZero) {
  expect_cast<float, bool>({0, -0.0F, 0.5F, kNaN, -kInf}, {false, false, true, true, true});
  expect_cast<double, bool>({0, 1e-300, NAN}, {false, true, true});
  expect_cast<std::int32_t, bool>({0, 1, -1, kMin32}, {false, true, true, true});
  expect_cast<std::int64_t, bool>({0, std::int64_t{1} << 32}, {false, true});
  expect_cast<std::uint8_t, bool>({0, 1, 128}, {false, true, true});
  expect_cast<bool, float>({true, false}, {1, 0});
  expect_cast<bool, double>({true, false}, {1, 0});
  expect_cast<bool, std::int32_t>({true, false}, {1, 0});
  expect_cast<bool, std::int64_t>({true, false}, {1, 0});
  expect_cast<bool, std::uint8_t>({true, false}, {1, 0});
}

TEST(Cast, IntegersWrapAround) {
  expect_cast<std::int64_t, std::int32_t>({std::int64_t{1} << 32, kMax64, -1}, {0, -1, -1});
  expect_cast<std::int64_t, std::uint8_t>({256, 257, -1}, {0, 1, 255});
  expect_cast<std::int32_t, std::uint8_t>({-2, 511}, {254, 255});
  expect_cast<std::int32_t, std::int64_t>({kMin32, kMax32}, {kMin32, kMax32});
  expect_cast<std::uint8_t, std::int32_t>({255, 0}, {255, 0});
  expect_cast<std::uint8_t, std::int64_t>({255, 0}, {255, 0});
}

TEST(Cast, IntegersGoToTheNearestFloat) {
  expect_cast<std::int32_t, float>({16777217, -3}, {16777216, -3});
  expect_cast<std::int64_t, float>({kMax64, kMin64}, {0x1p63F, -0x1p63F});
  expect_cast<std::int64_t, double>({9007199254740993, -1}, {9007199254740992, -1});
  expect_cast<std::int32_t, double>({kMax32}, {2147483647.0});
  expect_cast<std::uint8_t, float>({200}, {200});
  expect_cast<std::uint8_t, double>({200}, {200});
}

TEST(Cast, DoublesGoToTheNearestFloatAndBeyondItsRangeToInfinity) {
  expect_cast<double, float>({0.1, 1e39, -1e39, NAN}, {0.1F, kInf, -kInf, kNaN});
  expect_cast<float, double>({0.1F, -kInf}, {static_cast<double>(0.1F), -INFINITY});
}

/// The nearest of bf16.
BFloat16 nearest_bf16(float x) {
  return BFloat16(x);
}

TEST(Cast, FloatsGoToTheNearestBFloat16) {
  expect_cast<float, BFloat16>(
      {1, 0x1.01p0F, 0x1.03p0F, -0x1.010002p0F, 0x1.FFp127F, -kInf, kNaN, -0.0F, 0x1p-133F},
      {nearest_bf16(1), nearest_bf16(1), nearest_bf16(0x1.04p0F), nearest_bf16(-0x1.02p0F), nearest_bf16(kInf),
       nearest_bf16(-kInf), nearest_bf16(kNaN), nearest_bf16(-0.0F), nearest_bf16(0x1p-133F)});
  expect_cast<double, BFloat16>({0.1, 1e39, NAN}, {nearest_bf16(0.1F), nearest_bf16(kInf), nearest_bf16(kNaN)});
  expect_cast<std::int32_t, BFloat16>({257, -3, 259}, {nearest_bf16(256), nearest_bf16(-3), nearest_bf16(260)});
  expect_cast<bool, BFloat16>({true, false}, {nearest_bf16(1), nearest_bf16(0)});
}

TEST(Cast, BFloat16GoesWhereItsFloatGoes) {
  const std::vector<BFloat16> x = {nearest_bf16(1.9F), nearest_bf16(-2.5F), nearest_bf16(0x1p31F), nearest_bf16(kNaN),
                                   nearest_bf16(-kInf)};
  expect_cast<BFloat16, float>(x, {0x1.E6p0F, -2.5F, 0x1p31F, kNaN, -kInf});
  expect_cast<BFloat16, double>(x, {0x1.E6p0, -2.5, 0x1p31, NAN, -INFINITY});
  expect_cast<BFloat16, std::int32_t>(x, {1, -2, 0, 0, 0});
  expect_cast<BFloat16, std::uint8_t>(x, {1, 0, 0, 0, 0});
  expect_cast<BFloat16, bool>({nearest_bf16(0), nearest_bf16(-0.0F), nearest_bf16(0.5F), nearest_bf16(kNaN)},
                              {false, false, true, true});
  expect_cast<BFloat16, BFloat16>(x, x);
}

TEST(Cast, ToItsOwnDtypeCopies) {
  expect_cast<float, float>({1, kNaN}, {1, kNaN});
  expect_cast<std::int64_t, std::int64_t>({kMin64}, {kMin64});
}

TEST(Cast, TakesEmptyTensors) {
  Graph graph;
  const auto results = run_kernels({cast(fill(graph, {0, 2}, 1), Dtype::i64)}, {});
  EXPECT_EQ(results[0].type(), (TensorType{Dtype::i64, {0, 2}}));
}

TEST(Cast, PassesTheGradientThroughBFloat16) {
  check({.name = "through_bf16",
         .inputs = {input({40, 13})},
         .build = [](Graph&,
                     const std::vector<Value>& in) { return std::vector{cast(cast(in[0], Dtype::bf16), Dtype::f32)}; },
         .reference = [](const std::vector<Doubles>& in) { return in; },
         .tolerance = {.relative = 0x1p-8 / kF32Epsilon, .absolute = 0},
         .gradient_tolerance = {.relative = 0x1p-8 / kF32Epsilon, .absolute = 0},
         .dynamic_batch = true,
         .same_bits_for_any_threads = true});
}

OpCase cast_case(std::string name, Shape shape, Dtype between) {
  return {
      .name = std::move(name),
      .inputs = {input(std::move(shape))},
      .build = [between](Graph&,
                         const std::vector<Value>& in) { return std::vector{cast(cast(in[0], between), Dtype::f32)}; },
      .reference = [](const std::vector<Doubles>& in) { return in; },
      .tolerance = {.relative = 0, .absolute = 0},
      .dynamic_batch = true,
      .same_bits_for_any_threads = true};
}

class CastBetweenFloats : public testing::TestWithParam<OpCase> {};
TEST_P(CastBetweenFloats, PassesValueAndGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CastBetweenFloats,
                         testing::Values(cast_case("small", {5, 3}, Dtype::f64), cast_case("none", {0, 3}, Dtype::f64),
                                         cast_case("large", {40003}, Dtype::f64), cast_case("same", {7}, Dtype::f32)),
                         case_name);

}  // namespace
}  // namespace sectionflow
