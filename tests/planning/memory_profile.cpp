#include "planning/memory_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/split_mix.h"
#include "planning/peak_tree.h"
#include "planning/slot_lists.h"

namespace sectionflow::planning {
namespace {

constexpr std::int64_t kFewUnits = 1000, kManyUnits = std::int64_t{1} << 52;

/// Two ascending slots of `num_slots`.
std::pair<int, int> stretch_of(SplitMix& random, int num_slots) {
  const int a = random.below(num_slots), b = random.below(num_slots);
  return std::minmax(a, b);
}

template <class Number>
void expect_tree_as_a_row(int size) {
  SplitMix random(static_cast<std::uint64_t>(size));
  PeakTree<Number> tree(size);
  std::vector<Number> row(static_cast<std::size_t>(size), 0);
  for (int turn = 0; turn < 300; ++turn) {
    const auto [first, last] = stretch_of(random, size);
    const auto number = static_cast<Number>(random.below(2000) - 1000);
    tree.add(first, last, number);
    for (int slot = first; slot <= last; ++slot) row[static_cast<std::size_t>(slot)] += number;
    ASSERT_EQ(tree.peak(), *std::ranges::max_element(row)) << size << " numbers, turn " << turn;
    ASSERT_EQ(tree.peak_at(), std::ranges::max_element(row) - row.begin()) << size << " numbers, turn " << turn;
    const auto [from, to] = stretch_of(random, size);
    ASSERT_EQ(tree.most(from, to), *std::max_element(row.begin() + from, row.begin() + to + 1)) << from << " .. " << to;
  }
}

TEST(PeakTree, FindsTheLargestOfAnyStretch) {
  for (const int size : {1, 2, 8, 16, 32, 256, 512, 4096, 8192}) {
    expect_tree_as_a_row<std::int32_t>(size);
    expect_tree_as_a_row<std::int64_t>(size);
  }
}

TEST(MemoryProfile, TellsThePeakBeforeAndBehindChangesThatMayBeUndone) {
  constexpr int kSlots = 128;
  for (const std::int64_t most : {kFewUnits, kManyUnits}) {
    SplitMix random(7);
    MemoryProfile profile(kSlots, most);
    std::vector<std::int64_t> row(kSlots, 0);
    int exact = 0;
    for (int turn = 0; turn < 500; ++turn) {
      const std::vector<std::int64_t> before = row;
      // More at once than are sorted by counting, now and then.
      for (int left = 1 + random.below(turn % 10 == 0 ? 40 : 6); left > 0; --left) {
        const auto [first, last] = stretch_of(random, kSlots);
        const std::int64_t units = most / 1000 * (random.below(3) - 1);
        profile.add(first, last, units);
        for (int slot = first; slot <= last; ++slot) row[static_cast<std::size_t>(slot)] += units;
      }
      const std::int64_t peak = *std::ranges::max_element(row), least = profile.least_peak();
      std::int64_t raised = 0;
      for (std::size_t slot = 0; slot < row.size(); ++slot) {
        if (row[slot] > before[slot]) raised = std::max(raised, row[slot]);
      }
      ASSERT_EQ(least, raised) << "turn " << turn;
      exact += least == peak ? 1 : 0;
      const bool is_undone = random.below(2) == 0;
      if (!is_undone || random.below(2) == 0) {
        ASSERT_EQ(profile.peak(), peak) << "turn " << turn;
        ASSERT_EQ(profile.peak_slot(), std::ranges::max_element(row) - row.begin()) << "turn " << turn;
      }
      if (is_undone) {
        profile.undo();
        row = before;
      } else {
        profile.commit();
      }
      ASSERT_EQ(std::as_const(profile).peak(), *std::ranges::max_element(row)) << "turn " << turn;
    }
    EXPECT_GT(exact, 50);
  }
}

TEST(SlotLists, AreAsSortedLists) {
  constexpr int kLists = 5, kEnd = 1000;
  SplitMix random(3);
  SlotLists lists;
  lists.assign(kLists, kEnd);
  std::vector<std::vector<int>> plain(kLists);
  std::size_t longest = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    const int list = random.below(kLists), slot = random.below(kEnd);
    std::vector<int>& its = plain[static_cast<std::size_t>(list)];
    const auto place = std::ranges::lower_bound(its, slot);
    const int before = place == its.begin() ? -1 : place[-1];
    const bool is_there = place != its.end() && *place == slot;
    const auto around = lists.around(list, slot);
    ASSERT_EQ(around.before, before);
    ASSERT_EQ(around.after, place == its.end() ? kEnd : *place);
    ASSERT_EQ(lists.last_below(list, slot), before);
    if (is_there) {
      ASSERT_EQ(lists.around_own(list, slot).before, before);
      ASSERT_EQ(lists.around_own(list, slot).after, place + 1 == its.end() ? kEnd : place[1]);
      ASSERT_EQ(lists.last_below_but(list, slot + 1, slot), before);
      lists.erase(list, slot);
      its.erase(place);
    } else {
      // One list grows long, the others stay short.
      if (list > 0 && its.size() >= 9) {
        lists.erase(list, its.front());
        its.erase(its.begin());
      }
      lists.insert(list, slot);
      its.insert(std::ranges::lower_bound(its, slot), slot);
    }
    ASSERT_TRUE(std::ranges::equal(lists[list], its)) << "turn " << turn;
    ASSERT_EQ(lists.size(list), static_cast<int>(its.size()));
    longest = std::max(longest, its.size());
  }
  EXPECT_GT(longest, 200);
}

}  // namespace
}  // namespace sectionflow::planning
