#include "graph/ops/argmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/basic.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

std::vector<std::int32_t> argmax_of(Shape shape, const std::vector<float>& x) {
  Graph graph;
  const HostTensor y =
      std::move(run_kernels({argmax(constant(graph, HostTensor::of<float>(std::move(shape), x)))}, {})[0]);
  return {y.values<std::int32_t>().begin(), y.values<std::int32_t>().end()};
}

using Indices = std::vector<std::int32_t>;

TEST(Argmax, GivesTheIndexOfTheLargest) {
  EXPECT_EQ(argmax_of({2, 3}, {1, 3, 2, -1, -2, -3}), (Indices{1, 0}));
  EXPECT_EQ(argmax_of({4}, {1, 2, 3, 4}), (Indices{3}));
  EXPECT_EQ(argmax_of({2, 2, 1}, {5, 6, 7, 8}), (Indices{0, 0, 0, 0}));
}

TEST(Argmax, GivesTheFirstOfSeveral) {
  EXPECT_EQ(argmax_of({3, 4}, {1, 2, 2, 2, 0, 0, 0, 0, -0.0F, 0.0F, -1, 0.0F}), (Indices{1, 0, 0}));
  EXPECT_EQ(argmax_of({2, 2}, {-INFINITY, -INFINITY, INFINITY, INFINITY}), (Indices{0, 0}));
}

TEST(Argmax, TakesTheFirstNaNForTheLargest) {
  EXPECT_EQ(argmax_of({4, 3}, {1, NAN, 2, NAN, 3, NAN, INFINITY, 1, NAN, 1, NAN, NAN}), (Indices{1, 0, 2, 1}));
}

TEST(Argmax, TakesNoRows) {
  EXPECT_EQ(argmax_of({0, 3}, {}), Indices{});
}

TEST(Argmax, GivesTheSameOnEveryThreadCount) {
  constexpr std::int64_t kRows = 5003, kClasses = 11;
  HostTensor content(Dtype::f32, {kRows, kClasses});
  for (std::int64_t n = 0; n < kRows; ++n)
    content.values<float>()[static_cast<std::size_t>(n * kClasses + n % kClasses)] = 1;
  Graph graph;
  const Value y = argmax(constant(graph, std::move(content)));
  for (int threads : {1, 2, 3}) {
    const HostTensor result = std::move(run_kernels({y}, {}, {.threads = threads})[0]);
    for (std::int32_t n = 0; std::int32_t index : result.values<std::int32_t>()) ASSERT_EQ(index, n++ % kClasses);
  }
}

}  // namespace
}  // namespace sectionflow
