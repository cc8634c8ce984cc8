#include "tests/support/tolerance.h"

#include <gtest/gtest.h>

#include <limits>

namespace sectionflow::testing_support {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool near(float got, double wanted, Tolerance tolerance = {.relative = 4, .absolute = 4}) {
  const std::vector<double> all{wanted};
  return static_cast<bool>(is_near(HostTensor::scalar(got), all, tolerance));
}

TEST(Tolerance, CountsInEpsilons) {
  EXPECT_TRUE(near(1.0F + 0x1p-23F, 1.0, {.relative = 1, .absolute = 0}));
  EXPECT_FALSE(near(1.0F + 0x1p-22F, 1.0, {.relative = 1, .absolute = 0}));
  EXPECT_TRUE(near(0x1p-23F, 0.0, {.relative = 0, .absolute = 1}));
  EXPECT_FALSE(near(0x1p-22F, 0.0, {.relative = 1e9, .absolute = 1}));
}

TEST(Tolerance, NanAndInfinityAreNearThemselvesOnly) {
  EXPECT_TRUE(near(kNan, kNan));
  EXPECT_FALSE(near(kNan, 1.0));
  EXPECT_FALSE(near(1.0F, kNan));
  EXPECT_TRUE(near(-kInfinity, -kInfinity));
  EXPECT_FALSE(near(kInfinity, -kInfinity));
  EXPECT_FALSE(near(kInfinity, 1e30));
  EXPECT_TRUE(near(kInfinity, 1e39)) << "beyond the largest f32";
}

TEST(Tolerance, OneBadElementAmongManyIsSeen) {
  HostTensor got(Dtype::f32, {1000});
  std::vector<double> wanted(1000, 0.0);
  EXPECT_TRUE(is_near(got, wanted, {}));
  got.values<float>()[777] = kNan;
  const auto result = is_near(got, wanted, {});
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("element 777"), std::string::npos) << result.message();
  wanted.pop_back();
  EXPECT_FALSE(is_near(HostTensor(Dtype::f32, {1000}), wanted, {}));
}

TEST(Tolerance, IntegersMustBeExact) {
  const std::vector<double> wanted{16777217.0};
  EXPECT_TRUE(is_near(HostTensor::scalar<std::int32_t>(16777217), wanted, {.relative = 1e9, .absolute = 1e9}));
  EXPECT_FALSE(is_near(HostTensor::scalar<std::int32_t>(16777216), wanted, {.relative = 1e9, .absolute = 1e9}));
}

TEST(SameBits, TellZerosApartAndNameTheElement) {
  const auto result = same_bits(HostTensor::of<float>({2}, {1, 0.0F}), HostTensor::of<float>({2}, {1, -0.0F}));
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("element 1"), std::string::npos) << result.message();
  EXPECT_TRUE(same_bits(HostTensor::scalar(kNan), HostTensor::scalar(kNan)));
  EXPECT_FALSE(same_bits(HostTensor::scalar(1.0F), HostTensor::of<float>({1}, {1.0F})));
}

}  // namespace
}  // namespace sectionflow::testing_support
