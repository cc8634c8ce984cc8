// Placements that are kept for the next one who asks.

#include "schedule/placement_memory.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace sectionflow {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 20;

PlacementProblem random_problem(std::mt19937& random, int num_blocks) {
  PlacementProblem problem{.num_columns = num_blocks, .blocks = {}, .fixed = {}};
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<std::uint32_t>(bound)); };
  for (int i = 0; i < num_blocks; ++i) {
    const int first = below(num_blocks);
    problem.blocks.push_back({.size = 1 + below(9), .first = first, .last = first + below(num_blocks - first)});
  }
  return problem;
}

BlockOffsets placement_of(const PlacementProblem& problem, std::int64_t peak) {
  return {.offsets = std::vector<std::int64_t>(problem.blocks.size(), peak), .peak = peak};
}

TEST(PlacementMemory, GivesBackWhatWasKeptForEqualArgumentsAlone) {
  std::mt19937 random(1);
  const PlacementProblem problem = random_problem(random, 20);
  PlacementMemory memory(kPlenty);
  EXPECT_FALSE(memory.find(problem, 3));
  memory.keep(problem, 3, placement_of(problem, 7));
  const auto found = memory.find(problem, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->peak, 7);
  EXPECT_EQ(found->offsets, placement_of(problem, 7).offsets);

  EXPECT_FALSE(memory.find(problem, 4));
  PlacementProblem other = problem;
  ++other.num_columns;
  EXPECT_FALSE(memory.find(other, 3));
  for (std::size_t i = 0; i < problem.blocks.size(); ++i) {
    other = problem;
    ++other.blocks[i].size;
    EXPECT_FALSE(memory.find(other, 3)) << i;
  }
  // The same numbers, but for what they stand for.
  other = problem;
  other.fixed.push_back({.block = other.blocks.back(), .offset = 0});
  other.blocks.pop_back();
  EXPECT_FALSE(memory.find(other, 3));
}

TEST(PlacementMemory, ForgetsWhatWasUsedLongestAgoAndNeverTakesMoreThanItMay) {
  std::mt19937 random(2);
  std::vector<PlacementProblem> problems;
  for (int i = 0; i < 40; ++i) problems.push_back(random_problem(random, 50));
  constexpr std::size_t kMost = 16 << 10;
  PlacementMemory memory(kMost);
  for (const PlacementProblem& problem : problems) {
    memory.keep(problem, 0, placement_of(problem, 1));
    EXPECT_LE(memory.bytes(), kMost);
    // Whoever is asked for all the time stays.
    EXPECT_TRUE(memory.find(problems[0], 0));
    EXPECT_TRUE(memory.find(problem, 0));
  }
  EXPECT_FALSE(memory.find(problems[1], 0));
  EXPECT_TRUE(memory.find(problems[38], 0));
}

TEST(PlacementMemory, LeavesOutWhatIsLargerThanAllOfIt) {
  std::mt19937 random(3);
  const PlacementProblem large = random_problem(random, 1000), small = random_problem(random, 5);
  PlacementMemory memory(4 << 10);
  memory.keep(small, 0, placement_of(small, 1));
  memory.keep(large, 0, placement_of(large, 1));
  EXPECT_FALSE(memory.find(large, 0));
  EXPECT_TRUE(memory.find(small, 0));
}

TEST(PlacementMemory, IsAskedByManyThreadsAtOnce) {
  std::mt19937 random(4);
  std::vector<PlacementProblem> problems;
  for (int i = 0; i < 30; ++i) problems.push_back(random_problem(random, 30));
  PlacementMemory memory(8 << 10);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 own(static_cast<std::uint32_t>(t));
      for (int round = 0; round < 2000; ++round) {
        const std::size_t i = own() % problems.size();
        const auto peak = static_cast<std::int64_t>(i);
        if (const auto found = memory.find(problems[i], peak)) {
          wrong[t] += found->peak != peak;
        } else {
          memory.keep(problems[i], peak, placement_of(problems[i], peak));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  EXPECT_LE(memory.bytes(), std::size_t{8 << 10});
}

TEST(PlacementMemory, ASecondSearchForTheSameGivesTheSamePlacement) {
  std::mt19937 random(5);
  const PlacementProblem problem = random_problem(random, 120);
  const BlockOffsets first = search_placement(problem, 0), again = search_placement(problem, 0);
  EXPECT_EQ(again.offsets, first.offsets);
  EXPECT_EQ(again.peak, first.peak);
}

}  // namespace
}  // namespace sectionflow
