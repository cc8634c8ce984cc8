#include "graph/ops/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

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

}  // namespace
}  // namespace sectionflow
