#include "graph/ops/lstm_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "graph/nodes/lstm_step.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "tests/support/op_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow::testing_support {
namespace {

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Output, cell' and gates.
std::vector<Doubles> step_in_double(const Doubles& sums, const Doubles& cell, std::size_t width) {
  Doubles output(cell.size()), after(cell.size()), gates(sums.size());
  for (std::size_t at = 0; at < cell.size(); ++at) {
    const std::size_t first = at / width * 4 * width + at % width;
    for (std::size_t gate = 0; gate < 4; ++gate) {
      const double x = sums[first + gate * width];
      gates[first + gate * width] = gate == 2 ? std::tanh(x) : sigmoid_of(x);
    }
    after[at] = gates[first + width] * cell[at] + gates[first] * gates[first + 2 * width];
    output[at] = gates[first + 3 * width] * std::tanh(after[at]);
  }
  return {output, after, gates};
}

std::vector<Value> results(const LstmStep& step) {
  return {step.output, step.cell, step.gates};
}

/// `outputs`: those that the loss depends on.
OpCase step_case(const std::string& name, const Shape& cell, std::vector<int> outputs = {0, 1}) {
  std::vector<std::int64_t> sums = cell.dims();
  sums.back() *= 4;
  const auto width = static_cast<std::size_t>(cell[-1]);
  return {.name = name,
          .inputs = {input(Shape(sums), -4, 4), input(cell, -2, 2)},
          .build = [](Graph&, const std::vector<Value>& in) { return results(lstm_step(in[0], in[1])); },
          .reference = [width](const std::vector<Doubles>& in) { return step_in_double(in[0], in[1], width); },
          .tolerance = {.relative = 16, .absolute = 16},
          .gradient_outputs = std::move(outputs),
          .dynamic_batch = cell.rank() > 1,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> step_cases() {
  std::vector<OpCase> all = {step_case("rows", {7, 13}),
                             step_case("vector", {5}),
                             step_case("many", {37, 130}),
                             step_case("wide_rows", {3, 2500}),
                             step_case("of_more_axes", {2, 3, 8}),
                             step_case("none", {0, 4}),
                             step_case("no_width", {3, 0}),
                             step_case("output_alone", {5, 6}, {0}),
                             step_case("cell_alone", {5, 6}, {1}),
                             step_case("gates", {5, 6}, {2}),
                             in_bf16(step_case("rows", {7, 33}), {}, 8)};
  all.back().name = "bf16";
  return all;
}

class LstmStepCases : public testing::TestWithParam<OpCase> {};
TEST_P(LstmStepCases, EqualTheReferenceWithTheirGradientsAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, LstmStepCases, testing::ValuesIn(step_cases()), case_name);

TEST(LstmStepShapes, AreFourNumbersForEachOfTheCell) {
  Graph graph;
  const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape)); };
  const LstmStep step = lstm_step(in({kDynamic, 12}), in({kDynamic, 3}));
  EXPECT_EQ(step.output.type().text(), "f32[?,3]");
  EXPECT_EQ(step.gates.type().text(), "f32[?,12]");
  EXPECT_THROW(lstm_step(in({2, 6}), in({2, kDynamic})), ShapeError);
  const int before = graph.num_nodes();
  EXPECT_THROW(lstm_step(step.gates, step.gates), ShapeError);
  EXPECT_THROW(lstm_step(step.gates, cast(step.cell, Dtype::bf16)), ArgumentError);
  EXPECT_THROW(lstm_step_grad(step.gates, step.cell, step.gates, step.cell, step.cell), ShapeError);
  EXPECT_EQ(graph.num_nodes(), before + 1) << "the cast alone";
}

}  // namespace
}  // namespace sectionflow::testing_support
