#include "planning/moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "planning/evaluate.h"
#include "planning/lane_clock.h"
#include "planning/offload.h"
#include "tests/planning/every_plan.h"
#include "tests/planning/simple_evaluator.h"

namespace sectionflow::planning {
namespace {

std::vector<int> given_order(const Problem& problem) {
  std::vector<int> order;
  for (int v = 0; v < static_cast<int>(problem.operations.size()); ++v) order.push_back(v);
  return order;
}

/// Random changes to the given order of a problem, executions and copies.
class Walk {
 public:
  Walk(const Problem& problem, std::uint64_t seed, const Link& link)
      : problem_(problem),
        link_(link),
        flat_(problem, true),
        random_(seed),
        sequence_(flat_, given_order(problem)),
        moves_(flat_, false, default_peak(problem) / 4 * 3, sequence_, random_),
        clock_(flat_, link) {}

  /// True where the change stays.
  bool step() {
    if (moves_.propose() && random_.below(4) > 0) {
      sequence_.peak();
      sequence_.commit();
      return true;
    }
    sequence_.undo();
    return false;
  }

  void expect_plan_as_told() {
    const std::vector<int> order = sequence_.order();
    Sequence fresh(flat_, order);
    ASSERT_EQ(sequence_.peak(), fresh.peak());
    ASSERT_NEAR(sequence_.cost(), fresh.cost(), 1e-9);
    const Plan plan = plan_with_copies(flat_, order);
    ASSERT_EQ(order_with_copies(flat_, plan), order);
    const Limits limits{sequence_.peak(), link_};
    const Evaluation evaluation = evaluate(problem_, plan, limits);
    ASSERT_TRUE(evaluation.ok) << evaluation.fault;
    // An offloaded value is taken not to be written over, even before it has left.
    ASSERT_LE(evaluation.peak, limits.budget);
    ASSERT_NEAR(evaluation.cost, sequence_.cost(), 1e-9);
    const std::optional<SimplePrice> price = SimpleEvaluator(problem_, limits).price(plan);
    ASSERT_TRUE(price.has_value());
    ASSERT_EQ(price->peak, evaluation.peak);
    ASSERT_NEAR(price->seconds, evaluation.seconds, 1e-9);
    ASSERT_NEAR(clock_.seconds(order, limits.budget, sequence_.cost()), evaluation.seconds, 1e-9);
    const double less = evaluation.seconds - 1e-3;
    ASSERT_GT(clock_.seconds(order, limits.budget, sequence_.cost(), less), less);
    copies_ += evaluation.bytes_in > 0 ? 1 : 0;
    waits_ += evaluation.stall_seconds > 1e-9 ? 1 : 0;
    repeats_ += sequence_.repeated().empty() ? 0 : 1;
  }

  int copies() const { return copies_; }
  int waits() const { return waits_; }
  int repeats() const { return repeats_; }

 private:
  const Problem& problem_;
  const Link link_;
  const FlatProblem flat_;
  SplitMix random_;
  Sequence sequence_;
  Moves moves_;
  LaneClock clock_;
  int copies_ = 0, waits_ = 0, repeats_ = 0;
};

constexpr std::uint64_t kMovesSeed = 17;

TEST(Moves, OrdersWithCopiesCostWhatBothEvaluatorsSayOfTheirPlans) {
  SCOPED_TRACE(testing::Message() << "seed " << kMovesSeed);
  RandomProblems random(kMovesSeed);
  int copies = 0, waits = 0, repeats = 0, overwriting = 0;
  for (int i = 0; i < 200; ++i) {
    const Problem problem = random.next({.operations = 12});
    for (const Operation& operation : problem.operations) overwriting += operation.overwrites.empty() ? 0 : 1;
    const Link link{static_cast<double>(random.draw(1, 6)), random.draw(0, 2) * 0.25};
    Walk walk(problem, static_cast<std::uint64_t>(i), link);
    for (int turn = 0; turn < 400; ++turn) {
      if (!walk.step() && turn % 50 > 0) continue;
      ASSERT_NO_FATAL_FAILURE(walk.expect_plan_as_told()) << "problem " << i << ", turn " << turn;
    }
    copies += walk.copies();
    waits += walk.waits();
    repeats += walk.repeats();
  }
  EXPECT_GT(copies, 5000);
  EXPECT_GT(waits, 1000);
  EXPECT_GT(repeats, 5000);
  EXPECT_GT(overwriting, 200);
}

}  // namespace
}  // namespace sectionflow::planning
