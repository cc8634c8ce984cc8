#include <cmath>
#include <string>
#include <vector>

#include "graph/nodes/pool.h"
#include "graph/ops/basic.h"
#include "tests/ops/pool_reference.h"
#include "tests/ops/quantized_reference.h"

namespace sectionflow::testing_support {
namespace {

OpCase quantized_pool_case(const std::string& name, Dtype dtype, const Shape& shape, const PoolOptions& options,
                           bool is_maximum) {
  const std::string kind = is_maximum ? "quantized_max_pool" : "quantized_average_pool";
  return {
      .name = name + (is_maximum ? "_max" : "_average"),
      .inputs = {integers(dtype, shape)},
      .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{quantized_pool(in[0], kind, options)}; },
      .reference =
          [=](const std::vector<Doubles>& in) {
            Doubles y = pool_reference(shape, options, is_maximum, in[0])[0];
            for (double& each : y) each = std::nearbyint(each);
            return std::vector<Doubles>{y};
          },
      .tolerance = {.relative = 0, .absolute = 0},
      .gradient_outputs = {},
      .dynamic_batch = true,
      .same_bits_for_any_threads = true};
}

std::vector<OpCase> quantized_pool_cases() {
  const WindowSteps halves = window_steps<2>(2, 1, Padding::same, DataFormat::nhwc);
  const WindowSteps nchw = window_steps<2>({1, 2}, 1, SpatialPadding<2>(1), DataFormat::nchw);
  const WindowSteps deep = window_steps<3>(2, 1, Padding3d::valid, DataFormat::nhwc);
  std::vector<OpCase> all;
  for (const bool is_maximum : {true, false}) {
    all.push_back(quantized_pool_case("u8", Dtype::u8, {3, 9, 7, 70}, {{3, 2}, halves}, is_maximum));
    all.push_back(quantized_pool_case("i8", Dtype::i8, {2, 8, 8, 5}, {{2, 2}, halves}, is_maximum));
    all.push_back(quantized_pool_case("padding", Dtype::i8, {2, 5, 9, 3}, {{3, 3}, halves, true}, is_maximum));
    all.push_back(quantized_pool_case("nchw", Dtype::i8, {2, 3, 6, 9}, {{2, 3}, nchw}, is_maximum));
    all.push_back(quantized_pool_case("volumes", Dtype::u8, {2, 4, 5, 6, 3}, {{2, 3, 2}, deep}, is_maximum));
    all.push_back(quantized_pool_case("empty", Dtype::u8, {0, 4, 4, 3}, {{2, 2}, halves}, is_maximum));
  }
  return all;
}

class QuantizedPoolCases : public testing::TestWithParam<OpCase> {};
TEST_P(QuantizedPoolCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, QuantizedPoolCases, testing::ValuesIn(quantized_pool_cases()), case_name);

TEST(QuantizedPool, RefusesWhatIsNoInteger) {
  Graph graph;
  const PoolOptions options{.window = {2, 2}, .steps = window_steps<2>(2, 1, Padding::same, DataFormat::nhwc)};
  EXPECT_THROW(quantized_pool(placeholder(graph, "x", {2, 4, 4, 3}), "quantized_max_pool", options), ArgumentError);
  const Value wide = placeholder(graph, "wide", {1, 4096, 4096, 1}, Dtype::u8);
  EXPECT_THROW(quantized_pool(wide, "quantized_average_pool", {.window = {4096, 4096}, .steps = options.steps}),
               ShapeError);
}

}  // namespace
}  // namespace sectionflow::testing_support
