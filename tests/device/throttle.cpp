#include "device/throttle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(LinkClock, BytesTakeTheirTime) {
  LinkClock clock(1e6);
  EXPECT_EQ(clock.finish(500, 1000), 500 + kSecond / 1000);
}

TEST(LinkClock, BytesQueueBehindThoseBefore) {
  LinkClock clock(1e6);
  EXPECT_EQ(clock.finish(0, 1000), kSecond / 1000);
  EXPECT_EQ(clock.finish(0, 500'000), kSecond / 1000 + kSecond / 2);
  EXPECT_EQ(clock.finish(77, 0), kSecond / 1000 + kSecond / 2);
}

TEST(LinkClock, AnIdleLinkSavesUpTheBurstAndNoMore) {
  LinkClock clock(1e6);
  EXPECT_EQ(clock.finish(0, 1000), 1'000'000);
  const std::int64_t passed = 10 * kSecond - LinkClock::kBurst + 1'000'000;
  EXPECT_EQ(clock.finish(10 * kSecond, 1000), passed);
  EXPECT_EQ(clock.finish(passed + LinkClock::kBurst / 2, 1000), passed + 1'000'000)
      << "a pause within the burst is none";
}

TEST(LinkClock, ShortPausesSaveUpNoMoreThanLongOnes) {
  LinkClock clock(1e9);
  std::int64_t now = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(clock.finish(now, 10), now - LinkClock::kBurst);
    now += LinkClock::kBurst - 1000;
  }
  EXPECT_EQ(clock.finish(now, 1'000'000), now - LinkClock::kBurst + 1'000'000);
}

TEST(LinkClock, SleepingTooLongLosesNothing) {
  LinkClock clock(1e6);
  std::int64_t now = 0;
  for (int i = 1; i <= 1000; ++i) {
    const std::int64_t passed = clock.finish(now, 10);
    EXPECT_EQ(passed, i * 10'000);
    if (passed <= now) continue;
    now = passed + 7'000'000;
    clock.overslept(7'000'000);
  }
  EXPECT_GT(now, 7'000'000);
}

TEST(LinkClock, WhatGoesOnHasNoPauses) {
  LinkClock clock(1e6);
  EXPECT_EQ(clock.finish(0, 1000), 1'000'000);
  EXPECT_EQ(clock.finish(kSecond, 1000, true), 2'000'000);
}

TEST(LinkClock, TheRateIsExactOverMillionsOfPieces) {
  // 3 bytes at this rate are no whole number of nanoseconds.
  LinkClock clock(7e8);
  std::int64_t passed = 0;
  for (int i = 0; i < 3'000'000; ++i) passed = clock.finish(0, 3, true);
  EXPECT_NEAR(static_cast<double>(passed), 9e6 / 7e8 * 1e9, 1.0);
}

TEST(LinkClock, InAnyIntervalNoMorePassesThanTheRateAndTheBurst) {
  std::mt19937 random(5);
  LinkClock clock(1e9);
  struct Passed {
    std::int64_t begin, end;
    std::int64_t bytes;
  };
  std::vector<Passed> all;
  std::int64_t now = 1000;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t begin = now, bytes = random() % 100'000;
    const std::int64_t passed = clock.finish(now, static_cast<std::size_t>(bytes));
    if (passed > now) {
      const std::int64_t late = random() % 30'000;
      clock.overslept(late);
      now = passed + late;
    }
    all.push_back({begin, now, bytes});
    now += random() % 60'000;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t bytes = 0;
    for (std::size_t k = i; k < all.size(); ++k) {
      bytes += all[k].bytes;
      // What was overslept before the interval may be caught up with in it.
      EXPECT_LE(bytes, all[k].end - all[i].begin + LinkClock::kBurst + 30'000 + 1);
    }
  }
}

TEST(Throttle, RatesThatAreNoneAreRefused) {
  for (const double rate : {-1.0, 1.0, 999.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(Throttle{rate}, ArgumentError) << rate;
  }
  EXPECT_TRUE(Throttle(0).unlimited());
  EXPECT_FALSE(Throttle(1000).unlimited());
}

TEST(Throttle, PassingTakesAtLeastTheTimeOfTheBytes) {
  Throttle throttle(1e8);
  throttle.pass(0);
  const auto begin = Clock::now();
  for (int i = 0; i < 50; ++i) throttle.pass(100'000);
  const double burst = 1e-9 * static_cast<double>(LinkClock::kBurst);
  EXPECT_GE(seconds_since(begin), 0.05 - burst);
  // Machines have other things to do, so that this says only that it is no other unit.
  EXPECT_LE(seconds_since(begin), 0.5);
}

TEST(Throttle, UnlimitedIsAtOnce) {
  Throttle throttle(0);
  const auto begin = Clock::now();
  throttle.pass(std::size_t{1} << 60);
  EXPECT_LE(seconds_since(begin), 0.5);
}

TEST(CopyThrottled, CopiesAllBytesAtTheRate) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 256_KiB - 1, 256_KiB, 256_KiB + 1, 3_MiB + 17}) {
    std::vector<std::byte> from(bytes + 2), to(bytes + 2, std::byte{99});
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 37 % 251);
    for (const double rate : {0.0, 2e8}) {
      std::fill(to.begin(), to.end(), std::byte{99});
      Throttle throttle(rate);
      const auto begin = Clock::now();
      copy_throttled(throttle, to.data() + 1, from.data() + 1, bytes);
      EXPECT_GE(seconds_since(begin), rate > 0 ? static_cast<double>(bytes) / rate - 1e-6 : 0.0) << bytes;
      EXPECT_EQ(std::memcmp(to.data() + 1, from.data() + 1, bytes), 0) << bytes;
      EXPECT_EQ(to[0], std::byte{99});
      EXPECT_EQ(to[bytes + 1], std::byte{99});
    }
  }
}

}  // namespace
}  // namespace sectionflow
