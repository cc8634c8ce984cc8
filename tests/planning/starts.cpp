// Plans that a search begins with, as whoever calls it may make them.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "planning/evaluate.h"
#include "planning/search.h"

namespace sectionflow::planning {
namespace {

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
