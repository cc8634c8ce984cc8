#include "schedule/ejection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "schedule/skyline.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
constexpr int kColumns = 64;
constexpr std::int64_t kHeight = 1000;

// A full plane, cut into blocks without a gap: the least peak is known.
PlacementProblem cut_plane(std::mt19937_64& random, int cuts) {
  std::vector<FixedBlock> blocks = {{{kHeight, 0, kColumns - 1}, 0}};
  for (int cut = 0; cut < cuts; ++cut) {
    FixedBlock& whole = blocks[random() % blocks.size()];
    FixedBlock rest = whole;
    if (random() % 2 == 0 && whole.block.first < whole.block.last) {
      const int width = whole.block.last - whole.block.first;
      rest.block.first = whole.block.first + 1 + static_cast<int>(random() % width);
      whole.block.last = rest.block.first - 1;
    } else if (whole.block.size > 1) {
      whole.block.size = 1 + static_cast<std::int64_t>(random() % (whole.block.size - 1));
      rest.block.size -= whole.block.size;
      rest.offset += whole.block.size;
    } else {
      continue;
    }
    blocks.push_back(rest);
  }
  std::shuffle(blocks.begin(), blocks.end(), random);
  PlacementProblem problem{.num_columns = kColumns, .blocks = {}, .fixed = {}};
  for (const FixedBlock& block : blocks) problem.blocks.push_back(block.block);
  return problem;
}

template <class Body>
void for_cut_planes(std::uint64_t count, int cuts, Body body) {
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    body(cut_plane(random, cuts));
  }
}

void expect_sound(const PlacementProblem& problem, const BlockOffsets& placement) {
  ASSERT_EQ(placement.offsets.size(), problem.blocks.size());
  std::vector<FixedBlock> all = problem.fixed;
  for (std::size_t i = 0; i < problem.blocks.size(); ++i) all.push_back({problem.blocks[i], placement.offsets[i]});
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_GE(all[i].offset, 0);
    peak = std::max(peak, all[i].offset + all[i].block.size);
    for (std::size_t j = 0; j < i; ++j) {
      const bool share =
          all[i].offset < all[j].offset + all[j].block.size && all[j].offset < all[i].offset + all[i].block.size;
      ASSERT_FALSE(share && all[i].block.overlaps(all[j].block)) << "blocks " << j << " and " << i;
    }
  }
  EXPECT_EQ(placement.peak, peak);
}

BlockOffsets placed_by_skyline(const PlacementProblem& problem) {
  std::vector<int> order(problem.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  return *Skyline(problem).place(order, kAll);
}

TEST(Ejection, HalvesWhatTheSkylineLeavesAbovePlanesWithoutGaps) {
  int lowered = 0;
  for_cut_planes(20, 150, [&](const PlacementProblem& problem) {
    const BlockOffsets from = placed_by_skyline(problem);
    const std::int64_t limit = kHeight + (from.peak - kHeight) / 2;
    Ejection ejection(problem);
    if (const auto lower = ejection.lower(from, limit, 20'000, kAll)) {
      expect_sound(problem, *lower);
      EXPECT_LE(lower->peak, limit);
      ++lowered;
    }
  });
  EXPECT_GE(lowered, 18);
}

TEST(Ejection, BlocksGoBelowAndAboveFixedOnesWhichStay) {
  int lowered = 0;
  for_cut_planes(20, 300, [&](PlacementProblem problem) {
    // In the middle of the height: the skyline leaves what is below them empty.
    for (int i = 0; i < 3; ++i) {
      problem.fixed.push_back({{.size = 50, .first = 20 * i, .last = 20 * i + 9}, kHeight / 2 + 10 * i});
    }
    const BlockOffsets from = placed_by_skyline(problem);
    expect_sound(problem, from);
    const std::int64_t limit = from.peak - (from.peak - kHeight) / 4;
    if (const auto lower = Ejection(problem).lower(from, limit, 20'000, kAll)) {
      expect_sound(problem, *lower);
      EXPECT_LE(lower->peak, limit);
      ++lowered;
    }
  });
  // In the others a block is too high to go below or above a fixed one.
  EXPECT_GE(lowered, 17);
}

TEST(Ejection, WhatCannotBeIsNotFound) {
  const PlacementProblem two{.num_columns = 2, .blocks = {{3, 0, 1}, {4, 1, 1}}, .fixed = {}};
  const BlockOffsets from{.offsets = {0, 3}, .peak = 7};
  Ejection ejection(two);
  EXPECT_FALSE(ejection.lower(from, 6, 10'000, kAll));
  EXPECT_FALSE(ejection.lower(from, 3, 10'000, kAll)) << "a block is higher than the limit";
  EXPECT_EQ(ejection.lower(from, 7, 10'000, kAll)->peak, 7);
  const PlacementProblem below_fixed{.num_columns = 1, .blocks = {{5, 0, 0}}, .fixed = {{{1, 0, 0}, 4}}};
  EXPECT_FALSE(Ejection(below_fixed).lower({.offsets = {5}, .peak = 10}, 9, 10'000, kAll));
}

TEST(Ejection, BlocksFallAsFarAsThoseBelowThemLet) {
  const PlacementProblem problem{.num_columns = 2, .blocks = {{2, 0, 1}, {3, 1, 1}}, .fixed = {{{1, 1, 1}, 2}}};
  const BlockOffsets high{.offsets = {10, 20}, .peak = 23};
  const auto fallen = Ejection(problem).lower(high, 30, 10, kAll);
  ASSERT_TRUE(fallen);
  EXPECT_EQ(fallen->offsets, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(fallen->peak, 6);
  const auto untouched = Ejection(problem).lower(high, 30, 10, 0);
  ASSERT_TRUE(untouched);
  EXPECT_EQ(untouched->offsets, high.offsets) << "there was no work left to fall by";
  EXPECT_EQ(untouched->peak, high.peak);
}

TEST(SearchPlacement, EndsAtOnceWhereNothingCanBeLower) {
  EXPECT_EQ(search_placement({.num_columns = 0, .blocks = {}, .fixed = {}}, -1).peak, 0);
  EXPECT_EQ(search_placement({.num_columns = 1, .blocks = {}, .fixed = {{{1, 0, 0}, 4}}}, 0).peak, 5);
  // A bound below the end of a fixed block is none.
  const PlacementProblem below{.num_columns = 1, .blocks = {{1, 0, 0}}, .fixed = {{{1, 0, 0}, 1000}}};
  EXPECT_EQ(search_placement(below, 2).peak, 1001);
  EXPECT_EQ(search_placement(below, 1001).offsets, search_placement(below, 2).offsets);
}

TEST(SearchPlacement, LargeSizesAreAdded) {
  constexpr std::int64_t kUnit = std::int64_t{1} << 56;
  const PlacementProblem large{
      .num_columns = 4, .blocks = {{33 * kUnit, 0, 1}, {2 * kUnit, 0, 1}}, .fixed = {{{21 * kUnit, 1, 2}, kUnit}}};
  const BlockOffsets placement = search_placement(large, 56 * kUnit);
  expect_sound(large, placement);
  EXPECT_LE(placement.peak, 57 * kUnit);
}

TEST(SearchPlacement, FillsPlanesInWhichOrdersAloneLeaveGaps) {
  double above = 0;
  for_cut_planes(10, 300, [&](const PlacementProblem& problem) {
    const BlockOffsets placement = search_placement(problem, kHeight);
    expect_sound(problem, placement);
    above += static_cast<double>(placement.peak - kHeight) / (10.0 * kHeight);
  });
  // Changes of orders alone end 1.6 % above.
  EXPECT_LE(above, 0.005);
}

TEST(Ejection, EndsWhereMovesOrWorkDo) {
  std::mt19937_64 random(7);
  const PlacementProblem problem = cut_plane(random, 300);
  const BlockOffsets from = placed_by_skyline(problem);
  Ejection few_moves(problem), little_work(problem);
  EXPECT_FALSE(few_moves.lower(from, kHeight, 10, kAll));
  constexpr std::int64_t kWork = 100'000, kMostOfAMove = 100 * 301;
  EXPECT_FALSE(little_work.lower(from, kHeight, kAll, kWork));
  EXPECT_LE(little_work.work(), kWork + kMostOfAMove);
  EXPECT_LT(few_moves.work(), little_work.work());
}

TEST(Ejection, SameArgumentsGiveTheSamePlacement) {
  std::mt19937_64 random(11);
  const PlacementProblem problem = cut_plane(random, 150);
  const BlockOffsets from = placed_by_skyline(problem);
  const std::int64_t limit = kHeight + (from.peak - kHeight) / 2;
  const auto first = Ejection(problem).lower(from, limit, 20'000, kAll);
  const auto second = Ejection(problem).lower(from, limit, 20'000, kAll);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->offsets, second->offsets);
}

}  // namespace
}  // namespace sectionflow
