#include "device/team_waiting.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu_device.h"
#include "device/idle_team.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

using Clock = std::chrono::steady_clock;

TEST(CorePressure, IsHighAtOnceAndLowBehindHalfASecondOfQuiet) {
  CorePressure pressure;
  EXPECT_FALSE(pressure.is_high());
  pressure.add(0.01, 0.05);  // a fifth
  EXPECT_FALSE(pressure.is_high());
  pressure.add(0.02, 0.05);
  EXPECT_TRUE(pressure.is_high());
  for (int tick = 0; tick < 9; ++tick) pressure.add(0.001, 0.05);
  EXPECT_TRUE(pressure.is_high());
  pressure.add(0.008, 0.05);  // neither high nor quiet: the half second begins again
  for (int tick = 0; tick < 9; ++tick) pressure.add(0, 0.05);
  EXPECT_TRUE(pressure.is_high());
  for (int tick = 0; tick < 2; ++tick) pressure.add(0, 0.05);
  EXPECT_FALSE(pressure.is_high());
}

TEST(CorePressure, PassesOverNoTimeAndThreadsThatEnded) {
  CorePressure pressure;
  pressure.add(1, 0);
  EXPECT_FALSE(pressure.is_high());
  pressure.add(-5, 0.05);  // a thread took its share away
  EXPECT_FALSE(pressure.is_high());
}

std::int64_t num_threads_of_process() {
  using Tasks = std::filesystem::directory_iterator;
  return std::distance(Tasks("/proc/self/task"), Tasks());
}

TEST(IdleTeam, GivesItsThreadsBack) {
#if defined(__clang__)
  GTEST_SKIP() << "not libgomp: a thread that ends leaves its team to others";
#endif
  const std::int64_t before = num_threads_of_process();
  {
    const IdleTeam team(available_cores());
    EXPECT_EQ(num_threads_of_process(), before + 2);  // the one that begins the team, and one more
  }
  for (int tries = 0; tries < 200 && num_threads_of_process() > before; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(num_threads_of_process(), before);
  const IdleTeam none(available_cores() + 1);
  EXPECT_EQ(num_threads_of_process(), before);
}

/// Computes in short regions for two seconds, and says whether threads that wait came to sleep.
TEST(TeamWaiting, TellsWhetherThreadsSleep) {
  if (std::getenv("SF_TELL_WAITING") == nullptr) GTEST_SKIP() << "for processes that the test below begins";
  const ComputeTeam team(available_cores());
  bool slept = false;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(2);
  std::vector<float> numbers(1 << 18);
  while (Clock::now() < end) {
    parallel_for(static_cast<std::int64_t>(numbers.size()), 1024, [&](std::int64_t begin, std::int64_t stop) {
      for (std::int64_t i = begin; i < stop; ++i) numbers[i] = numbers[i] * 0.5F + 1;
    });
    slept = slept || waiting_threads_sleep();
  }
  EXPECT_LE(numbers[0], 2);
  std::printf("slept %d\n", slept ? 1 : 0);
}

/// Of a process of its own, in whose environment nothing says how threads wait but this: 1, 0, or -1 where it failed.
int threads_slept_in(const std::string& environment) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + environment + " SF_TELL_WAITING=1 '" +
                              program + "' --gtest_filter=TeamWaiting.TellsWhetherThreadsSleep";
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return -1;
  int slept = -1;
  char line[256];
  while (std::fgets(line, sizeof line, output) != nullptr) (void)std::sscanf(line, "slept %d", &slept);
  return pclose(output) == 0 ? slept : -1;
}

TEST(TeamWaiting, HasThreadsSleepWhereOthersWantTheCores) {
  if (available_cores() < 2) GTEST_SKIP() << "one core: no thread waits for another";
  if (!seconds_waited_for_cores()) GTEST_SKIP() << "the system does not tell how long threads wait for cores";
#if defined(__clang__)
  GTEST_SKIP() << "not libgomp";
#endif
  std::atomic<bool> ends{false};
  std::vector<std::thread> others;
  for (int i = 0; i < available_cores(); ++i) {
    others.emplace_back([&ends] {
      while (!ends.load(std::memory_order_relaxed)) continue;
    });
  }
  const int left = threads_slept_in(""), settled = threads_slept_in("OMP_WAIT_POLICY=active");
  const int empty = threads_slept_in("OMP_WAIT_POLICY= GOMP_SPINCOUNT=many");
  ends = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(left, 1);
  EXPECT_EQ(settled, 0);
  EXPECT_EQ(empty, 1);
}

TEST(TeamWaiting, LeavesTheCallersSettings) {
  const int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
  for (const int size : {available_cores(), 1}) const TeamWaiting waiting(size);
  EXPECT_EQ(omp_get_max_threads(), threads);
  EXPECT_EQ(omp_get_dynamic(), dynamic);
}

}  // namespace
}  // namespace sectionflow
