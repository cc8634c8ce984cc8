// What a refused program is told that it needs, where tensors are offloaded as the budgets want it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "fit/insert_swaps.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Tensors that wait in turn, which the host can hold all or two of.
struct Waiting {
  Graph graph;
  Value x = placeholder(graph, "x", {100, 100});
  Value sum;

  Waiting() {
    std::vector<Value> waiting{tanh(x)};
    for (int i = 1; i < 6; ++i) waiting.push_back(tanh(waiting.back() * 1.5F));
    Value z = sigmoid(waiting.back());
    for (auto value = waiting.rbegin(); value != waiting.rend(); ++value) z = tanh(z * *value);
    sum = reduce_sum(z);
  }

  /// What a run in so much memory is refused with, if it is.
  std::optional<BudgetError> refusal(std::size_t device, std::size_t host) {
    Session session(graph, {.device_memory = device, .host_memory = host, .threads = 1});
    insert_swaps(session);
    session.initialize();
    try {
      session.run(sum, {{x, HostTensor(Dtype::f32, {100, 100})}});
    } catch (const BudgetError& error) {
      return error;
    }
    return std::nullopt;
  }
};

TEST(ToldMinimum, IsExactWhereHostMemoryDoesNotDecide) {
  Waiting w;
  constexpr std::size_t kPlenty = 1 << 30;
  const auto refused = w.refusal(1, kPlenty);
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(refused->what(), AllOf(HasSubstr("minimum: device_memory of "), Not(HasSubstr("at least"))));
  EXPECT_FALSE(w.refusal(refused->minimum_bytes, kPlenty).has_value());
  EXPECT_TRUE(w.refusal(refused->minimum_bytes - 1, kPlenty).has_value());
}

TEST(ToldMinimum, IsNotClaimedToBeExactWhereHostMemoryDecides) {
  Waiting w;
  const auto refused = w.refusal(1, 81920);
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(refused->what(), HasSubstr("minimum: device_memory of at least "));
}

}  // namespace
}  // namespace sectionflow
