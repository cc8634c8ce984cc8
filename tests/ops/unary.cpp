#include "graph/ops/unary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "graph/nodes/unary.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

struct UnaryOp {
  const char* name;
  Value (*build)(Value, Where);
  double (*apply)(double);
  double low, high;  ///< where it has a gradient
  Tolerance tolerance;
};
const UnaryOp kUnaryOps[] = {
    {"neg", neg, [](double x) { return -x; }, -3, 3, {.relative = 0, .absolute = 0}},
    {"square", square, [](double x) { return x * x; }, -3, 3, {.relative = 0.51, .absolute = 1e-30}},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.1, 9, {.relative = 0.51, .absolute = 0}},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.1, 9, {.relative = 1.1, .absolute = 0}},
    {"exp", exp, [](double x) { return std::exp(x); }, -4, 4, {.relative = 1.1, .absolute = 0}},
    {"log", log, [](double x) { return std::log(x); }, 0.1, 9, {.relative = 1.1, .absolute = 0}},
};

OpCase unary_case(const UnaryOp& op, const std::string& name, CaseInput x) {
  const bool has_batch = x.type.shape.rank() > 0;
  return {.name = std::string(op.name) + "_" + name,
          .inputs = {std::move(x)},
          .build = [build = op.build](
                       Graph&, const std::vector<Value>& in) { return std::vector{build(in[0], Where::here())}; },
          .reference =
              [apply = op.apply](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value = apply(value);
                return std::vector<Doubles>{y};
              },
          .tolerance = op.tolerance,
          .dynamic_batch = has_batch,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> unary_cases() {
  std::vector<OpCase> all;
  for (const UnaryOp& op : kUnaryOps) {
    all.push_back(unary_case(op, "scalar", input({}, op.low, op.high)));
    all.push_back(unary_case(op, "none", input({0, 4}, op.low, op.high)));
    all.push_back(unary_case(op, "odd", input({3, 5, 7}, op.low, op.high)));
    all.push_back(unary_case(op, "large", input({151, 333}, op.low, op.high)));
    CaseInput special = input({9});
    special.values = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-100, 100};
    special.differentiable = false;
    all.push_back(unary_case(op, "special_numbers", special));
  }
  return all;
}

class Unary : public testing::TestWithParam<OpCase> {};
TEST_P(Unary, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Unary, testing::ValuesIn(unary_cases()), case_name);

TEST(UnaryOps, NegTakesI64AndWrapsAround) {
  Graph graph;
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const Value x = constant(graph, HostTensor::of<std::int64_t>({3}, {5, kMin, -7}));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs}) {
    const auto results = run_kernels({-x}, {}, {.in_place = in_place});
    EXPECT_TRUE(same_bits(results[0], HostTensor::of<std::int64_t>({3}, {-5, kMin, 7})));
  }
}

TEST(UnaryOps, RefuseOtherDtypesAndSayWhatToTry) {
  Graph graph;
  const auto refusal = [&](const UnaryOp& op, Dtype dtype) -> std::string {
    try {
      op.build(placeholder(graph, "x", {2}, dtype), Where::here());
    } catch (const ArgumentError& error) {
      return error.message();
    }
    return "";
  };
  const int num_nodes = graph.num_nodes();
  for (const UnaryOp& op : kUnaryOps) {
    for (Dtype dtype : {Dtype::f64, Dtype::i32, Dtype::boolean}) {
      const std::string text = refusal(op, dtype);
      EXPECT_EQ(text.find(text_of(op.name, " '", op.name)), 0U) << text;
      EXPECT_NE(text.find(text_of(" got ", dtype_name(dtype), "[2]")), std::string::npos) << text;
      EXPECT_NE(text.find("try cast"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(graph.num_nodes(), num_nodes + 3 * static_cast<int>(std::size(kUnaryOps))) << "placeholders alone";
}

OpCase clip_case(std::string name, const Shape& shape, float low, float high) {
  CaseInput x = input(shape, -2, 2);
  // Values that cannot come near a bound, which lie between multiples of 1/8.
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    x.values.push_back(static_cast<double>(i * 37 % 32) / 8 - 2);
  }
  return {.name = std::move(name),
          .inputs = {std::move(x)},
          .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{clip(in[0], low, high)}; },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value = std::min<double>(std::max<double>(value, low), high);
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 0, .absolute = 0},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Clip : public testing::TestWithParam<OpCase> {};
TEST_P(Clip, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Clip,
                         testing::Values(clip_case("both", {7, 5}, -0.7F, 0.95F),
                                         clip_case("from_below", {33}, 0.1F, kInfinity),
                                         clip_case("from_above", {33}, -kInfinity, 0.1F),
                                         clip_case("none", {0, 3}, -1, 1), clip_case("large", {50021}, -0.7F, 0.3F)),
                         case_name);

TEST(ClipOp, PassesTheGradientAtItsBoundsAndNothingBeyondOrAtNan) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({6}, {-1, 2, -1.5F, 2.5F, 0, NAN}));
  const auto results = run_kernels({clip(x, -1, 2), clip_grad(fill(graph, {6}, 3), x, {-1, 2})}, {});
  EXPECT_TRUE(is_near(results[0], Doubles{-1, 2, -1, 2, 0, NAN}, {.relative = 0, .absolute = 0}));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<float>({6}, {3, 3, 0, 0, 3, 0})));
}

TEST(ClipOp, RefusesBoundsOutOfOrderAndOtherDtypes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  EXPECT_THROW(clip(x, 1, 0), ArgumentError);
  EXPECT_THROW(clip(x, NAN, 0), ArgumentError);
  EXPECT_THROW(clip(x, 0, NAN), ArgumentError);
  EXPECT_THROW(clip(placeholder(graph, "i", {2}, Dtype::i32), 0, 1), ArgumentError);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

OpCase relu_case(const std::string& name, CaseInput x) {
  return {.name = name,
          .inputs = {std::move(x)},
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{relu(in[0])}; },
          .reference =
              [](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value = value <= 0 ? 0 : value;
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 0, .absolute = 0},
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> relu_cases() {
  std::vector<OpCase> all;
  for (std::int64_t count : {0, 1, 7, 8, 1000, 50000}) {
    CaseInput x = input({count});
    x.away_from_zero = 1e-3;
    all.push_back(relu_case("elements_" + std::to_string(count), x));
  }
  CaseInput special = input({6});
  special.values = {kNan, kInfinity, -kInfinity, 0.0, -0.0, 1.0};
  special.differentiable = false;
  all.push_back(relu_case("special_numbers", special));
  return all;
}

class ReluCases : public testing::TestWithParam<OpCase> {};
TEST_P(ReluCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, ReluCases, testing::ValuesIn(relu_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(
    Bf16, ReluCases, testing::Values(in_bf16(relu_case("odd", {.type = {Dtype::f32, {1001}}, .away_from_zero = 1e-3}))),
    case_name);

struct Smooth {
  const char* name;
  Value (*build)(Value);
  double (*apply)(double);
};
double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}
const Smooth kSmooth[] = {
    {"tanh", [](Value x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
    {"sigmoid", [](Value x) { return sigmoid(x); }, sigmoid_of},
    {"silu", [](Value x) { return silu(x); }, [](double x) { return x * sigmoid_of(x); }},
    {"gelu", [](Value x) { return gelu(x); }, [](double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }},
    {"gelu_tanh", [](Value x) { return gelu(x, {.approximation = Gelu::tanh}); },
     [](double x) { return x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))) / 2; }},
};

OpCase smooth_case(const Smooth& op, const std::string& name, CaseInput x) {
  return {.name = std::string(op.name) + "_" + name,
          .inputs = {std::move(x)},
          .build = [build = op.build](Graph&, const std::vector<Value>& in) { return std::vector{build(in[0])}; },
          .reference =
              [apply = op.apply](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value = apply(value);
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 4, .absolute = 4},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> smooth_cases() {
  std::vector<OpCase> all;
  for (const Smooth& op : kSmooth) {
    all.push_back(smooth_case(op, "none", input({0, 4})));
    all.push_back(smooth_case(op, "odd", input({3, 7}, -4, 4)));
    all.push_back(smooth_case(op, "small", input({101}, -0x1p-6, 0x1p-6)));
    all.push_back(smooth_case(op, "wide", input({1001}, -30, 30)));
    all.push_back(smooth_case(op, "large", input({151, 333}, -4, 4)));
    CaseInput special = input({4});
    special.values = {kNan, 0.0, 200, -200};
    special.differentiable = false;
    all.push_back(smooth_case(op, "special_numbers", special));
  }
  return all;
}

class SmoothActivation : public testing::TestWithParam<OpCase> {};
TEST_P(SmoothActivation, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, SmoothActivation, testing::ValuesIn(smooth_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, SmoothActivation,
                         testing::Values(in_bf16(smooth_case(kSmooth[0], "odd", input({13, 7}, -4, 4)), {}, 2),
                                         in_bf16(smooth_case(kSmooth[1], "odd", input({13, 7}, -4, 4)), {}, 2),
                                         in_bf16(smooth_case(kSmooth[3], "odd", input({13, 7}, -4, 4)))),
                         case_name);

TEST(SmoothActivationGrad, IsFiniteHoweverLargeXIs) {
  Graph graph;
  const std::vector<float> values = {-3e38F, -1e20F, -1e4F, 1e4F, 1e20F, 3e38F};
  const Value x = constant(graph, HostTensor::of<float>({6}, values));
  const Value dy = constant(graph, HostTensor::of<float>({6}, {1, 1, 1, 1, 1, 1}));
  const auto results =
      run_kernels({silu_grad(dy, x), gelu_grad(dy, x, {}), gelu_grad(dy, x, {.approximation = Gelu::tanh})}, {});
  for (const HostTensor& dx : results) {
    EXPECT_TRUE(is_near(dx, Doubles{0, 0, 0, 1, 1, 1}, {.relative = 0, .absolute = 1e-20}));
  }
}

TEST(Activations, RefuseOtherDtypes) {
  Graph graph;
  for (const Smooth& op : kSmooth) {
    for (Dtype dtype : {Dtype::f64, Dtype::i32}) {
      EXPECT_THROW(op.build(placeholder(graph, "x", {2}, dtype)), ArgumentError) << op.name;
    }
  }
  EXPECT_THROW(tanh_grad(placeholder(graph, "a", {2}), placeholder(graph, "b", {3})), ShapeError);
}

TEST(ReluGrad, PassesNothingWhereYIsZeroOrNan) {
  CaseInput dy = input({4}), y = input({4});
  dy.values = {kNan, 2.0, 3.0, kNan};
  y.values = {0.0, kNan, 1.0, 2.0};
  dy.differentiable = y.differentiable = false;
  check({.name = "relu_grad_special_numbers",
         .inputs = {dy, y},
         .build = [](Graph&, const std::vector<Value>& in) { return std::vector{relu_grad(in[0], in[1])}; },
         .reference =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{0.0, 0.0, 3.0, kNan}};
             },
         .tolerance = {.relative = 0, .absolute = 0},
         .same_bits_for_any_threads = true});
}

}  // namespace

}  // namespace sectionflow
