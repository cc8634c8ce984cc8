#include "graph/ops/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

std::vector<OpCase> cases() {
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
INSTANTIATE_TEST_SUITE_P(Cases, ReluCases, testing::ValuesIn(cases()), case_name);
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
}  // namespace sectionflow::testing_support
