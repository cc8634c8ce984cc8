#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/kernel_runner.h"

namespace sectionflow::testing_support {

/// A graph of bf16 with random feeds, infinities and NaN among them where they are asked for.
class Bf16Inputs {
 public:
  explicit Bf16Inputs(std::uint32_t seed) : random_(seed) {}

  Graph graph;
  Feeds feeds;
  std::vector<Value> differentiated;

  Value bf16(const Shape& shape, double low = -2, double high = 2) {
    HostTensor tensor(Dtype::bf16, shape);
    for (BFloat16& x : tensor.values<BFloat16>()) x = BFloat16(draw(low, high));
    return add(std::move(tensor));
  }
  /// With the numbers at which formulas take another way.
  Value extreme(const Shape& shape) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kSpecial[] = {
        kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0, -0.0F, 1e-40F, 3e38F, -3e38F, 88.5F, -88.5F};
    HostTensor tensor(Dtype::bf16, shape);
    std::size_t i = 0;
    for (BFloat16& x : tensor.values<BFloat16>()) x = BFloat16(i++ % 3 == 0 ? kSpecial[i % 10] : draw(-20, 20));
    return add(std::move(tensor));
  }
  Value f32(const Shape& shape, double low = -2, double high = 2) {
    HostTensor tensor(Dtype::f32, shape);
    for (float& x : tensor.values<float>()) x = draw(low, high);
    return add(std::move(tensor));
  }
  Value boolean(bool value) {
    HostTensor tensor(Dtype::boolean, {});
    tensor.values<bool>()[0] = value;
    return constant(graph, std::move(tensor));
  }

  /// y, then the gradients of a weighted sum of it.
  std::vector<Value> with_gradients(Value y) {
    const std::vector<Value> variables = differentiated;
    const Value weights = f32(y.shape());
    std::vector<Value> all = gradients(reduce_sum(mul(cast(y, Dtype::f32), weights)), variables);
    all.insert(all.begin(), y);
    return all;
  }

 private:
  float draw(double low, double high) { return static_cast<float>(low + (high - low) * (random_() * 0x1p-32)); }
  Value add(HostTensor tensor) {
    const Value placed = placeholder(graph, text_of("x", feeds.size()), tensor.shape(), tensor.dtype());
    feeds.emplace(placed, std::move(tensor));
    differentiated.push_back(placed);
    return placed;
  }

  std::mt19937 random_;
};

/// Values whose kernels are run with bf16 as it is, and between copies.
struct Bf16Line {
  const char* name;
  std::function<std::vector<Value>(Bf16Inputs&)> build;
  bool of_cpu_alone =
      false;  ///< what a GPU's libraries add up in an order of their own, or what is long in an emulator
};
inline std::ostream& operator<<(std::ostream& stream, const Bf16Line& line) {
  return stream << line.name;
}
inline std::string bf16_line_name(const testing::TestParamInfo<Bf16Line>& info) {
  return info.param.name;
}

/// Its tests are in native_bf16.cpp; lines stand beside.
class NativeBf16 : public testing::TestWithParam<Bf16Line> {};

}  // namespace sectionflow::testing_support
