// What fit_budget makes of residual blocks, whose kernels write in place, where replays have times of their own and
// where variables are copied besides.

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "fit/explain.h"
#include "graph/layers.h"
#include "sectionflow.h"
#include "sectionflow_ops.h"

namespace sectionflow::testing {
namespace {

/// A training step that is planned and never run, and a profile of random times, the same on every machine, in which
/// some kernels are quicker when they execute again, as what is in a cache may be, and others slower.
class Residual {
 public:
  Residual(std::uint64_t seed, bool swap_variables)
      : session_(build(), {.swap_variables = swap_variables, .threads = 1}) {
    session_.initialize();
    // Of which the names of kernels alone are taken.
    const Profile measured = measure_profile(session_, {loss_}, types(), {.targets = training_}, 1);
    std::mt19937_64 random(seed);
    for (const auto& [kernel, unused] : measured.kernel_seconds) {
      const double seconds = 1e-6 * static_cast<double>(1 + random() % 200);
      profile_.kernel_seconds[kernel] = seconds;
      std::string again = kernel;
      again.insert(again.find(" by "), " again");
      constexpr double factors[] = {0.1, 0.3, 1, 3};
      profile_.kernel_seconds[again] = seconds * factors[random() % 4];
    }
    (void)session_.plan({loss_}, types(), {.targets = training_});
  }

  BudgetFrontier frontier(FitBudgetOptions fit, int num_budgets) {
    fit.effort = 200'000;
    fit.profile = profile_;
    return *explain(session_, {.fit = fit, .num_budgets = num_budgets}).frontier;
  }

 private:
  Graph& build() {
    const Value x = placeholder(graph_, "x", {8, 16, 16, 4});
    const Value labels = placeholder(graph_, "labels", {8}, Dtype::i32);
    {
      const auto section = manager_.new_section();
      Value h = conv2d(x, {.features = 8});
      for (int block = 0; block < 4; ++block) {
        const Value inner = batch_norm(conv2d(h, {.features = 8}), {.relu = true});
        h = relu(h + batch_norm(conv2d(inner, {.features = 8})));
      }
      loss_ = mean(softmax_cross_entropy(dense(reduce_mean(h, {.axes = {1, 2}}), {.features = 10}), labels));
    }
    manager_.add_training_ops(Adam{.learning_rate = 1e-3F}, loss_);
    manager_.prepare_training();
    training_ = manager_.training_operations();
    fed_ = {{x, Shape{8, 16, 16, 4}}, {labels, Shape{8}}};
    return graph_;
  }
  const FeedTypes& types() const { return fed_; }

  Graph graph_;
  GraphSectionManager manager_{graph_};
  Value loss_;
  std::vector<Operation> training_;
  FeedTypes fed_;
  Session session_;
  Profile profile_{.link_out = 2e9, .link_in = 2e9};
};

void expect_falling(const BudgetFrontier& frontier) {
  double before = std::numeric_limits<double>::infinity();
  for (const BudgetPoint& point : frontier.points) {
    SCOPED_TRACE(point.budget_bytes);
    if (!point.fits) continue;
    EXPECT_LE(point.seconds, before);
    EXPECT_GE(point.seconds, point.bound_seconds * (1 - 1e-9));
    before = point.seconds;
  }
  EXPECT_LT(before, std::numeric_limits<double>::infinity());
}

TEST(ResidualFrontier, FallsWhereReplaysHaveTimesOfTheirOwnAndVariablesAreCopied) {
  for (const std::uint64_t seed : {1, 2}) {
    for (const bool swap_variables : {false, true}) {
      SCOPED_TRACE(text_of("seed ", seed, ", swap_variables ", swap_variables));
      expect_falling(Residual(seed, swap_variables).frontier({.may_swap = false}, 24));
    }
  }
}

TEST(ResidualFrontier, IsNowhereBelowTheBoundWhereOperationsWriteInPlaceAndValuesAreOffloaded) {
  const BudgetFrontier frontier = Residual(1, false).frontier({.may_recompute = false}, 6);
  expect_falling(frontier);
  EXPECT_TRUE(frontier.points.front().fits);
  EXPECT_LT(frontier.points.front().bound_seconds, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace sectionflow::testing
