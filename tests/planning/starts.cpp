// Plans that a search begins with, as whoever calls it may make them.

#include "planning/starts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planning/chain_starts.h"
#include "planning/evaluate.h"
#include "planning/flat_problem.h"
#include "planning/generate.h"
#include "planning/offload.h"
#include "planning/search.h"
#include "planning/sequence.h"

namespace sectionflow::planning {
namespace {

struct Graph {
  std::string name;
  Problem problem;
};

std::vector<Graph> graphs() {
  return {{"gpt", generate_gpt({.layers = 4}).problem},
          {"chain", generate_chain(20, 3).problem},
          {"unet", generate_unet(5, 2).problem},
          {"layered", generate_layered(80, 4).problem}};
}

/// What an order takes, by its plan.
Evaluation evaluation_of(const Problem& problem, const FlatProblem& flat, const std::vector<int>& order) {
  return evaluate(problem, plan_of(flat, order));
}

TEST(Starts, OfEveryWayAreOrdersThatExecuteEverything) {
  for (const auto& [name, problem] : graphs()) {
    SCOPED_TRACE(name);
    const FlatProblem flat(problem);
    std::map<int, std::string> ways;
    const StartOptions options{.budget = default_peak(problem) / 10 * 6, .looks = 20'000'000};
    offer_starts(problem, flat, options, [&](const std::vector<int>& order, int way, const std::string& how) {
      ways.emplace(way, how);
      const Evaluation evaluation = evaluation_of(problem, flat, order);
      EXPECT_TRUE(evaluation.ok) << how << ": " << evaluation.fault;
      EXPECT_EQ(evaluation.peak, Sequence(flat, order).peak()) << how;
    });
    const auto count = [&](const std::string& with) {
      return std::ranges::count_if(ways, [&](const auto& way) { return way.second.starts_with(with); });
    };
    EXPECT_GE(count("evict"), 3) << "as many as are no less than what one operation needs";
    EXPECT_GT(count("smallest cut"), 1);
    const bool is_chain = name == "gpt" || name == "chain";  // elsewhere more than one value is on its way
    EXPECT_EQ(count("chain") > 0, is_chain);
  }
}

TEST(Starts, WhereWalksMayLookAtLittleAreThreeWalksForEachBudget) {
  const Problem problem = generate_gpt({.layers = 4}).problem;
  const FlatProblem flat(problem);
  int walks = 0, cuts = 0;
  offer_starts(problem, flat, {.budget = default_peak(problem) / 2, .looks = 1},
               [&](const std::vector<int>&, int, const std::string& how) {
                 walks += how.starts_with("evict") ? 1 : 0;
                 cuts += how.starts_with("smallest cut") ? 1 : 0;
               });
  EXPECT_GT(walks, 0);
  EXPECT_LE(walks, 12);
  EXPECT_EQ(cuts, 0);
}

TEST(ChainStarts, TakeMoreTimeForLessMemoryAndNoneExecutesWhatNobodyReads) {
  const Problem problem = generate_gpt({.layers = 16}).problem;
  const FlatProblem flat(problem);
  const ChainStarts chain(flat);
  double last = 0;
  for (const int percent : {90, 60, 40, 25}) {
    SCOPED_TRACE(percent);
    const std::vector<int> order = chain.order(default_peak(problem) / 100 * percent);
    ASSERT_FALSE(order.empty());
    const Evaluation evaluation = evaluation_of(problem, flat, order);
    ASSERT_TRUE(evaluation.ok) << evaluation.fault;
    EXPECT_LE(evaluation.peak, default_peak(problem) / 100 * percent);
    EXPECT_GE(evaluation.seconds, last);
    last = evaluation.seconds;
    std::vector<int> times(problem.operations.size(), 0);
    for (const int operation : order) ++times[static_cast<std::size_t>(operation)];
    EXPECT_EQ(times.back(), 1) << "gradients are computed once";
    EXPECT_EQ(std::ranges::count(times, 0), 0);
  }
  EXPECT_LT(last, 1.4 * default_cost(problem)) << "the forward half is executed twice at most, but for a little";
}

TEST(ChainStarts, AreOfProblemsAsLargeAsTheyMayBe) {
  Problem problem = generate_chain(6, 1).problem;
  for (PlannedValue& value : problem.values) value.bytes <<= 38;
  const std::int64_t budget = default_peak(problem) / 10 * 7;
  EXPECT_FALSE(ChainStarts(FlatProblem(problem)).order(default_peak(problem)).empty());
  const SearchResult found = search_plan(problem, {.budget = budget, .effort = 20'000});
  ASSERT_TRUE(found.plan);
  EXPECT_LE(found.evaluation.peak, budget);
}

TEST(ChainStarts, OfWhatIsNoChainAreNone) {
  const Problem problem = generate_layered(80, 4).problem;
  EXPECT_TRUE(ChainStarts(FlatProblem(problem)).order(default_peak(problem)).empty());
}

TEST(SearchPlan, TakesStartsThatCopyOutWhatNeverComesBackAndWhatHasNoBytes) {
  using Kind = PlanStep::Kind;
  for (const std::int64_t bytes : {1, 0}) {
    Problem problem;
    const std::vector<std::vector<int>> inputs = {{}, {0}, {1}, {2}, {0, 3}};
    const std::vector<std::int64_t> sizes = {10, bytes, 15, 1, 1};
    for (int i = 0; i < 5; ++i) {
      problem.operations.push_back({"f", 1, 0, inputs[static_cast<std::size_t>(i)], {i}});
      problem.operations.back().repeatable = true;
      problem.values.push_back({"v", sizes[static_cast<std::size_t>(i)], i});
      problem.values.back().movable = true;
    }
    problem.values.back().needed_at_end = true;
    const Plan start{{{Kind::compute, 0},
                      {Kind::compute, 1},
                      {Kind::out, 1},
                      {Kind::drop, 0},
                      {Kind::compute, 2},
                      {Kind::drop, 1},
                      {Kind::compute, 3},
                      {Kind::drop, 2},
                      {Kind::compute, 0},
                      {Kind::compute, 4},
                      {Kind::drop, 0},
                      {Kind::drop, 3}}};
    const Link link{1e6, 3.0};
    ASSERT_TRUE(evaluate(problem, start, {17, link}).ok);
    const SearchResult found = search_plan(problem, {.budget = 17, .link = link, .starts = {start}});
    ASSERT_TRUE(found.plan);
    EXPECT_LE(found.evaluation.seconds, 6);
  }
}

}  // namespace
}  // namespace sectionflow::planning
