#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/losses.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "op_case/case_values.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"

// What tests of losses share.
namespace sectionflow::loss_case {

using testing_support::Doubles;
using testing_support::doubles_of;

/// A loss of values.
using BuildLoss = std::function<Value(const std::vector<Value>&)>;

/// What is fed to an input.
struct Fed {
  TensorType type;
  Doubles values;
};
inline Fed numbers(Shape shape, const std::vector<float>& values) {
  return {{Dtype::f32, std::move(shape)}, Doubles(values.begin(), values.end())};
}
/// A vector of them.
inline Fed numbers(const std::vector<float>& values) {
  return numbers({static_cast<std::int64_t>(values.size())}, values);
}
inline Fed class_numbers(Shape shape, const std::vector<int>& values, Dtype dtype = Dtype::i32) {
  return {{dtype, std::move(shape)}, Doubles(values.begin(), values.end())};
}

/// The elements of a loss and the gradients of their sum.
struct Found {
  Doubles losses;
  std::vector<Doubles> gradients;  ///< one an input of those that were asked for
};

/// What `build` makes of the inputs, as they are fed; gradients for those at `differentiated`.
inline Found found_of(const BuildLoss& build, const std::vector<Fed>& inputs,
                      const std::vector<std::size_t>& differentiated = {0}) {
  Graph graph;
  std::vector<Value> values;
  testing_support::Feeds feeds;
  for (const Fed& input : inputs) {
    values.push_back(placeholder(graph, "input", input.type.shape, input.type.dtype));
    feeds.emplace(values.back(), op_cases::tensor_of(input.type, input.values));
  }
  std::vector<Value> fetches = {build(values)}, wanted;
  for (const std::size_t index : differentiated) wanted.push_back(values[index]);
  if (!wanted.empty()) {
    for (const Value& gradient : gradients(reduce_sum(fetches[0]), wanted)) fetches.push_back(gradient);
  }
  const std::vector<HostTensor> tensors = testing_support::run_kernels(fetches, feeds);
  Found found{.losses = doubles_of(tensors[0]), .gradients = {}};
  for (std::size_t i = 1; i < tensors.size(); ++i) found.gradients.push_back(doubles_of(tensors[i]));
  return found;
}

/// Expects numbers within `epsilons` of f32 of themselves, and `absolute` besides.
inline void expect_near(const Doubles& found, const Doubles& wanted, double epsilons, double absolute = 0) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], 0x1p-23 * epsilons * std::abs(wanted[i]) + absolute) << "element " << i;
  }
}

// ---- In double.

inline double sigmoid_of(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
inline double softplus_of(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
inline double log_cosh_of(double d) {
  const double a = std::abs(d), half = std::sinh(d / 2);
  return a < 1 ? std::log1p(2 * half * half) : a + std::log1p(std::exp(-2 * a)) - std::log(2.0);
}

}  // namespace sectionflow::loss_case
