#include "runtime/lane_team.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/allocation_scope.h"
#include "base/error.h"

namespace sectionflow {
namespace {

TEST(LaneTeam, EveryWorkerRunsItsBodyOncePerRound) {
  LaneTeam team(4);
  EXPECT_EQ(team.size(), 4);
  std::array<int, 4> runs{};
  auto body = [&](int worker) { ++runs[static_cast<std::size_t>(worker)]; };
  for (int round = 1; round <= 500; ++round) {
    team.start(body);
    team.join();
    for (const int count : runs) ASSERT_EQ(count, round);
  }
}

TEST(LaneTeam, StartReturnsWhileBodiesRun) {
  LaneTeam team(2);
  std::atomic<bool> released = false;
  std::atomic<int> ended = 0;
  auto body = [&](int) {
    while (!released) std::this_thread::yield();
    ++ended;
  };
  team.start(body);
  EXPECT_EQ(ended, 0);
  released = true;
  team.join();
  EXPECT_EQ(ended, 2);
}

TEST(LaneTeam, WorkersKeepTheirThreads) {
  LaneTeam team(3);
  std::array<std::thread::id, 3> first{}, again{};
  auto note = [&](int worker) { first[static_cast<std::size_t>(worker)] = std::this_thread::get_id(); };
  auto check = [&](int worker) { again[static_cast<std::size_t>(worker)] = std::this_thread::get_id(); };
  team.start(note);
  team.join();
  team.start(check);
  team.join();
  EXPECT_EQ(first, again);
}

TEST(LaneTeam, BodiesRunInAStepAndWithoutSignals) {
  LaneTeam team(1);
  int in_step = 0;
  sigset_t blocked;
  auto body = [&](int) {
    in_step = allocation_scope.in_step;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  };
  team.start(body);
  team.join();
  EXPECT_EQ(in_step, 1);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGINT), 0) << "the mask of the maker is as it was";
}

TEST(LaneTeam, JoinThrowsWhatABodyThrewAndTheTeamGoesOn) {
  LaneTeam team(3);
  int ended = 0;
  auto bad = [&](int worker) {
    if (worker == 1) throw DataError("of worker 1");
  };
  auto good = [&](int worker) {
    if (worker == 0) ++ended;
  };
  for (int round = 1; round <= 20; ++round) {
    team.start(bad);
    EXPECT_THROW(team.join(), DataError);
    team.start(good);
    EXPECT_NO_THROW(team.join());
    EXPECT_EQ(ended, round);
  }
}

TEST(LaneTeam, StartingTwiceIsRefused) {
  LaneTeam team(1);
  std::atomic<bool> released = false;
  auto body = [&](int) {
    while (!released) std::this_thread::yield();
  };
  team.start(body);
  EXPECT_THROW(team.start(body), InternalError);
  released = true;
  team.join();
}

TEST(LaneTeam, EndsWithBodiesThatStillRun) {
  std::atomic<int> ended = 0;
  auto body = [&](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++ended;
  };
  {
    LaneTeam team(2);
    team.start(body);
  }
  EXPECT_EQ(ended, 2);
}

TEST(LaneTeam, MayHaveNoThreads) {
  LaneTeam team(0);
  auto body = [](int) { FAIL(); };
  team.start(body);
  team.join();
}

TEST(LaneProgress, WaitsForCountsAndSeesWhatWasWritten) {
  // Lanes hand numbers around in a circle, each reading what the lane before wrote in plain memory.
  constexpr int kLanes = 4;
  constexpr std::uint64_t kRounds = 2000;
  LaneTeam team(kLanes);
  LaneProgress progress(kLanes);
  std::array<std::uint64_t, kLanes> cells{};
  std::array<bool, kLanes> stopped{};
  auto body = [&](int lane) {
    const int before = (lane + kLanes - 1) % kLanes;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      if (!progress.wait_until(before, lane == 0 ? round - 1 : round)) {
        stopped[static_cast<std::size_t>(lane)] = true;
        return;
      }
      cells[static_cast<std::size_t>(lane)] = cells[static_cast<std::size_t>(before)] + 1;
      progress.complete(lane);
    }
  };
  for (int execution = 0; execution < 3; ++execution) {
    cells = {};
    team.start(body);
    team.join();
    EXPECT_EQ(cells[kLanes - 1], kLanes * kRounds);
    EXPECT_EQ(stopped, (std::array<bool, kLanes>{}));
    EXPECT_EQ(progress.completed(2), kRounds);
    progress.reset();
    EXPECT_EQ(progress.completed(2), 0u);
  }
}

TEST(LaneProgress, NobodyWaitsAfterAnError) {
  LaneTeam team(3);
  LaneProgress progress(3);
  std::array<bool, 3> waited{true, true, true};
  auto body = [&](int lane) {
    if (lane == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      progress.fail(std::make_exception_ptr(DataError("the first")));
      progress.fail(std::make_exception_ptr(std::runtime_error("the second")));
      waited[2] = false;
    } else {
      waited[static_cast<std::size_t>(lane)] = progress.wait_until(1 - lane, 1);
    }
  };
  team.start(body);
  team.join();
  EXPECT_EQ(waited, (std::array<bool, 3>{}));
  EXPECT_TRUE(progress.failed());
  try {
    progress.rethrow();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "the first");
  }
  progress.complete(0);
  EXPECT_FALSE(progress.wait_until(0, 1)) << "not even for what has been reached";
  progress.reset();
  EXPECT_FALSE(progress.failed());
  EXPECT_NO_THROW(progress.rethrow());
  progress.complete(0);
  EXPECT_TRUE(progress.wait_until(0, 1));
}

}  // namespace
}  // namespace sectionflow
