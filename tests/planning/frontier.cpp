#include "planning/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "planning/frontier_cache.h"
#include "planning/generate.h"
#include "planning/lower_bound.h"
#include "planning/search.h"

namespace sectionflow::planning {
namespace {

Problem transformer() {
  return generate_gpt({.layers = 3}).problem;
}

TEST(Frontier, HasAPlanWithinEachBudgetAndNoneIsSlowerThanTheOneBelow) {
  const Problem problem = transformer();
  Frontier frontier(problem, {.num_rungs = 12, .effort = 400'000});
  EXPECT_EQ(frontier.budget_of(0), largest_working_set(problem).bytes);
  EXPECT_EQ(frontier.budget_of(11), default_peak(problem));
  double below = std::numeric_limits<double>::infinity();
  int found = 0;
  for (int rung = 0; rung < frontier.num_rungs(); ++rung) {
    const Frontier::Rung& here = frontier.rung(rung);
    EXPECT_EQ(here.budget, frontier.budget_of(rung));
    if (!here.plan) {
      EXPECT_EQ(found, 0) << "rung " << rung << " has no plan, one below has";
      continue;
    }
    ++found;
    const Evaluation evaluation = evaluate(problem, *here.plan, {.budget = here.budget});
    EXPECT_TRUE(evaluation.ok) << evaluation.fault;
    EXPECT_EQ(evaluation.cost, here.evaluation.cost);
    EXPECT_LE(evaluation.cost, below);
    below = evaluation.cost;
  }
  EXPECT_GT(found, 8);
  EXPECT_EQ(below, default_cost(problem));
}

TEST(Frontier, ARungIsTheSameInWhateverOrderTheyAreAskedFor) {
  const Problem problem = transformer();
  Frontier up(problem, {.num_rungs = 8, .effort = 100'000}), at_once(problem, {.num_rungs = 8, .effort = 100'000});
  at_once.rung(6);
  for (int rung = 0; rung <= 6; ++rung) {
    ASSERT_EQ(up.rung(rung).plan.has_value(), at_once.rung(rung).plan.has_value());
    if (up.rung(rung).plan) {
      EXPECT_EQ(up.rung(rung).plan->steps, at_once.rung(rung).plan->steps);
    }
  }
}

TEST(Frontier, OfARungIsAsQuickAsASearchForItAndAsAllBelow) {
  const Problem problem = transformer();
  constexpr std::int64_t kEffort = 400'000, kRungs = 12;
  Frontier frontier(problem, {.num_rungs = kRungs, .effort = kEffort}),
      one_by_one(problem, {.num_rungs = kRungs, .effort = kEffort});
  for (int rung = kRungs - 1; rung >= 0; --rung) {
    const std::int64_t effort = kEffort / kRungs * 2 * (kRungs - rung) / kRungs;
    const SearchResult alone =
        search_plan(problem, {.budget = frontier.budget_of(rung), .effort = effort, .looks = 100 * effort});
    if (!alone.plan) continue;
    for (int above = rung; above < kRungs; ++above) {
      ASSERT_TRUE(frontier.rung(above).plan);
      EXPECT_LE(frontier.rung(above).evaluation.seconds, alone.evaluation.seconds * (1 + 1e-12))
          << above << ", " << rung;
    }
  }
  EXPECT_EQ(one_by_one.known(kRungs - 1), nullptr);
  EXPECT_EQ(one_by_one.rung(kRungs - 1).plan->steps, frontier.rung(kRungs - 1).plan->steps);
  EXPECT_NE(one_by_one.known(kRungs - 1), nullptr);
}

TEST(Frontier, TheLowestRungWithAPlanIsFoundByHalving) {
  const Problem problem = transformer();
  constexpr int kRungs = 128, kHalvings = 7;
  int searches = 0;  // of walks alone, behind each of which it is told how far it is
  Frontier frontier(problem, {.num_rungs = kRungs, .effort = kRungs, .progress = [&](int) { ++searches; }});
  EXPECT_FALSE(frontier.rung(0).plan);
  frontier.rung(1);
  EXPECT_LE(searches, 1 + kHalvings);
  int lowest = 0;
  while (lowest < kRungs && !frontier.rung(lowest).plan) ++lowest;
  ASSERT_LT(lowest, kRungs);
  EXPECT_GT(lowest, kHalvings) << "as quick one after the other";
  for (const Frontier::Rung& rung : {frontier.rung(lowest), frontier.rung(lowest - 1)}) {
    const bool has_plan = search_plan(problem, {.budget = rung.budget, .effort = 1, .looks = 100}).plan.has_value();
    EXPECT_EQ(has_plan, rung.plan.has_value());
  }
}

TEST(Frontier, SearchesAreAskedBetweenWalksAndWithinEveryRound) {
  const Problem problem = transformer();
  struct Ended {};
  std::int64_t asked = 0, moves = 0, last = 0;  // `last`: the question that ends it
  SearchOptions options{.budget = default_peak(problem) / 10 * 6, .effort = 1};
  options.check = [&] {
    if (++asked == last) throw Ended();
  };
  options.progress = [&](const SearchProgress& progress) { moves = progress.moves; };
  (void)search_plan(problem, options);
  const std::int64_t of_walks = asked;
  EXPECT_EQ(moves, 0);
  EXPECT_GT(of_walks, 3);
  options.effort = 150'000;
  asked = 0;
  (void)search_plan(problem, options);
  constexpr std::int64_t kMovesBetween = 1000;
  EXPECT_GT(moves, 50'000);
  EXPECT_GT(asked - of_walks, moves / kMovesBetween);
  for (last = 1; last <= of_walks + 100; last += 40) {
    asked = 0;
    EXPECT_THROW((void)search_plan(problem, options), Ended);
    EXPECT_EQ(asked, last);
  }
}

TEST(Frontier, IsTheSameBehindAQuestionThatHasEndedIt) {
  const Problem problem = transformer();
  struct Ended {};
  int left = 1 << 30;
  FrontierOptions options{.num_rungs = 8, .effort = 100'000};
  Frontier undisturbed(problem, options);
  options.check = [&] {
    if (--left == 0) throw Ended();
  };
  Frontier ended(problem, options);
  left = 50;
  EXPECT_THROW((void)ended.rung(6), Ended);
  const Frontier::Rung &whole = undisturbed.rung(6), &again = ended.rung(6);
  ASSERT_TRUE(whole.plan && again.plan);
  EXPECT_EQ(whole.plan->steps, again.plan->steps);
  int rung = 1, manner = 0;
  for (; !undisturbed.with_slack(rung, manner).plan; rung += manner == 0 ? 1 : 0) {
    manner = (manner + 1) % Frontier::kManners;
    ASSERT_LT(rung, options.num_rungs - 1);
  }
  int ended_so_often = 0;
  for (bool is_done = false; !is_done;) {
    left = 1 << (3 * ended_so_often);
    try {
      (void)ended.with_slack(rung, manner);
      is_done = true;
    } catch (const Ended&) {
      ++ended_so_often;
    }
  }
  EXPECT_GE(ended_so_often, 2);
  const Frontier::Rung &whole_slack = undisturbed.with_slack(rung, manner),
                       &slack_again = ended.with_slack(rung, manner);
  ASSERT_TRUE(whole_slack.plan && slack_again.plan);
  EXPECT_EQ(whole_slack.plan->steps, slack_again.plan->steps);
}

TEST(Frontier, ABoundIsAskedForEachOperationThatIsExamined) {
  const Problem problem = transformer();
  int asked = 0;
  const std::int64_t budget = default_peak(problem) / 10 * 6;
  const LowerBound bound = lower_bound(problem, budget, {.check = [&] { ++asked; }});
  EXPECT_GE(asked, static_cast<int>(problem.operations.size()));
  EXPECT_EQ(bound.extra_seconds, lower_bound(problem, budget).extra_seconds);
}

TEST(Frontier, PlansWithSlackFitTheirRungAndAreNoQuickerThanItsOwn) {
  const Problem problem = transformer();
  const FrontierOptions options{.num_rungs = 12, .effort = 400'000};
  Frontier frontier(problem, options), alone(problem, options);
  int found = 0;
  for (const int rung : {4, 7, 2}) {
    for (int manner = 0; manner < Frontier::kManners; ++manner) {
      const Frontier::Rung with_slack = frontier.with_slack(rung, manner);
      EXPECT_EQ(with_slack.budget, frontier.budget_of(rung));
      if (!with_slack.plan) continue;
      ++found;
      const Evaluation evaluation = evaluate(problem, *with_slack.plan, {.budget = with_slack.budget});
      EXPECT_TRUE(evaluation.ok) << evaluation.fault;
      EXPECT_EQ(evaluation.cost, with_slack.evaluation.cost);
      EXPECT_GE(evaluation.cost, frontier.rung(rung).evaluation.cost);
    }
  }
  EXPECT_GT(found, 4);
  const Frontier::Rung first = alone.with_slack(2, 1), later = frontier.with_slack(2, 1);
  ASSERT_EQ(first.plan.has_value(), later.plan.has_value());
  if (first.plan) {
    EXPECT_EQ(first.plan->steps, later.plan->steps);
  }
  EXPECT_FALSE(frontier.with_slack(11, 0).plan) << "memory is not short there";
}

TEST(Frontier, TellsTheLastRungWithinABudget) {
  const Problem problem = transformer();
  const Frontier frontier(problem, {.num_rungs = 8});
  EXPECT_EQ(frontier.last_within(frontier.budget_of(3)), 3);
  EXPECT_EQ(frontier.last_within(frontier.budget_of(3) - 1), 2);
  EXPECT_EQ(frontier.last_within(frontier.budget_of(0) - 1), -1);
  EXPECT_EQ(frontier.last_within(default_peak(problem)), 7);
}

TEST(Frontier, RefusesALadderThatIsNone) {
  const Problem problem = transformer();
  EXPECT_THROW(Frontier(problem, {.num_rungs = 1}), ArgumentError);
  EXPECT_THROW(Frontier(problem, {.num_rungs = 1001}), ArgumentError);
  EXPECT_THROW(Frontier(problem, {.effort = -1}), ArgumentError);
}

TEST(FrontierCache, HasTheSameFrontierForAnEqualProblemAndHowItIsSearchedFor) {
  const Problem problem = transformer();
  const FrontierOptions options{.num_rungs = 8, .effort = 100'000};
  FrontierCache cache;
  const std::shared_ptr<Frontier> first = cache.of(problem, options);
  (void)first->rung(6);
  Problem equal = problem;
  EXPECT_EQ(cache.of(equal, options), first);
  EXPECT_NE(cache.of(equal, options)->known(6), nullptr);

  FrontierOptions other = options;
  other.order_fixed = true;
  EXPECT_NE(cache.of(problem, other), first);
  EXPECT_NE(cache.of(problem, {.num_rungs = 9, .effort = 100'000}), first);
  EXPECT_NE(cache.of(problem, {.num_rungs = 8, .effort = 100'001}), first);
  equal.operations.front().seconds *= 2;
  EXPECT_NE(cache.of(equal, options), first) << "of another problem";
}

TEST(FrontierCache, TellsAndAsksWhoHasAskedLast) {
  const Problem problem = transformer();
  FrontierCache cache;
  int told_first = 0, told = 0, asked = 0;
  FrontierOptions options{.num_rungs = 8, .effort = 100'000, .progress = [&](int) { ++told_first; }};
  (void)cache.of(problem, options);
  options.progress = [&](int) { ++told; };
  options.check = [&] { ++asked; };
  (void)cache.of(problem, options)->rung(6);
  EXPECT_EQ(told_first, 0);
  EXPECT_GT(told, 0);
  EXPECT_GT(asked, 0);
}

TEST(FrontierCache, OutlivesItsProblemAndForgetsWhatIsOldest) {
  FrontierCache cache;
  std::weak_ptr<Frontier> oldest;
  {
    Problem problem = transformer();
    oldest = cache.of(problem, {.num_rungs = 8, .effort = 100'000});
    problem = {};
  }
  ASSERT_FALSE(oldest.expired());
  EXPECT_TRUE(oldest.lock()->rung(6).plan);
  const Problem problem = transformer();
  for (int rungs = 9; oldest.lock() != nullptr; ++rungs) {
    ASSERT_LT(rungs, 9 + static_cast<int>(FrontierCache::kMost));
    (void)cache.of(problem, {.num_rungs = rungs, .effort = 100'000});
  }
}

}  // namespace
}  // namespace sectionflow::planning
