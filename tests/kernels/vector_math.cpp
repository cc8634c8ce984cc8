#include "kernels/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace sectionflow {
namespace {

/// One function beside what it promises.
struct Function {
  const char* name;
  float (*one)(float);
  void (*many)(const float* x, float* y, std::int64_t count);  ///< the same in a vector loop
  double (*exact)(double);
  double (*ulp)(double x);  ///< the largest error
  double flush = 0;         ///< exact results below may be 0
};
std::ostream& operator<<(std::ostream& stream, const Function& function) {
  return stream << function.name;
}

template <float (*kFunction)(float)>
void loop(const float* x, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = kFunction(x[i]);
}

/// The distance in units of the last place of the exact result, which the range of f32 bounds from below.
double ulps(float got, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 23);
}

bool is_right(const Function& f, float x, float got) {
  const double exact = f.exact(x);
  if (std::isnan(exact)) return std::isnan(got);
  if (std::isinf(static_cast<float>(exact)) || exact == 0) return got == static_cast<float>(exact);
  if (std::abs(exact) < f.flush && got == 0) return true;
  return ulps(got, exact) <= f.ulp(x);
}

/// Every `step`-th float, whatever its bits mean, in pieces.
template <class Visit>
void for_each_float(std::uint64_t step, const Visit& visit) {
  std::vector<float> piece;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += step) {
    piece.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (piece.size() < 4099) continue;
    visit(piece);
    piece.clear();
  }
  visit(piece);
}

class VectorMath : public testing::TestWithParam<Function> {};

// A prime step meets all exponents, signs and kinds of last bits: four million floats.
constexpr std::uint64_t kStep = 1009;

TEST_P(VectorMath, KeepsItsBoundOverAllFloats) {
  const Function& f = GetParam();
  int num_wrong = 0;
  for_each_float(kStep, [&](std::span<const float> piece) {
    for (float x : piece) {
      if (is_right(f, x, f.one(x))) continue;
      if (++num_wrong <= 5) ADD_FAILURE() << f.name << "(" << x << ") = " << f.one(x) << ", wanted " << f.exact(x);
    }
  });
  EXPECT_EQ(num_wrong, 0);
}

TEST_P(VectorMath, GivesTheBitsOfOneInAVector) {
  const Function& f = GetParam();
  std::vector<float> many;
  int num_different = 0;
  for_each_float(kStep, [&](std::span<const float> piece) {
    many.resize(piece.size());
    f.many(piece.data(), many.data(), static_cast<std::int64_t>(piece.size()));
    for (std::size_t i = 0; i < piece.size(); ++i) {
      num_different += std::bit_cast<std::uint32_t>(many[i]) != std::bit_cast<std::uint32_t>(f.one(piece[i]));
    }
  });
  EXPECT_EQ(num_different, 0);
}

TEST_P(VectorMath, TakesSpecialNumbers) {
  const Function& f = GetParam();
  for (float x : {0.0F, -0.0F, INFINITY, -INFINITY, NAN, -NAN, 1.0F, -1.0F}) {
    EXPECT_TRUE(is_right(f, x, f.one(x))) << f.name << "(" << x << ") = " << f.one(x);
  }
}

float density(float x) {
  return vector_math::normal(x).density;
}
float probability(float x) {
  return vector_math::normal(x).probability;
}
double exact_density(double x) {
  return std::exp(-x * x / 2) / std::sqrt(8 * std::atan(1.0));
}
double exact_probability(double x) {
  return std::erfc(-x / std::sqrt(2.0)) / 2;
}

double ulps_of_normal(double x) {
  return 7 + x * x;
}

const Function kFunctions[] = {
    {.name = "exp",
     .one = vector_math::exp,
     .many = loop<vector_math::exp>,
     .exact = [](double x) { return std::exp(x); },
     .ulp = [](double) { return 1.0; },
     .flush = 0x1p-126},
    {.name = "log",
     .one = vector_math::log,
     .many = loop<vector_math::log>,
     .exact = [](double x) { return std::log(x); },
     .ulp = [](double) { return 1.0; }},
    {.name = "sigmoid",
     .one = vector_math::sigmoid,
     .many = loop<vector_math::sigmoid>,
     .exact = [](double x) { return 1 / (1 + std::exp(-x)); },
     .ulp = [](double) { return 3.0; },
     .flush = 0x1p-126},
    {.name = "tanh",
     .one = vector_math::tanh,
     .many = loop<vector_math::tanh>,
     .exact = [](double x) { return std::tanh(x); },
     .ulp = [](double) { return 2.0; }},
    {.name = "density",
     .one = density,
     .many = loop<density>,
     .exact = exact_density,
     .ulp = ulps_of_normal,
     .flush = 0x1p-126},
    {.name = "probability",
     .one = probability,
     .many = loop<probability>,
     .exact = exact_probability,
     .ulp = ulps_of_normal,
     .flush = 0x1p-126},
    {.name = "expm1",
     .one = vector_math::expm1,
     .many = loop<vector_math::expm1>,
     .exact = [](double x) { return std::expm1(x); },
     .ulp = [](double) { return 3.0; }},
    {.name = "softplus",
     .one = vector_math::softplus,
     .many = loop<vector_math::softplus>,
     .exact = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
     .ulp = [](double) { return 3.0; },
     .flush = 0x1p-126},
    {.name = "log1p",
     .one = vector_math::log1p,
     .many = loop<vector_math::log1p>,
     .exact = [](double x) { return std::log1p(x); },
     .ulp = [](double) { return 4.0; }},
    {.name = "erf",
     .one = vector_math::erf,
     .many = loop<vector_math::erf>,
     .exact = [](double x) { return std::erf(x); },
     .ulp = [](double) { return 3.0; },
     .flush = 0x1p-126},
    {.name = "sin",
     .one = vector_math::sin,
     .many = loop<vector_math::sin>,
     .exact = [](double x) { return std::sin(x); },
     .ulp = [](double) { return 1.0; }},
    {.name = "cos",
     .one = vector_math::cos,
     .many = loop<vector_math::cos>,
     .exact = [](double x) { return std::cos(x); },
     .ulp = [](double) { return 1.0; }},
};
INSTANTIATE_TEST_SUITE_P(Functions, VectorMath, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VectorMathExp, IsNormalDownToItsLeastArgumentAndZeroBelow) {
  EXPECT_GE(vector_math::exp(vector_math::kLeastExp), 0x1p-126F);
  EXPECT_EQ(vector_math::exp(std::nextafter(vector_math::kLeastExp, -INFINITY)), 0.0F);
  EXPECT_LT(std::exp(static_cast<double>(std::nextafter(vector_math::kLeastExp, -INFINITY))), 0x1p-126);
  EXPECT_EQ(vector_math::exp(0.0F), 1.0F);
}

TEST(VectorMathNormal, ErrsByTwoEpsilonsAtMost) {
  for (float x = -15; x < 15; x += 0x1p-12F) {
    ASSERT_NEAR(density(x), exact_density(x), 0x1p-22);
    ASSERT_NEAR(probability(x), exact_probability(x), 0x1p-22);
  }
}

}  // namespace
}  // namespace sectionflow
