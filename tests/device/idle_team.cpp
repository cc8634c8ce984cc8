#include "device/idle_team.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>

#include "device/cpu_device.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

/// Processor seconds of the process beside a second in which its team waits, a few milliseconds at a time.
double seconds_of_waiting() {
  using std::chrono::milliseconds;
  const ComputeTeam team(available_cores());
  const std::clock_t before = std::clock();
  for (int i = 0; i < 200; ++i) {
    parallel_for(std::int64_t{available_cores()}, 1, [](std::int64_t, std::int64_t) {});
    std::this_thread::sleep_for(milliseconds(5));
  }
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

/// Of a process of its own, in whose environment nothing says how threads wait but this.
double seconds_of_waiting_in(const std::string& environment) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + environment + " SF_TELL_WAITING=1 '" +
                              program + "' --gtest_filter=IdleTeam.TellsWhatWaitingTakes";
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return -1;
  double seconds = -1;
  char line[256];
  while (std::fgets(line, sizeof line, output) != nullptr) (void)std::sscanf(line, "waiting %lf", &seconds);
  return pclose(output) == 0 ? seconds : -1;
}

TEST(IdleTeam, TellsWhatWaitingTakes) {
  if (std::getenv("SF_TELL_WAITING") == nullptr) GTEST_SKIP() << "for processes that the test below begins";
  const double seconds = seconds_of_waiting();
  EXPECT_GE(seconds, 0);
  std::printf("waiting %f\n", seconds);
}

TEST(IdleTeam, HasThreadsSleepThatWait) {
  if (available_cores() < 2) GTEST_SKIP() << "one core: no thread waits for another";
  const double asleep = seconds_of_waiting_in(""), spinning = seconds_of_waiting_in("OMP_WAIT_POLICY=active");
  ASSERT_GE(asleep, 0);
  ASSERT_GE(spinning, 0);
  std::printf("a second of waiting takes %.3f s of the processor, spinning %.3f s\n", asleep, spinning);
#if defined(__clang__)
  GTEST_SKIP() << "not libgomp";
#endif
  EXPECT_LT(asleep, 0.2);
  EXPECT_LT(asleep, spinning);
}

TEST(IdleTeam, LeavesTheCallersSettings) {
  const int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
  keep_idle_team(available_cores());
  keep_idle_team(1);
  EXPECT_EQ(omp_get_max_threads(), threads);
  EXPECT_EQ(omp_get_dynamic(), dynamic);
}

}  // namespace
}  // namespace sectionflow
