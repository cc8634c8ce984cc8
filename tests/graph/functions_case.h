#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/functions.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "op_case/case_values.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/positions.h"

// What tests of functions share.
namespace sectionflow::function_case {

using testing_support::Doubles;
using testing_support::doubles_of;

/// y of x, and the gradient of the sum of y to x, of f32 numbers as they are fed.
struct Found {
  HostTensor y;
  Doubles values, gradient;
};
inline Found found_of(const std::function<Value(Value)>& build, const Shape& shape, const std::vector<float>& values) {
  Graph graph;
  const Value x = placeholder(graph, "x", shape);
  testing_support::Feeds feeds;
  feeds.emplace(x, op_cases::tensor_of({Dtype::f32, shape}, Doubles(values.begin(), values.end())));
  const Value y = build(x);
  std::vector<HostTensor> found = testing_support::run_kernels({y, gradients(reduce_sum(y), {x})[0]}, feeds);
  Doubles of_y = doubles_of(found[0]), of_x = doubles_of(found[1]);
  return {std::move(found[0]), std::move(of_y), std::move(of_x)};
}

/// The result of a function without a gradient.
inline HostTensor result_of(const std::function<Value(Value)>& build, const TensorType& type, const Doubles& values,
                            Shape declared = {}) {
  Graph graph;
  const Value x = placeholder(graph, "x", declared.rank() == 0 ? type.shape : std::move(declared), type.dtype);
  testing_support::Feeds feeds;
  feeds.emplace(x, op_cases::tensor_of(type, values));
  return std::move(testing_support::run_kernels({build(x)}, feeds)[0]);
}

/// For each element of the reduced x, in row-major order, the elements that it is made of.
inline std::vector<Doubles> groups_of(const Doubles& x, const Shape& shape, const std::vector<int>& axes) {
  std::vector<bool> reduced(static_cast<std::size_t>(shape.rank()), axes.empty());
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis)] = true;
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!reduced[static_cast<std::size_t>(axis)]) dims.push_back(shape[axis]);
  }
  const Shape result(std::move(dims));
  std::vector<Doubles> groups(static_cast<std::size_t>(result.num_elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const testing_support::Position from = testing_support::position_of(static_cast<std::int64_t>(i), shape);
    testing_support::Position to;
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (!reduced[axis]) to.push_back(from[axis]);
    }
    groups[testing_support::number_of(to, result)].push_back(x[i]);
  }
  return groups;
}

}  // namespace sectionflow::function_case
