// Einsums and their gradients beside those of PyTorch 2.15 in double precision, of the same numbers. These are whole
// eighths, of which f32 rounds no product and no sum here: results are equal.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/einsum.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "op_case/case_values.h"
#include "tests/graph/einsum_reference.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow::einsum_case {
namespace {

using namespace testing_support;

/// What torch.einsum gives of eighths in steps of 5, 7 and 11, and the gradients of sum(y r), r in steps of 3.
struct TorchEinsum {
  const char* text;
  std::vector<Shape> shapes;
  Shape result;
  Doubles values;
  std::vector<Doubles> gradients;
};

Doubles eighths(const Shape& shape, std::int64_t step) {
  Doubles values;
  for (std::int64_t i = 0; i < shape.num_elements(); ++i)
    values.push_back((static_cast<double>(i * step % 17) - 8) / 8);
  return values;
}

const TorchEinsum kTorchEinsums[] = {
    {"bij,bjk->bik",
     {{2, 2, 3}, {2, 3, 2}},
     {2, 2, 2},
     {0.8125, 0.09375, -1.34375, 0.203125, 0.515625, 0.078125, 0.0, 0.765625},
     {{1.078125, -0.4375, 0.171875, 0.234375, -0.25, -0.203125, 0.765625, 0.25, -0.265625, -0.4375, 0.078125, 0.59375},
      {0.78125, 0.734375, 0.53125, 0.15625, -0.25, -0.15625, -0.015625, 0.359375, -1.3125, -1.265625, 0.3125,
       0.03125}}},
    {"bthd,bshd->bhts",
     {{1, 2, 2, 3}, {1, 3, 2, 3}},
     {1, 2, 2, 3},
     {1.234375, -0.421875, -0.75, -0.703125, -0.671875, 0.6875, -0.671875, 0.90625, -0.703125, 0.625, -0.625, 0.515625},
     {{0.75, -0.359375, -0.671875, 0.265625, 0.015625, 0.828125, 0.75, 0.203125, 0.453125, -0.4375, -0.125, -1.140625},
      {1.078125, 0.265625, -0.28125, -0.671875, 0.796875, -0.125, 0.9375, -0.203125, -0.28125, -0.203125, 0.9375,
       -0.3125, 0.796875, -0.671875, -0.28125, 0.265625, 1.078125, -0.5}}},
    {"...i,ij->...j",
     {{2, 1, 3}, {3, 2}},
     {2, 1, 2},
     {0.8125, 0.09375, -1.34375, 0.203125},
     {{1.078125, -0.4375, 0.171875, 0.234375, -0.25, -0.203125},
      {0.78125, 0.734375, 0.53125, 0.15625, -0.25, -0.15625}}},
    {"...ij,...jk",
     {{2, 1, 2, 3}, {2, 3, 2}},
     {2, 2, 2, 2},
     {0.8125, 0.09375, -1.34375, 0.203125, -0.046875, -1.03125, 0.234375, 0.453125, -1.375, 0.578125, 0.1875, -0.109375,
      0.515625, 0.078125, 0.0, 0.765625},
     {{1.84375, -0.1875, -0.09375, -0.203125, -0.171875, 0.390625, -0.234375, -0.125, 0.25, -0.421875, 0.15625,
       -0.59375},
      {0.9375, 1.265625, 1.265625, 0.9375, -0.53125, -0.71875, -1.734375, -1.40625, 1.015625, 0.6875, 0.3125, 0.125}}},
    {"bi,ijk,bk->bj",
     {{2, 2}, {2, 3, 2}, {2, 2}},
     {2, 3},
     {-1.076171875, 0.7265625, 0.404296875, 0.828125, 0.365234375, 0.1015625},
     {{-0.19140625, -0.87890625, -1.248046875, 0.78515625},
      {-1.01171875, 0.40625, -0.671875, 0.359375, -0.33203125, 0.3125, -0.416015625, 0.25, -0.3984375, 0.525390625,
       -0.380859375, 0.80078125},
      {-0.595703125, -0.19921875, -0.59375, 0.15234375}}},
    {"bii->bi",
     {{2, 3, 3}},
     {2, 3},
     {-1.0, -0.625, -0.25, 0.375, 0.75, -1.0},
     {{-1.0, 0.0, 0.0, 0.0, -0.625, 0.0, 0.0, 0.0, -0.25, 0.125, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.875}}},
    {"ij,ji->",
     {{2, 3}, {3, 2}},
     {},
     {1.015625},
     {{1.0, -0.75, -0.375, 0.125, 0.5, 0.875}, {1.0, -0.875, 0.375, 0.625, -0.25, 0.0}}},
    {"kj,ji",
     {{2, 3}, {3, 2}},
     {2, 2},
     {0.8125, -1.34375, 0.09375, 0.203125},
     {{1.03125, -0.625, -0.15625, 0.609375, -0.53125, -0.34375},
      {0.453125, 0.359375, 0.765625, 0.015625, -0.25, -0.0625}}},
    {"Zb,bA",
     {{2, 3}, {3, 2}},
     {2, 2},
     {0.8125, -1.34375, 0.09375, 0.203125},
     {{1.03125, -0.625, -0.15625, 0.609375, -0.53125, -0.34375},
      {0.453125, 0.359375, 0.765625, 0.015625, -0.25, -0.0625}}},
};

TEST(EinsumBesideTorch, HasEqualValuesAndGradients) {
  for (const TorchEinsum& wanted : kTorchEinsums) {
    SCOPED_TRACE(wanted.text);
    Graph graph;
    testing_support::Feeds feeds;
    std::vector<Value> operands;
    for (std::size_t i = 0; i < wanted.shapes.size(); ++i) {
      const Shape& shape = wanted.shapes[i];
      operands.push_back(placeholder(graph, "x", shape));
      const std::int64_t step = i == 0 ? 5 : (i == 1 ? 7 : 11);
      feeds.emplace(operands.back(), op_cases::tensor_of({Dtype::f32, shape}, eighths(shape, step)));
    }
    const Value y = einsum(wanted.text, operands);
    ASSERT_EQ(y.shape(), wanted.result);
    const Value r = constant(graph, op_cases::tensor_of({Dtype::f32, y.shape()}, eighths(y.shape(), 3)));
    std::vector<Value> fetches = gradients(reduce_sum(y * r), operands);
    fetches.push_back(y);
    const std::vector<HostTensor> found = run_kernels(fetches, feeds);
    EXPECT_EQ(doubles_of(found.back()), wanted.values);
    for (std::size_t i = 0; i < operands.size(); ++i) EXPECT_EQ(doubles_of(found[i]), wanted.gradients[i]) << i;
  }
}

}  // namespace
}  // namespace sectionflow::einsum_case
