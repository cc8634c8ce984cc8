#include "graph/ops/global_norm.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

OpCase to_case(const std::string& name, std::vector<CaseInput> inputs) {
  return {.name = name,
          .inputs = std::move(inputs),
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{global_norm(in)}; },
          .reference =
              [](const std::vector<Doubles>& in) {
                double squares = 0;
                for (const Doubles& x : in) {
                  for (double element : x) squares += element * element;
                }
                return std::vector<Doubles>{{std::sqrt(squares)}};
              },
          .tolerance = {.relative = 1, .absolute = 0},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> cases() {
  return {to_case("scalar", {input({})}),
          to_case("vector", {input({7})}),
          to_case("several", {input({3, 3, 4, 5}), input({5}), input({17, 9}), input({}), input({3, 0}), input({31})}),
          to_case("many_blocks", {input({40003}), input({200, 401})}),
          to_case("squares_below_f32", {input({100}, -1e-30, 1e-30)}),
          to_case("squares_beyond_f32", {input({100}, 1e30, 2e30), input({3})})};
}

class GlobalNormCases : public testing::TestWithParam<OpCase> {};
TEST_P(GlobalNormCases, EqualTheReferenceAndKeepTheirBits) {
  OpCase op_case = GetParam();
  // A step of 1e-5 is far more than such elements.
  if (op_case.name.starts_with("squares")) op_case.gradient_outputs = {};
  check(op_case);
}
INSTANTIATE_TEST_SUITE_P(Cases, GlobalNormCases, testing::ValuesIn(cases()), case_name);

TEST(GlobalNorm, OfNoElementsIsZero) {
  Graph graph;
  EXPECT_EQ(run_kernels({global_norm({fill(graph, {0, 3}, 1)})}, {})[0].item<float>(), 0.0F);
}

TEST(GlobalNorm, OfZerosHasTheGradientZero) {
  Graph graph;
  const Value x = fill(graph, {3}, 0);
  EXPECT_TRUE(
      same_bits(run_kernels({gradients(global_norm({x}), {x})[0]}, {})[0], HostTensor::of<float>({3}, {0, 0, 0})));
}

TEST(GlobalNorm, ShowsWhatIsNoNumber) {
  Graph graph;
  const Value x = fill(graph, {3}, 1);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run_kernels({global_norm({x, fill(graph, {2}, -infinity)})}, {})[0].item<float>(), infinity);
  EXPECT_TRUE(std::isnan(run_kernels({global_norm({fill(graph, {}, NAN), x})}, {})[0].item<float>()));
}

TEST(GlobalNorm, RefusedCallsAddNothing) {
  Graph graph, other;
  const Value x = placeholder(graph, "x", {3}), whole = placeholder(graph, "whole", {3}, Dtype::i32);
  const Value stranger = placeholder(other, "x", {3});
  const int before = graph.num_nodes();
  EXPECT_THROW(global_norm({}), ArgumentError);
  EXPECT_THROW(global_norm({x, whole}), ArgumentError);
  EXPECT_THROW(global_norm({x, stranger}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
}

float scale_of(float norm, float max_norm) {
  Graph graph;
  return run_kernels({clip_scale(constant(graph, norm), max_norm)}, {})[0].item<float>();
}

TEST(ClipScale, IsOneUpToTheMaximumAndTheirRatioBeyond) {
  for (float norm : {0.0F, 1e-30F, 0.3F, 0.7F}) EXPECT_EQ(scale_of(norm, 0.7F), 1.0F);
  EXPECT_EQ(scale_of(2.0F, 0.5F), 0.25F);
  EXPECT_EQ(scale_of(3.0F, 0.7F), 0.7F / 3.0F);
  EXPECT_EQ(scale_of(3e37F, 1.0F), 1.0F / 3e37F);
}

TEST(ClipScale, OfWhatIsNoNumberIsNaN) {
  EXPECT_TRUE(std::isnan(scale_of(std::numeric_limits<float>::infinity(), 1)));
  EXPECT_TRUE(std::isnan(scale_of(NAN, 1)));
}

TEST(ClipScale, RefusedCallsAddNothing) {
  Graph graph;
  const Value norm = placeholder(graph, "norm", {}), wide = placeholder(graph, "wide", {2});
  const int before = graph.num_nodes();
  for (float max_norm : {0.0F, -1.0F, NAN, std::numeric_limits<float>::infinity()}) {
    EXPECT_THROW(clip_scale(norm, max_norm), ArgumentError) << max_norm;
  }
  EXPECT_THROW(clip_scale(wide, 1), ShapeError);
  EXPECT_EQ(graph.num_nodes(), before);
}

// Of 1 / norm: -x / norm^3.
TEST(ClipScale, HasAGradientWhereItClips) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3}, {3, 0, 4}));
  const auto gradient_of = [&](float max_norm) {
    const Value dx = gradients(clip_scale(global_norm({x}), max_norm) * 2.0F, {x})[0];
    return std::move(run_kernels({dx}, {})[0]);
  };
  EXPECT_TRUE(is_near(gradient_of(1), std::vector<double>{-0.048, 0, -0.064}, {}));
  EXPECT_TRUE(is_near(gradient_of(6), std::vector<double>{0, 0, 0}, {}));
}

}  // namespace
}  // namespace sectionflow::testing_support
