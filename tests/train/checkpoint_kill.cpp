// Training that is killed at any moment, while it saves all the time.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "base/random.h"
#include "tests/support/resumable_training.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

using namespace testing_support;

constexpr const char* kFolderVariable = "SECTIONFLOW_KILLED_FOLDER";
constexpr const char* kModeVariable = "SECTIONFLOW_KILLED_MODE";

/// The training that is killed: goes on from the folder, and tells on the pipe each step that is saved.
TEST(KilledTraining, DISABLED_Child) {
  const char* folder = std::getenv(kFolderVariable);
  if (folder == nullptr) GTEST_SKIP() << "is started by the test that kills it";
  const bool asynchronous = std::strcmp(std::getenv(kModeVariable), "asynchronous") == 0;
  ResumableTraining training(Way::sections);
  Checkpoints checkpoints(folder, {.keep = 2, .asynchronous = asynchronous});
  std::int64_t step = 0, told = 0;
  if (const auto restored = checkpoints.restore_latest(*training.session)) {
    step = restored->checkpoint.step;
    training.go_to(restored->checkpoint.data_position);
  }
  const auto tell = [&](std::int64_t saved) {
    if (saved == told) return;
    told = saved;
    (void)!write(STDOUT_FILENO, &saved, sizeof(saved));
  };
  tell(step);
  for (;;) {
    training.train(1);
    ++step;
    if (!checkpoints.save(*training.session, {.step = step, .data_position = training.position()})) std::_Exit(3);
    // An asynchronous save is known to be complete when the next one begins.
    if (!asynchronous || step - 1 > told) tell(asynchronous ? step - 1 : step);
  }
}

/// Starts the child with the write end of a pipe as its standard output.
pid_t start_child(const std::string& folder, const char* mode, int& read_end) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    setenv(kFolderVariable, folder.c_str(), 1);
    setenv(kModeVariable, mode, 1);
    setenv("GLOG_minloglevel", "3", 1);
    // GoogleTest's own lines would come between.
    execl("/proc/self/exe", "test", "--gtest_filter=KilledTraining.DISABLED_Child", "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  read_end = ends[0];
  return child;
}

/// Kills a child `kills` times at random moments; after each, the folder must hold the last step that was told, or a
/// later one, bit for bit as an undisturbed training has it.
void expect_nothing_lost(int kills, const char* mode, std::uint64_t seed) {
  SCOPED_TRACE(text_of(mode, ", seed ", seed));
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  ResumableTraining reference(Way::whole);
  std::int64_t reached = 0;
  std::map<std::int64_t, TrainingState> undisturbed;
  std::int64_t restored_before = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    int pipe_end = -1;
    const pid_t child = start_child(run, mode, pipe_end);
    ASSERT_GT(child, 0);
    // From the first sign of life on; the first few before it, in the middle of what comes first.
    const std::uint32_t word = random_words({.seed = seed}, static_cast<std::uint64_t>(kill_number))[0];
    std::int64_t told = 0;
    if (kill_number % 10 != 0) {
      if (read(pipe_end, &told, sizeof(told)) != sizeof(told)) told = 0;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(word % 60'000));
    kill(child, SIGKILL);
    for (std::int64_t next = 0; read(pipe_end, &next, sizeof(next)) == sizeof(next);) told = next;
    close(pipe_end);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with " << WEXITSTATUS(status);

    ResumableTraining resumed(Way::whole);
    Checkpoints checkpoints(run);
    const auto restored = checkpoints.restore_latest(*resumed.session);
    const std::int64_t step = restored ? restored->checkpoint.step : 0;
    ASSERT_GE(step, std::max(told, restored_before)) << "kill " << kill_number << ": a completed save is lost";
    restored_before = step;
    for (const CheckpointInfo& info : checkpoints.list()) ASSERT_EQ(info.problem, "") << info.path << " is torn";
    while (reached < step) {
      reference.train(1);
      undisturbed[++reached] = {read_variables(*reference.session), {}};
      if (undisturbed.size() > 8) undisturbed.erase(undisturbed.begin());
    }
    if (step > 0) {
      ASSERT_TRUE(undisturbed.contains(step));
      ASSERT_EQ(first_difference(undisturbed.at(step), {read_variables(*resumed.session), {}}), "")
          << "kill " << kill_number;
    }
  }
  EXPECT_GT(reached, 0) << "nothing was ever saved: the test shows nothing";
  std::printf("%d kills, %ld steps were saved\n", kills, static_cast<long>(reached));
}

TEST(KilledTraining, LosesNoCompletedCheckpointIn50Kills) {
  expect_nothing_lost(25, "synchronous", 1);
  expect_nothing_lost(25, "asynchronous", 2);
}

TEST(ManyKills, LoseNoCompletedCheckpointIn1000) {
  expect_nothing_lost(500, "synchronous", 3);
  expect_nothing_lost(500, "asynchronous", 4);
}

}  // namespace
}  // namespace sectionflow
