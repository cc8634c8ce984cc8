#include "graph/ops/stop_gradient.h"

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/moved.h"

namespace sectionflow {
namespace {

using namespace testing_support;

OpCase stop_case(const std::string& name, Shape shape, Dtype dtype = Dtype::f32) {
  OpCase op_case = moving_case(
      name, {moved_input(dtype, std::move(shape))},
      [](Graph&, const std::vector<Value>& in) { return std::vector{stop_gradient(in[0])}; },
      [](const std::vector<Doubles>& in) { return in; });
  op_case.gradient_outputs = {};
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> stop_cases() {
  std::vector<OpCase> cases = {stop_case("scalar", {}), stop_case("nothing", {0, 4}), stop_case("odd", {3, 7}),
                               stop_case("large", {301, 1003})};
  for (Dtype dtype : kAllDtypes) cases.push_back(stop_case(std::string(dtype_name(dtype)), {3, 5}, dtype));
  return cases;
}

class StopGradient : public testing::TestWithParam<OpCase> {};
TEST_P(StopGradient, GivesTheElementsAsTheyAre) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, StopGradient, testing::ValuesIn(stop_cases()), case_name);

TEST(StopGradientExactly, CountsAsAConstant) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value dx = gradients(reduce_sum(x * stop_gradient(x * 3.0F)), {x})[0];
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2}, {1, -2}));
  EXPECT_EQ(doubles_of(run_kernels({dx}, feeds)[0]), (Doubles{3, -6}));
}

}  // namespace
}  // namespace sectionflow
