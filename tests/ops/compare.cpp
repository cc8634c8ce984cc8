#include "graph/ops/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/basic.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

template <class T>
void expect_equal_gives(const std::vector<T>& a, const std::vector<T>& b, const std::vector<bool>& wanted) {
  constexpr int kTimes = 41;  // vector body and scalar tail both see each pair
  HostTensor left(dtype_of<T>, {kTimes, static_cast<std::int64_t>(a.size())}), right = left.clone();
  HostTensor result(Dtype::boolean, left.shape());
  for (std::size_t i = 0; i < a.size() * kTimes; ++i) {
    left.values<T>()[i] = a[i % a.size()];
    right.values<T>()[i] = b[i % a.size()];
    result.values<bool>()[i] = wanted[i % a.size()];
  }
  Graph graph;
  const Value y = equal(constant(graph, std::move(left)), constant(graph, std::move(right)));
  EXPECT_TRUE(same_bits(run_kernels({y}, {})[0], result)) << dtype_name(dtype_of<T>);
}

TEST(Equal, ComparesEveryDtype) {
  expect_equal_gives<double>({1, 1}, {1, 1 + 0x1p-52}, {true, false});
  expect_equal_gives<std::int32_t>({1, -1, 5}, {1, 1, 5}, {true, false, true});
  expect_equal_gives<std::int64_t>({std::int64_t{1} << 32, 7}, {0, 7}, {false, true});
  expect_equal_gives<std::uint8_t>({255, 1}, {255, 0}, {true, false});
  expect_equal_gives<bool>({true, false, true}, {true, false, false}, {true, true, false});
}

TEST(Equal, ComparesFloatsAsIeee) {
  expect_equal_gives<float>({1, 0.0F, NAN, INFINITY, INFINITY}, {1, -0.0F, NAN, INFINITY, -INFINITY},
                            {true, true, false, true, false});
}

TEST(Equal, TakesEmptyTensorsAndScalars) {
  Graph graph;
  const Value none = fill(graph, {0}, 1), one = fill(graph, {}, 1);
  const auto results = run_kernels({equal(none, none), equal(one, one)}, {});
  EXPECT_EQ(results[0].type(), (TensorType{Dtype::boolean, {0}}));
  EXPECT_TRUE(results[1].item<bool>());
}

TEST(Equal, GivesTheSameOnEveryThreadCount) {
  HostTensor content(Dtype::i32, {50021});
  for (int i = 0; std::int32_t & element : content.values<std::int32_t>()) element = i++ % 3;
  Graph graph;
  const Value y = equal(constant(graph, std::move(content)), fill(graph, {50021}, 1, Dtype::i32));
  for (int threads : {1, 2, 3}) {
    const HostTensor result = std::move(run_kernels({y}, {}, {.threads = threads})[0]);
    for (std::size_t i = 0; bool is_equal : result.values<bool>()) ASSERT_EQ(is_equal, i++ % 3 == 1);
  }
}

}  // namespace
}  // namespace sectionflow
