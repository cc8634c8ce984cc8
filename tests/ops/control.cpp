#include "graph/ops/control.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

Value known_flag(Graph& graph, bool flag) {
  return constant(graph, HostTensor::scalar(flag), "flag");
}

/// Twice x and more where the flag is true, y itself where it is false: x leaves one branch, y both.
OpCase cond_case(const std::string& name, Shape shape, bool flag) {
  return {.name = name + (flag ? "_true" : "_false"),
          .inputs = {input(shape), input(shape)},
          .build =
              [=](Graph& graph, const std::vector<Value>& in) {
                return std::vector{cond(
                    known_flag(graph, flag), [&] { return in[0] * 2.0F + in[1]; }, [&] { return in[1]; })};
              },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles y = in[1];
                for (std::size_t i = 0; i < y.size() && flag; ++i) y[i] += 2 * in[0][i];
                return std::vector<Doubles>{y};
              },
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> cond_cases() {
  std::vector<OpCase> cases;
  for (const bool flag : {true, false}) {
    cases.push_back(cond_case("vector", {5}, flag));
    cases.push_back(cond_case("nothing", {0, 4}, flag));
    cases.push_back(cond_case("odd", {3, 7}, flag));
    cases.push_back(cond_case("large", {301, 1003}, flag));
  }
  return cases;
}

class Cond : public testing::TestWithParam<OpCase> {};
TEST_P(Cond, GivesWhatTheBranchThatIsTakenGives) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Cond, testing::ValuesIn(cond_cases()), case_name);

OpCase moved_by_cond(Dtype dtype, bool flag) {
  OpCase op_case = moving_case(
      std::string(dtype_name(dtype)) + (flag ? "_true" : "_false"),
      {moved_input(dtype, {3, 5}), moved_input(dtype, {3, 5})},
      [=](Graph& graph, const std::vector<Value>& in) {
        return std::vector{cond(
            known_flag(graph, flag), [&] { return in[0]; }, [&] { return in[1]; })};
      },
      [=](const std::vector<Doubles>& in) { return std::vector<Doubles>{in[flag ? 0 : 1]}; });
  if (!is_floating(dtype)) op_case.gradient_outputs = {};
  return op_case;
}

std::vector<OpCase> moved_cases() {
  std::vector<OpCase> cases;
  for (const Dtype dtype : kAllDtypes) {
    for (const bool flag : {true, false}) cases.push_back(moved_by_cond(dtype, flag));
  }
  return cases;
}

class CondOfDtypes : public testing::TestWithParam<OpCase> {};
TEST_P(CondOfDtypes, MovesElementsAsTheyAre) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CondOfDtypes, testing::ValuesIn(moved_cases()), case_name);

OpCase assertion_case(const std::string& name, Shape shape) {
  CaseInput shown = input(shape);
  shown.differentiable = false;
  return {.name = name,
          .inputs = {input(shape), shown},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                return std::vector{assert_that(in[0], equal(in[1], in[1]), {.text = "it is itself", .shown = {in[1]}})};
              },
          .reference = [](const std::vector<Doubles>& in) { return std::vector<Doubles>{in[0]}; },
          .tolerance = {.relative = 0, .absolute = 0},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

class Assertion : public testing::TestWithParam<OpCase> {};
TEST_P(Assertion, PassesValueAndGradientOn) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Assertion,
                         testing::Values(assertion_case("vector", {5}), assertion_case("nothing", {0, 4}),
                                         assertion_case("large", {301, 1003})),
                         case_name);

}  // namespace
}  // namespace sectionflow
