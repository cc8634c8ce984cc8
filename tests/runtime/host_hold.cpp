#include "runtime/host_hold.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace sectionflow {
namespace {

TEST(HostHolds, AreGrantedBesideWhatProgramsHaveTaken) {
  HostHolds holds(100);
  EXPECT_EQ(holds.hold(101, {}), nullptr);
  auto first = holds.hold(60, {});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(holds.held_bytes(), 60U);
  EXPECT_EQ(holds.hold(41, {}), nullptr);
  const auto second = holds.hold(40, {});
  ASSERT_NE(second, nullptr);
  first.reset();
  EXPECT_EQ(holds.held_bytes(), 40U);
  holds.make_place_for(60);
  EXPECT_EQ(holds.held_bytes(), 40U) << "there is place for both";
  EXPECT_EQ(holds.hold(1, {}), nullptr) << "pages of the pool stay where they have been touched";
}

/// Three holds of 30 bytes of 100, and which of them have been given back.
struct ThreeHolds {
  HostHolds holds{100};
  std::vector<int> given_back;
  std::shared_ptr<HostHold> first = holds.hold(30, [this] { first.reset(), given_back.push_back(1); });
  std::shared_ptr<HostHold> second = holds.hold(30, [this] { second.reset(), given_back.push_back(2); });
  std::shared_ptr<HostHold> third = holds.hold(30, [this] { third.reset(), given_back.push_back(3); });
};

TEST(HostHolds, AreGivenBackTheOldestFirstWhereAProgramNeedsTheirBytes) {
  ThreeHolds three;
  auto& [holds, given_back, first, second, third] = three;
  holds.make_place_for(40);
  EXPECT_EQ(given_back, (std::vector<int>{1}));
  holds.make_place_for(20);
  EXPECT_EQ(given_back, (std::vector<int>{1})) << "a smaller program changes nothing";
  holds.make_place_for(71);
  EXPECT_EQ(given_back, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(holds.held_bytes(), 0U);
  EXPECT_NE(holds.hold(29, {}), nullptr);
}

TEST(HostHolds, WithoutAWayBackStayAndNobodyWaitsForEver) {
  HostHolds holds(100);
  const auto hold = holds.hold(50, {});
  holds.make_place_for(80);
  EXPECT_EQ(holds.held_bytes(), 50U);
}

TEST(HostHolds, KeepBelowTheBudgetWhoeverAsksAtOnce) {
  constexpr std::size_t kBudget = 1000;
  HostHolds holds(kBudget);
  std::atomic<std::size_t> held = 0, most = 0;
  const auto ask = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = 1 + random() % 400;
      auto hold = holds.hold_free(bytes, {});
      if (hold == nullptr) continue;
      const std::size_t now = held += bytes;
      if (now > most) most = now;
      held -= bytes;
      hold.reset();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(ask, seed);
    for (std::size_t peak = 1; peak <= 300; ++peak) holds.make_place_for(peak);
  }
  EXPECT_LE(most, kBudget);
  EXPECT_EQ(holds.held_bytes(), 0U);
}

TEST(HostHolds, ThatAreIdleMakePlaceForOthersTheOldestFirst) {
  ThreeHolds three;
  auto& [holds, given_back, first, second, third] = three;
  EXPECT_EQ(holds.hold(11, {}), nullptr) << "their bytes are being read";
  EXPECT_TRUE(given_back.empty());
  second->is_idle = third->is_idle = true;
  EXPECT_NE(holds.hold(10, {}), nullptr);
  EXPECT_TRUE(given_back.empty()) << "there was place beside all of them";
  const auto fourth = holds.hold(40, {});
  ASSERT_NE(fourth, nullptr);
  EXPECT_EQ(given_back, (std::vector<int>{2}));
  EXPECT_TRUE(holds.has(*first) && holds.has(*third) && holds.has(*fourth));
  EXPECT_FALSE(HostHolds(100).has(*first));
}

}  // namespace
}  // namespace sectionflow
