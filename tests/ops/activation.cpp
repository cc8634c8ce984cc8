#include "graph/ops/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

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
