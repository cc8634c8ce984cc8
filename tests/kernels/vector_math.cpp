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

#include "kernels/cpu/wide_vectors.h"

namespace sectionflow {
namespace {

/// A function of many floats, as compiled for SECTIONFLOW_MARCH, and where the machine has AVX-512 for that.
struct Loops {
  void (*narrow)(const float* x, float* y, std::int64_t count);
  void (*wide)(const float* x, float* y, std::int64_t count);
};

/// One function beside what it promises.
struct Function {
  const char* name;
  float (*one)(float);
  Loops many;  ///< the same in vector loops
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
template <float (*kFunction)(float)>
void wide_loop(const float* x, float* y, std::int64_t count) {
  in_wide_vectors([=] { loop<kFunction>(x, y, count); });
}
template <float (*kFunction)(float)>
constexpr Loops loops = {loop<kFunction>, wide_loop<kFunction>};

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
    for (const auto vector_loop : {f.many.narrow, f.many.wide}) {
      vector_loop(piece.data(), many.data(), static_cast<std::int64_t>(piece.size()));
      for (std::size_t i = 0; i < piece.size(); ++i) {
        num_different += std::bit_cast<std::uint32_t>(many[i]) != std::bit_cast<std::uint32_t>(f.one(piece[i]));
      }
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
     .many = loops<vector_math::exp>,
     .exact = [](double x) { return std::exp(x); },
     .ulp = [](double) { return 1.0; },
     .flush = 0x1p-126},
    {.name = "log",
     .one = vector_math::log,
     .many = loops<vector_math::log>,
     .exact = [](double x) { return std::log(x); },
     .ulp = [](double) { return 1.0; }},
    {.name = "sigmoid",
     .one = vector_math::sigmoid,
     .many = loops<vector_math::sigmoid>,
     .exact = [](double x) { return 1 / (1 + std::exp(-x)); },
     .ulp = [](double) { return 3.0; },
     .flush = 0x1p-126},
    {.name = "tanh",
     .one = vector_math::tanh,
     .many = loops<vector_math::tanh>,
     .exact = [](double x) { return std::tanh(x); },
     .ulp = [](double) { return 2.0; }},
    {.name = "density",
     .one = density,
     .many = loops<density>,
     .exact = exact_density,
     .ulp = ulps_of_normal,
     .flush = 0x1p-126},
    {.name = "probability",
     .one = probability,
     .many = loops<probability>,
     .exact = exact_probability,
     .ulp = ulps_of_normal,
     .flush = 0x1p-126},
    {.name = "expm1",
     .one = vector_math::expm1,
     .many = loops<vector_math::expm1>,
     .exact = [](double x) { return std::expm1(x); },
     .ulp = [](double) { return 3.0; }},
    {.name = "softplus",
     .one = vector_math::softplus,
     .many = loops<vector_math::softplus>,
     .exact = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
     .ulp = [](double) { return 3.0; },
     .flush = 0x1p-126},
    {.name = "log1p",
     .one = vector_math::log1p,
     .many = loops<vector_math::log1p>,
     .exact = [](double x) { return std::log1p(x); },
     .ulp = [](double) { return 4.0; }},
    {.name = "erf",
     .one = vector_math::erf,
     .many = loops<vector_math::erf>,
     .exact = [](double x) { return std::erf(x); },
     .ulp = [](double) { return 3.0; },
     .flush = 0x1p-126},
    {.name = "sin",
     .one = vector_math::sin,
     .many = loops<vector_math::sin>,
     .exact = [](double x) { return std::sin(x); },
     .ulp = [](double) { return 1.0; }},
    {.name = "cos",
     .one = vector_math::cos,
     .many = loops<vector_math::cos>,
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

TEST(VectorMathSigns, AreThoseOfZeros) {
  for (const auto function :
       {vector_math::sin, vector_math::tanh, vector_math::erf, vector_math::expm1, vector_math::log1p}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(function(0.0F)), 0U);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(function(-0.0F)), 0x80000000U);
  }
}

TEST(VectorMathSines, AreWithinAnUlpWhereOneWayEndsAndTheNextBegins) {
  for (float x = 0; x < 2 * vector_math::kNear; x += 0x1.8p-13F) {
    ASSERT_LE(ulps(vector_math::sin(x), std::sin(static_cast<double>(x))), 1) << x;
    ASSERT_LE(ulps(vector_math::cos(-x), std::cos(static_cast<double>(x))), 1) << x;
  }
}

TEST(VectorMathBounds, HoldWhereTheFunctionsComeToThem) {
  for (float x = 3; x < 12; x += 0x1p-16F) {
    ASSERT_LE(vector_math::erf(x), 1.0F) << x;
    ASSERT_LE(vector_math::tanh(x), 1.0F) << x;
  }
}

TEST(VectorMathNormal, ErrsByTwoEpsilonsAtMost) {
  for (float x = -15; x < 15; x += 0x1p-12F) {
    ASSERT_NEAR(density(x), exact_density(x), 0x1p-22);
    ASSERT_NEAR(probability(x), exact_probability(x), 0x1p-22);
  }
}

}  // namespace
}  // namespace sectionflow
