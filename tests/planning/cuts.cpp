#include "planning/cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/error.h"

namespace sectionflow::planning {
namespace {

/// A chain with skips: every operation reads the one before, and some an earlier one.
CutProblem random_problem(std::uint32_t seed) {
  std::mt19937 words(seed);
  const auto drawn = [&](int first, int last) {
    return first + static_cast<int>(words() % static_cast<std::uint32_t>(last - first + 1));
  };
  CutProblem problem;
  const int num_places = drawn(2, 9);
  problem.inputs.resize(static_cast<std::size_t>(num_places));
  for (int place = 0; place < num_places; ++place) {
    problem.forward_bytes.push_back(drawn(0, 20));
    problem.gradient_bytes.push_back(drawn(0, 20));
    problem.forward_seconds.push_back(drawn(1, 9));
    if (place > 0) problem.inputs[static_cast<std::size_t>(place)].push_back(place - 1);
    PlacedValue value{.made = place, .last_use = std::min(place + 1, num_places - 1), .bytes = drawn(1, 30)};
    if (drawn(0, 3) == 0) value.last_use = drawn(value.last_use, num_places - 1);
    if (drawn(0, 3) > 0) value.first_gradient = std::min(value.last_use, place + drawn(0, 1));
    if (value.last_use > place) problem.inputs[static_cast<std::size_t>(value.last_use)].push_back(place);
    problem.values.push_back(value);
  }
  return problem;
}

struct Cost {
  std::int64_t peak = 0;
  double seconds = 0;
};

/// What a cut takes, section by section and value by value.
Cost cost_of(const CutProblem& problem, const Borders& borders) {
  std::vector<int> ends = {0};
  ends.insert(ends.end(), borders.begin(), borders.end());
  ends.push_back(problem.num_places());
  Cost cost;
  for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
    const bool is_last = k + 2 == ends.size();
    std::int64_t kept = 0, leaving = 0;
    for (const PlacedValue& value : problem.values) {
      bool crosses_before = false;
      for (std::size_t i = 1; i <= k; ++i) crosses_before = crosses_before || value.crosses(ends[i]);
      if (crosses_before) kept += value.bytes;
      if (!is_last && value.made >= ends[k] && value.crosses(ends[k + 1])) leaving += value.bytes;
    }
    std::vector<bool> wanted(problem.inputs.size(), false), kept_there(problem.inputs.size(), false);
    for (const PlacedValue& value : problem.values) {
      const auto made = static_cast<std::size_t>(value.made);
      if (value.crosses(ends[k + 1])) kept_there[made] = true;
      wanted[made] = wanted[made] || value.first_gradient >= 0;
    }
    for (int place = ends[k + 1] - 1; place >= ends[k]; --place) {
      const auto at = static_cast<std::size_t>(place);
      std::int64_t forward = kept + leaving + problem.forward_bytes[at], gradient = kept + problem.gradient_bytes[at];
      for (const PlacedValue& value : problem.values) {
        if (value.first_gradient < 0 || value.made < ends[k] || value.made > place) continue;
        if (value.first_gradient < ends[k + 1]) forward += value.bytes;
        if (value.first_gradient <= place) gradient += value.bytes;
      }
      const bool is_again = wanted[at] && !kept_there[at];
      cost.peak = std::max(cost.peak, is_last || is_again ? std::max(forward, gradient) : gradient);
      if (is_last || !is_again) continue;
      cost.seconds += problem.forward_seconds[at];
      for (int input : problem.inputs[at]) wanted[static_cast<std::size_t>(input)] = true;
    }
  }
  return cost;
}

/// Every choice among these places.
std::vector<Borders> every_cut(const std::vector<int>& places) {
  std::vector<Borders> cuts;
  for (std::uint32_t chosen = 0; chosen < 1U << places.size(); ++chosen) {
    Borders borders;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if ((chosen >> i & 1U) != 0) borders.push_back(places[i]);
    }
    cuts.push_back(std::move(borders));
  }
  return cuts;
}

TEST(Cutter, FindsTheLowestPeakOfEveryNumberOfSections) {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    const CutProblem problem = random_problem(seed);
    const Cutter cutter(problem);
    const std::vector<Borders> cuts = every_cut(cutter.places());
    for (std::size_t sections = 1; sections <= cutter.places().size() + 1; ++sections) {
      std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
      for (const Borders& cut : cuts) {
        if (cut.size() + 1 == sections) lowest = std::min(lowest, cost_of(problem, cut).peak);
      }
      const Borders found = cutter.lowest_peak(static_cast<int>(sections));
      ASSERT_EQ(found.size() + 1, sections) << "seed " << seed;
      EXPECT_EQ(cost_of(problem, found).peak, lowest) << "seed " << seed << ", " << sections << " sections";
      EXPECT_EQ(cutter.peak_of(found), lowest) << "seed " << seed << ", " << sections << " sections";
    }
  }
}

TEST(Cutter, FindsTheQuickestCutInEveryCapacityAndNoneWhereNoneFits) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    const CutProblem problem = random_problem(seed);
    const Cutter cutter(problem);
    const std::vector<Borders> cuts = every_cut(cutter.places());
    for (std::int64_t capacity = 10; capacity < 200; capacity += 7) {
      double least = std::numeric_limits<double>::infinity();
      for (const Borders& cut : cuts) {
        const Cost cost = cost_of(problem, cut);
        if (cost.peak <= capacity) least = std::min(least, cost.seconds);
      }
      Borders found;
      const bool fits = cutter.quickest(capacity, found);
      ASSERT_EQ(fits, least < std::numeric_limits<double>::infinity()) << "seed " << seed << ", capacity " << capacity;
      if (!fits) continue;
      EXPECT_EQ(cost_of(problem, found).seconds, least) << "seed " << seed << ", capacity " << capacity;
      EXPECT_LE(cost_of(problem, found).peak, capacity) << "seed " << seed << ", capacity " << capacity;
    }
  }
}

TEST(Cutter, PlacesBordersWhereLittleCrosses) {
  // Three blocks of a wide middle and a narrow end.
  CutProblem problem;
  for (int place = 0; place < 9; ++place) {
    problem.forward_bytes.push_back(0);
    problem.gradient_bytes.push_back(0);
    problem.forward_seconds.push_back(1);
    problem.inputs.emplace_back();
    problem.values.push_back(
        {.made = place, .last_use = std::min(place + 1, 8), .first_gradient = place, .bytes = place % 3 == 2 ? 1 : 10});
  }
  const Cutter cutter(problem);
  EXPECT_EQ(cutter.places(), (std::vector<int>{1, 3, 6, 8}));
  EXPECT_EQ(cutter.lowest_peak(3), (Borders{3, 6}));
}

TEST(Cutter, EqualPartsDifferByOneOperationAtMost) {
  EXPECT_EQ(equal_parts(9, 3), (Borders{3, 6}));
  EXPECT_EQ(equal_parts(5, 5), (Borders{1, 2, 3, 4}));
  EXPECT_EQ(equal_parts(7, 1), Borders{});
}

TEST(Cutter, LongRowsAreCutToo) {
  CutProblem problem;
  for (int place = 0; place < 3000; ++place) {
    problem.forward_bytes.push_back(1);
    problem.gradient_bytes.push_back(1);
    problem.forward_seconds.push_back(1);
    problem.inputs.emplace_back();
    problem.values.push_back(
        {.made = place, .last_use = std::min(place + 1, 2999), .first_gradient = place, .bytes = 1});
  }
  const Cutter cutter(problem);
  // The square root of the length, about.
  const std::int64_t lowest = cutter.peak_of(cutter.lowest_peak());
  EXPECT_LT(lowest, 150);
  EXPECT_LT(cutter.peak_of(cutter.lowest_peak(40)), 150);
}

}  // namespace
}  // namespace sectionflow::planning
