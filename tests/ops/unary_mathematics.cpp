// Functions of mathematics, and activations with a shape below 0, element by element.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "graph/nodes/unary.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

struct Function {
  const char* name;
  Value (*build)(Value);
  double (*apply)(double);
  double low, high;  ///< where it is differentiated
  Tolerance tolerance;
  double away_from_zero = 0;
};

double softplus_of(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

const Function kFunctions[] = {
    {"expm1", [](Value x) { return expm1(x); }, [](double x) { return std::expm1(x); }, -3, 3, {.relative = 2.5}},
    {"log1p", [](Value x) { return log1p(x); }, [](double x) { return std::log1p(x); }, -0.7, 9, {.relative = 2.5}},
    {"abs", [](Value x) { return abs(x); }, [](double x) { return std::abs(x); }, -3, 3, {}, 1e-3},
    {"sign", [](Value x) { return sign(x); }, [](double x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }, -3, 3, {}, 1e-3},
    {"sin", [](Value x) { return sin(x); }, [](double x) { return std::sin(x); }, -9, 9, {.relative = 1}},
    {"cos", [](Value x) { return cos(x); }, [](double x) { return std::cos(x); }, -9, 9, {.relative = 1}},
    {"erf", [](Value x) { return erf(x); }, [](double x) { return std::erf(x); }, -3, 3, {.relative = 3}},
    {"softplus", [](Value x) { return softplus(x); }, softplus_of, -9, 9, {.relative = 4, .absolute = 1e-30}},
    {"mish",
     [](Value x) { return mish(x); },
     [](double x) { return x * std::tanh(softplus_of(x)); },
     -9,
     9,
     {.relative = 6, .absolute = 1e-30}},
    {"hard_swish",
     [](Value x) { return hard_swish(x); },
     [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; },
     -2.9,
     2.9,
     {.relative = 2, .absolute = 2}},
    {"leaky_relu",
     [](Value x) { return leaky_relu(x); },
     [](double x) { return x > 0 ? x : static_cast<double>(0.01F) * x; },
     -3,
     3,
     {.relative = 1},
     1e-3},
    {"leaky_relu_of_a_slope",
     [](Value x) { return leaky_relu(x, {.negative_slope = 0.25F}); },
     [](double x) { return x > 0 ? x : 0.25 * x; },
     -3,
     3,
     {.relative = 0},
     1e-3},
    {"elu",
     [](Value x) { return elu(x); },
     [](double x) { return x > 0 ? x : std::expm1(x); },
     -3,
     3,
     {.relative = 2.5},
     1e-3},
    {"elu_of_an_alpha",
     [](Value x) { return elu(x, {.alpha = 1.5F}); },
     [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); },
     -3,
     3,
     {.relative = 3},
     1e-3},
};

OpCase function_case(const Function& f, const std::string& name, CaseInput x) {
  if (x.values.empty()) x.away_from_zero = f.away_from_zero;
  const bool has_batch = x.type.shape.rank() > 0;
  return {.name = std::string(f.name) + "_" + name,
          .inputs = {std::move(x)},
          .build = [build = f.build](Graph&, const std::vector<Value>& in) { return std::vector{build(in[0])}; },
          .reference =
              [apply = f.apply](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value = apply(value);
                return std::vector<Doubles>{y};
              },
          .tolerance = f.tolerance,
          .gradient_outputs = std::string(f.name) == "sign" ? std::vector<int>{} : std::vector<int>{0},
          .dynamic_batch = has_batch,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> function_cases() {
  std::vector<OpCase> all;
  for (const Function& f : kFunctions) {
    all.push_back(function_case(f, "scalar", input({}, f.low, f.high)));
    all.push_back(function_case(f, "none", input({0, 4}, f.low, f.high)));
    all.push_back(function_case(f, "odd", input({3, 5, 7}, f.low, f.high)));
    all.push_back(function_case(f, "large", input({151, 333}, f.low, f.high)));
    CaseInput special = input({8});
    special.values = {0, -0.0, NAN, 0x1p-100, -0x1p-100, 1, -1, 100};
    special.differentiable = false;
    all.push_back(function_case(f, "special_numbers", special));
    CaseInput wide = input({9});
    wide.values = {2000, -50, 33, -33, 3e7, 3.5e7, 1e20, 3e38, -3};
    wide.differentiable = false;
    const double finite_below = f.low > -1 ? -0.5 : -static_cast<double>(INFINITY);
    for (double& value : wide.values) value = std::max(value, finite_below);
    // What exceeds f32 is infinite there, and what is below its normal numbers is 0.
    OpCase wide_case = function_case(f, "wide", wide);
    wide_case.reference = [apply = f.apply](const std::vector<Doubles>& in) {
      Doubles y = in[0];
      for (double& value : y) value = static_cast<double>(static_cast<float>(apply(value)));
      return std::vector<Doubles>{y};
    };
    all.push_back(std::move(wide_case));
  }
  return all;
}

class Mathematics : public testing::TestWithParam<OpCase> {};
TEST_P(Mathematics, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Mathematics, testing::ValuesIn(function_cases()), case_name);

std::vector<OpCase> bf16_cases() {
  std::vector<OpCase> all;
  for (const Function& f : kFunctions)
    all.push_back(in_bf16(function_case(f, "odd", input({13, 7}, f.low, f.high)), {}, 3));
  return all;
}
INSTANTIATE_TEST_SUITE_P(Bf16, Mathematics, testing::ValuesIn(bf16_cases()), case_name);

/// Of every function at one number.
float at(Value (*build)(Value), float x) {
  Graph graph;
  return run_kernels({build(constant(graph, x))}, {})[0].item<float>();
}

TEST(MathematicsOps, GoOnToTheirLimits) {
  const float infinity = INFINITY;
  EXPECT_EQ(at([](Value x) { return expm1(x); }, infinity), infinity);
  EXPECT_EQ(at([](Value x) { return expm1(x); }, -infinity), -1);
  EXPECT_EQ(at([](Value x) { return log1p(x); }, infinity), infinity);
  EXPECT_EQ(at([](Value x) { return log1p(x); }, -1), -infinity);
  EXPECT_TRUE(std::isnan(at([](Value x) { return log1p(x); }, -1.5F)));
  EXPECT_EQ(at([](Value x) { return erf(x); }, infinity), 1);
  EXPECT_EQ(at([](Value x) { return erf(x); }, -infinity), -1);
  EXPECT_TRUE(std::isnan(at([](Value x) { return sin(x); }, infinity)));
  EXPECT_TRUE(std::isnan(at([](Value x) { return cos(x); }, -infinity)));
  EXPECT_EQ(at([](Value x) { return softplus(x); }, infinity), infinity);
  EXPECT_EQ(at([](Value x) { return softplus(x); }, -infinity), 0);
  EXPECT_EQ(at([](Value x) { return mish(x); }, infinity), infinity);
  EXPECT_EQ(at([](Value x) { return hard_swish(x); }, infinity), infinity);
  EXPECT_EQ(at([](Value x) { return elu(x, {.alpha = 2}); }, -infinity), -2);
  EXPECT_EQ(at([](Value x) { return abs(x); }, -infinity), infinity);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(at([](Value x) { return sin(x); }, -0.0F)), 0x80000000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(at([](Value x) { return erf(x); }, -0.0F)), 0x80000000U);
}

TEST(MathematicsOps, AreExactBesideNumbersTooSmallToBeNormal) {
  const struct {
    Value (*build)(Value);
    double slope;
  } functions[] = {{[](Value x) { return expm1(x); }, 1}, {[](Value x) { return elu(x); }, 1},
                   {[](Value x) { return log1p(x); }, 1}, {[](Value x) { return sin(x); }, 1},
                   {[](Value x) { return tanh(x); }, 1},  {[](Value x) { return erf(x); }, 1.1283791670955126}};
  for (const auto& [build, slope] : functions) {
    for (const float x : {0x1p-126F, -0x1.8p-126F, 0x1.c5bf5ep-125F, -0x1p-123F, 0x1p-110F, 0x1.8p-26F, -0x1p-21F}) {
      const double y = slope * static_cast<double>(x);
      EXPECT_NEAR(at(build, x), y, std::abs(y) * 3 * 0x1p-23 + std::abs(y * static_cast<double>(x)))
          << slope << " " << x;
    }
  }
}

TEST(SineOps, GiveOneNanWhateverStandsBesideIt) {
  for (const float beside : {0.0F, 1e30F}) {
    Graph graph;
    const Value x = constant(graph, HostTensor::of<float>({3}, {NAN, -NAN, beside}));
    for (const HostTensor& y : run_kernels({sin(x), cos(x)}, {})) {
      for (const int place : {0, 1}) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(y.values<float>()[place]), 0x7FC00000U);
      }
    }
  }
}

/// One large number beside small ones has a stripe computed in another way: the bits of the others stay.
void expect_same_sines(float scale, float first, float second) {
  HostTensor near(Dtype::f32, {5000});
  for (std::int64_t i = 0; i < 5000; ++i) near.values<float>()[i] = static_cast<float>((i - 2500) * i) * scale;
  HostTensor far = near.clone();
  far.values<float>()[3] = first;
  far.values<float>()[4321] = second;
  Graph graph;
  const Value x = constant(graph, near.clone()), z = constant(graph, far.clone());
  const auto results = run_kernels({sin(x), sin(z), cos(x), cos(z)}, {});
  for (int pair = 0; pair < 4; pair += 2) {
    for (std::int64_t i = 0; i < 5000; ++i) {
      if (i == 3 || i == 4321) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(results[pair].values<float>()[i]),
                std::bit_cast<std::uint32_t>(results[pair + 1].values<float>()[i]))
          << i;
    }
  }
  EXPECT_EQ(results[1].values<float>()[3], static_cast<float>(std::sin(static_cast<double>(first))));
  EXPECT_EQ(results[3].values<float>()[4321], static_cast<float>(std::cos(static_cast<double>(second))));
}

TEST(SineOps, GiveTheSameBitsBesideLargeNumbers) {
  expect_same_sines(0.37F, 1e30F, -7e9F);
  expect_same_sines(3e-6F, 1e30F, -1000);
  expect_same_sines(3e-6F, 129, 7e9F);
}

TEST(MathematicsGrad, IsThatOfOneSideAtCorners) {
  Graph graph;
  const Value dy = fill(graph, {4}, 6);
  const Value x = constant(graph, HostTensor::of<float>({4}, {-3, 3, 0, NAN}));
  const auto results = run_kernels({hard_swish_grad(dy, x), leaky_relu_grad(dy, x, {.negative_slope = 0.5F}),
                                    elu_grad(dy, x, {.alpha = 2}), dy * sign(x)},
                                   {});
  const Tolerance exact{.relative = 0, .absolute = 0};
  EXPECT_TRUE(is_near(results[0], Doubles{0, 6, 3, NAN}, exact));
  EXPECT_TRUE(is_near(results[1], Doubles{3, 6, 3, 3}, exact));
  EXPECT_TRUE(is_near(results[2], Doubles{-6, 6, 12, NAN}, exact));
  EXPECT_TRUE(is_near(results[3], Doubles{-6, 6, 0, NAN}, exact));
}

TEST(MathematicsGrad, IsFiniteHoweverLargeXIs) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({6}, {-3e38F, -1e20F, -1e4F, 1e4F, 1e20F, 3e38F}));
  const Value dy = fill(graph, {6}, 1);
  const auto results = run_kernels({mish_grad(dy, x), hard_swish_grad(dy, x), sigmoid(x)}, {});
  for (const HostTensor& dx : results) {
    EXPECT_TRUE(is_near(dx, Doubles{0, 0, 0, 1, 1, 1}, {.relative = 0, .absolute = 1e-20}));
  }
}

TEST(IsFinite, IsFalseOfInfinitiesAndNanAlone) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({6}, {0, INFINITY, -INFINITY, NAN, 3e38F, -1e-45F}));
  const auto wanted = HostTensor::of<bool>({6}, {true, false, false, false, true, true});
  const auto results = run_kernels({is_finite(x), is_finite(cast(x * 0.5F, Dtype::bf16))}, {});
  EXPECT_TRUE(same_bits(results[0], wanted));
  EXPECT_TRUE(same_bits(results[1], wanted));
}

TEST(LogicalNot, TurnsBooleansAndTakesNothingElse) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<bool>({3}, {true, false, true}));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs}) {
    const auto results = run_kernels({logical_not(x)}, {}, {.in_place = in_place});
    EXPECT_TRUE(same_bits(results[0], HostTensor::of<bool>({3}, {false, true, false})));
  }
  EXPECT_THROW(logical_not(placeholder(graph, "x", {2})), ArgumentError);
}

TEST(MathematicsOps, RefuseOtherDtypesAndNumbersOfOptions) {
  Graph graph;
  for (Dtype dtype : {Dtype::f64, Dtype::i32, Dtype::boolean}) {
    const Value x = placeholder(graph, "x", {2}, dtype);
    for (const Function& f : kFunctions) EXPECT_THROW(f.build(x), ArgumentError) << f.name;
    EXPECT_THROW(is_finite(x), ArgumentError);
  }
  const Value x = placeholder(graph, "x", {2});
  const int num_nodes = graph.num_nodes();
  for (float factor : {-0.1F, NAN, INFINITY}) {
    EXPECT_THROW(leaky_relu(x, {.negative_slope = factor}), ArgumentError) << factor;
    EXPECT_THROW(elu(x, {.alpha = factor}), ArgumentError) << factor;
  }
  EXPECT_EQ(graph.num_nodes(), num_nodes);
}

}  // namespace
}  // namespace sectionflow
