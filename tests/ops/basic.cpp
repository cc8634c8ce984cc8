#include "graph/ops/basic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

HostTensor computed(Value value, const RunOptions& options = {}) {
  return std::move(run_kernels({value}, {}, options)[0]);
}

TEST(Constant, GivesItsContentInEveryDtype) {
  Graph graph;
  const auto expect_content = [&](HostTensor content) {
    EXPECT_TRUE(same_bits(computed(constant(graph, content.clone())), content));
  };
  expect_content(HostTensor::of<float>({2, 2}, {1, -0.0F, NAN, INFINITY}));
  expect_content(HostTensor::of<double>({3}, {1e300, -1, 0}));
  expect_content(HostTensor::of<std::int32_t>({1, 2}, {-7, 7}));
  expect_content(HostTensor::scalar<std::int64_t>(std::int64_t{1} << 60));
  expect_content(HostTensor::of<std::uint8_t>({3}, {0, 1, 255}));
  expect_content(HostTensor::of<bool>({2}, {true, false}));
}

TEST(Constant, GivesLargeContentOnEveryThreadCount) {
  HostTensor content(Dtype::f32, {513, 1025});
  for (float value = 0; float& element : content.values<float>()) element = value++;
  Graph graph;
  const Value y = constant(graph, content.clone());
  for (int threads : {1, 2, 3}) EXPECT_TRUE(same_bits(computed(y, {.threads = threads}), content));
}

TEST(Constant, MayBeEmpty) {
  Graph graph;
  EXPECT_EQ(computed(constant(graph, HostTensor(Dtype::f32, {0, 3}))).shape(), (Shape{0, 3}));
}

TEST(Fill, GivesItsValueInEveryDtype) {
  Graph graph;
  const auto expect_all = [&]<class T>(double value, T wanted) {
    const HostTensor y = computed(fill(graph, {3, 7}, value, dtype_of<T>));
    EXPECT_EQ(y.shape(), (Shape{3, 7}));
    for (T element : y.values<T>()) EXPECT_EQ(element, wanted);
  };
  expect_all(0.1, 0.1F);
  expect_all(0.1, 0.1);
  expect_all(-3.7, std::int32_t{-3});
  expect_all(0x1p40, std::int64_t{1} << 40);
  expect_all(255, std::uint8_t{255});
  expect_all(2, true);
}

TEST(Fill, GivesZeroForIntegersThatCannotHoldTheValue) {
  Graph graph;
  EXPECT_EQ(computed(fill(graph, {}, 256, Dtype::u8)).item<std::uint8_t>(), 0);
  EXPECT_EQ(computed(fill(graph, {}, NAN, Dtype::i32)).item<std::int32_t>(), 0);
}

TEST(Fill, MayBeEmpty) {
  Graph graph;
  EXPECT_EQ(computed(fill(graph, {4, 0}, 1)).num_elements(), 0);
}

TEST(Fill, FillsLargeTensorsOnEveryThreadCount) {
  Graph graph;
  const Value y = fill(graph, {70001}, 2.5);
  for (int threads : {1, 2, 3}) {
    const HostTensor tensor = computed(y, {.threads = threads});
    for (float element : tensor.values<float>()) ASSERT_EQ(element, 2.5F);
  }
}

}  // namespace
}  // namespace sectionflow
