#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "op_case/case_values.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"

// What tests of blocks and recurrent layers share: inputs and variables that a formula gives, so that another framework
// computes with the same, and results as they are or as two sums each.
namespace sectionflow::block_case {

using testing_support::Doubles;
using testing_support::doubles_of;

/// Values of inputs.
using Build = std::function<std::vector<Value>(const std::vector<Value>&)>;

/// Number i of tensor k: a fraction that f32 holds, in [-14 / 32, 14 / 32].
inline double pattern(std::int64_t i, int k) {
  return static_cast<double>((37 * i + 11 * k) % 29 - 14) / 32;
}
inline Doubles patterns(std::int64_t count, int k, double scale) {
  Doubles values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(scale * pattern(i, k));
  return values;
}
/// A tensor of them.
inline HostTensor pattern_tensor(const TensorType& type, int k, double scale) {
  return op_cases::tensor_of(type, patterns(type.shape.num_elements(), k, scale));
}

/// The sums of a gradient's numbers, times two patterns.
struct Sums {
  double first, second;
};
inline Sums sums_of(const Doubles& values) {
  Sums sums{0, 0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums.first += values[i] * pattern(static_cast<std::int64_t>(i), 50);
    sums.second += values[i] * pattern(static_cast<std::int64_t>(i), 51);
  }
  return sums;
}

/// What a layer gives, and the gradients of the sum of its results, times patterns.
struct Found {
  std::vector<Doubles> results;
  std::vector<Sums> gradients;  ///< of the inputs, then of the trained variables in the order of their making
};

/// `batch`: what the first dimension of inputs is where the graph does not know it.
inline Found found_of(const Build& build, const std::vector<Shape>& shapes, bool batch_is_known = true) {
  Graph graph;
  std::vector<Value> inputs;
  testing_support::Feeds feeds;
  for (const Shape& shape : shapes) {
    std::vector<std::int64_t> dims = shape.dims();
    if (!batch_is_known) dims[0] = kDynamic;
    inputs.push_back(placeholder(graph, "input", Shape(std::move(dims))));
    feeds.emplace(inputs.back(), pattern_tensor({Dtype::f32, shape}, static_cast<int>(inputs.size()), 4));
  }
  const std::vector<Value> results = build(inputs);
  std::vector<Value> wanted = inputs;
  for (const Value& variable : graph.values(kTrainableVariables)) {
    feeds.emplace(variable, pattern_tensor(variable.type(), 20 + static_cast<int>(wanted.size() - inputs.size()), 2));
    wanted.push_back(variable);
  }
  const std::vector<HostTensor> values = testing_support::run_kernels(results, feeds);
  Value loss;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Value weights = constant(graph, pattern_tensor(values[i].type(), 7 + static_cast<int>(i), 1));
    const Value part = reduce_sum(results[i] * reshape_like(weights, results[i]));
    loss = loss.valid() ? loss + part : part;
  }
  Found found;
  for (const HostTensor& value : values) found.results.push_back(doubles_of(value));
  for (const HostTensor& gradient : testing_support::run_kernels(gradients(loss, wanted), feeds)) {
    found.gradients.push_back(sums_of(doubles_of(gradient)));
  }
  return found;
}

/// What another framework found, in double.
struct Case {
  const char* name;
  std::vector<Shape> inputs;
  Build build;
  std::vector<Doubles> results;
  std::vector<Sums> gradients;
};

/// Within `epsilons` of f32 of themselves, or of 1 where they are less.
inline void expect_close(double found, double wanted, double epsilons, const std::string& what) {
  EXPECT_NEAR(found, wanted, 0x1p-23 * epsilons * std::max(1.0, std::abs(wanted))) << what;
}

inline void expect_found(const Case& one, const Found& found, double epsilons) {
  ASSERT_EQ(found.results.size(), one.results.size());
  for (std::size_t i = 0; i < one.results.size(); ++i) {
    ASSERT_EQ(found.results[i].size(), one.results[i].size());
    for (std::size_t k = 0; k < one.results[i].size(); ++k) {
      expect_close(found.results[i][k], one.results[i][k], epsilons, text_of("result ", i, ", element ", k));
    }
  }
  ASSERT_EQ(found.gradients.size(), one.gradients.size());
  for (std::size_t i = 0; i < one.gradients.size(); ++i) {
    expect_close(found.gradients[i].first, one.gradients[i].first, epsilons, text_of("gradient ", i));
    expect_close(found.gradients[i].second, one.gradients[i].second, epsilons, text_of("gradient ", i));
  }
}

/// Expects each case to be what was found elsewhere, also where the batch is not known.
template <class Cases>
void expect_all(const Cases& cases, double epsilons) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    expect_found(one, found_of(one.build, one.inputs), epsilons);
    if (one.inputs[0].rank() < 3) continue;
    expect_found(one, found_of(one.build, one.inputs, false), epsilons);
  }
}

}  // namespace sectionflow::block_case
