// Checkpoints on disks that refuse, are full, or lose power. In a program of its own, which takes the place of the C
// library's calls for files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "graph/ops/update.h"
#include "tests/support/failing_files.h"
#include "tests/support/log_lines.h"
#include "tests/support/power_loss.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;

/// Thousands of small folders take minutes on a busy disk: they are made in memory where the system has a folder for
/// that.
[[maybe_unused]] const bool is_in_memory = access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", 0) == 0;

/// Two variables that a step changes: a checkpoint of less than 4 KiB.
class Counting {
 public:
  explicit Counting(std::int64_t elements = 100) : vector(variable("vector", fill(graph, {elements}, 0))) {
    second_ = assign_add(vector, fill(graph, {elements}, 1));
    session.initialize();
  }
  void step() { session.run({}, {.targets = {first_, second_}}); }
  std::int64_t count() { return session.read(counter).item<std::int64_t>(); }
  /// Whether the variables belong together.
  bool is_whole() {
    const HostTensor values = session.read(vector);
    for (const float value : values.values<float>()) {
      if (value != static_cast<float>(count())) return false;
    }
    return true;
  }

  Graph graph;
  Value counter = variable("counter", fill(graph, {}, 0, Dtype::i64));
  Value vector;

 private:
  Operation first_ = assign_add(counter, fill(graph, {}, 1, Dtype::i64));
  Operation second_;

 public:
  Session session{graph, {.device_memory = 1 << 20, .threads = 1}};
};

/// A run of three checkpoints, of which the third is in trouble, and what must hold then.
class Faults : public testing::TestWithParam<bool> {
 protected:
  /// Saves the third checkpoint, or replaces the second one, by the plan. Returns how many calls that made.
  std::int64_t try_plan(const FilePlan& plan, bool replaces) {
    const TemporaryFolder folder;
    const std::string run = (folder.path() / "run").string();
    Counting training;
    std::int64_t calls = 0;
    {
      Checkpoints checkpoints(run, {.keep = 2, .asynchronous = GetParam()});
      for (int step = 1; step <= 2; ++step) {
        training.step();
        EXPECT_TRUE(checkpoints.save(training.session, {.step = step}));
      }
      EXPECT_TRUE(checkpoints.wait());
      training.step();
      const int third = replaces ? 2 : 3;
      bool saved = false;
      {
        const FailingFiles faults(plan);
        const LogLines log;
        saved = checkpoints.save(training.session, {.step = third}) && checkpoints.wait();
        calls = faults.num_calls();
        written_ = faults.num_written_bytes();
        failed_ = faults.first_failed();
        const auto warnings = std::count_if(log.lines.begin(), log.lines.end(), [](const std::string& line) {
          return line.find("training goes on") != std::string::npos;
        });
        EXPECT_EQ(warnings, saved ? 0 : 1) << failed_;
      }
      SCOPED_TRACE(text_of("failed at ", failed_, saved ? ", saved" : ", not saved"));
      EXPECT_EQ(checkpoints.statistics().failures, saved ? 0 : 1);
      expect_sound(run, saved ? 3 : 2);
      // Training goes on, and so does saving; what was left over is gone then.
      training.step();
      EXPECT_EQ(training.count(), 4);
      EXPECT_TRUE(checkpoints.save(training.session, {.step = 4}));
      EXPECT_TRUE(checkpoints.wait());
      expect_sound(run, 4);
      EXPECT_LE(checkpoints.list().size(), 2U) << "one that is there all the same is deleted in its turn";
      // What a disk has not let go is removed by the next one who writes.
    }
    Checkpoints next(run, {.keep = 2});
    EXPECT_TRUE(next.save(training.session, {.step = 5}));
    for (const auto& entry : fs::directory_iterator(run)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "latest" || name.find('.') == std::string::npos) << name << " is left over";
    }
    return calls;
  }

  /// Another process finds a checkpoint of `least` steps or more, whole.
  static void expect_sound(const std::string& run, std::int64_t least) {
    Counting other;
    Checkpoints checkpoints(run);
    const auto restored = checkpoints.restore_latest(other.session);
    ASSERT_TRUE(restored.has_value());
    EXPECT_GE(other.count(), least);
    EXPECT_TRUE(other.is_whole());
    for (const CheckpointInfo& info : checkpoints.list()) EXPECT_EQ(info.problem, "");
  }

  std::int64_t written_ = 0;
  std::string failed_;
};
INSTANTIATE_TEST_SUITE_P(Checkpoints, Faults, testing::Bool(),
                         [](const auto& each) { return each.param ? "Asynchronous" : "Synchronous"; });

TEST_P(Faults, AtEveryCallLeaveASoundCheckpointAndTheTrainingGoesOn) {
  for (const bool replaces : {false, true}) {
    const std::int64_t calls = try_plan({}, replaces);
    ASSERT_GT(calls, 12);
    std::set<std::string> failed;
    for (const bool persistent : {false, true}) {
      for (std::int64_t first = 0; first < calls; ++first) {
        SCOPED_TRACE(text_of("call ", first, " of ", calls, persistent ? " and all later ones" : ""));
        (void)try_plan({.first = first, .persistent = persistent}, replaces);
        failed.insert(failed_);
      }
    }
    for (const char* call : {"mkdirat", "openat", "write", "pwrite", "fsync", "close", "renameat"})
      EXPECT_TRUE(failed.contains(call)) << call;
    EXPECT_EQ(failed.contains("renameat2"), replaces);
  }
}

TEST_P(Faults, ThatAreOnlySignalsAndShortWritesAreNone) {
  const std::int64_t calls = try_plan({}, false);
  (void)try_plan({.first = 0, .persistent = true, .fault = FileFault::short_write}, false);
  for (std::int64_t first = 0; first < calls; ++first) {
    SCOPED_TRACE(text_of("call ", first));
    const TemporaryFolder folder;
    Counting training;
    Checkpoints checkpoints((folder.path() / "run").string(), {.asynchronous = GetParam()});
    const FailingFiles faults({.first = first, .fault = FileFault::interrupted});
    EXPECT_TRUE(checkpoints.save(training.session, {.step = 1}));
    EXPECT_TRUE(checkpoints.wait());
  }
}

TEST_P(Faults, OfADiskThatIsFullAtAnyByteLeaveTheOldCheckpoints) {
  for (const bool replaces : {false, true}) {
    (void)try_plan({}, replaces);
    const std::int64_t all = written_;
    ASSERT_GT(all, 1000);
    for (std::int64_t bytes = 0; bytes < all; bytes += 64) {
      SCOPED_TRACE(text_of("full after ", bytes, " of ", all, " bytes"));
      (void)try_plan({.disk_bytes = bytes}, replaces);
      EXPECT_EQ(failed_, "write");
    }
  }
}

TEST_P(Faults, OfADiskWithoutExchangeOfFoldersReplaceAllTheSame) {
  // The one call that replaces at once is the only renameat2.
  const std::int64_t calls = try_plan({}, true);
  int num_tried = 0;
  for (std::int64_t first = 0; first < calls; ++first) {
    (void)try_plan({.first = first, .error_number = EINVAL}, true);
    num_tried += failed_ == "renameat2" ? 1 : 0;
  }
  EXPECT_EQ(num_tried, 1);
  for (const bool persistent : {false, true}) {
    for (std::int64_t first = -1; first < calls + 4; ++first) {
      SCOPED_TRACE(text_of("call ", first, persistent ? " and all later ones" : ""));
      (void)try_plan({.first = first, .persistent = persistent, .has_rename_flags = false}, true);
    }
  }
}

/// A process that replaces a checkpoint on a disk without exchange of folders, and is killed at a call. Gives its exit.
int replace_and_be_killed(const std::string& run, std::int64_t call) {
  const pid_t child = fork();
  if (child == 0) {
    Counting training;
    training.step();
    Checkpoints checkpoints(run, {.keep = 1});
    if (!checkpoints.save(training.session, {.step = 5})) _exit(1);
    training.step();
    const FailingFiles killed({.first = call, .fault = FileFault::kill, .has_rename_flags = false});
    _exit(checkpoints.save(training.session, {.step = 5}) ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(KilledReplacing, OnADiskWithoutExchangeOfFoldersLosesNoCheckpoint) {
  int num_between = 0, ended = kKilledExit;
  for (std::int64_t call = 0; ended == kKilledExit; ++call) {
    SCOPED_TRACE(text_of("killed at call ", call));
    const TemporaryFolder folder;
    const fs::path run = folder.path() / "run";
    ended = replace_and_be_killed(run.string(), call);
    const bool is_between = fs::exists(run / "step-5.sectionflow-replaced") && !fs::exists(run / "step-5");
    num_between += is_between ? 1 : 0;
    // Who only reads finds it, and so does who writes, on the same disk.
    const FailingFiles disk({.has_rename_flags = false});
    Counting reads, writes;
    const auto restored = Checkpoints(run.string()).restore_latest(reads.session);
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->checkpoint.step, 5);
    EXPECT_GE(reads.count(), ended == 0 ? 2 : 1);
    EXPECT_TRUE(reads.is_whole());
    Checkpoints checkpoints(run.string(), {.keep = 2});
    EXPECT_TRUE(checkpoints.save(writes.session, {.step = 6}));
    ASSERT_EQ(checkpoints.list().size(), 2U);
    EXPECT_EQ(checkpoints.list().front().path, (run / "step-5").string());
    EXPECT_EQ(checkpoints.restore(writes.session, 5).checkpoint.step, 5);
    EXPECT_EQ(writes.count(), reads.count());
  }
  EXPECT_EQ(ended, 0) << "the last one is not killed";
  EXPECT_GT(num_between, 0) << "no kill was between the two renames: the test shows nothing";
}

TEST(ReadingFaults, AtEveryCallRestoreAnotherCheckpointOrChangeNothing) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  Counting training;
  {
    Checkpoints checkpoints(run);
    for (int step = 1; step <= 3; ++step) {
      training.step();
      ASSERT_TRUE(checkpoints.save(training.session, {.step = step}));
    }
  }
  std::int64_t calls = 1;
  int num_older = 0, num_refused = 0;
  for (const bool persistent : {false, true}) {
    for (std::int64_t first = -1; first < calls; ++first) {
      SCOPED_TRACE(text_of("call ", first));
      Counting other;
      Checkpoints checkpoints(run);
      const LogLines log;
      {
        const FailingFiles faults({.first = first, .persistent = persistent});
        try {
          const auto restored = checkpoints.restore_latest(other.session);
          ASSERT_TRUE(restored.has_value());
          num_older += restored->checkpoint.step < 3 ? 1 : 0;
          EXPECT_EQ(restored->checkpoint.step, other.count());
        } catch (const DataError& error) {
          ++num_refused;
          EXPECT_EQ(other.count(), 0) << error.what();
        }
        if (first < 0) calls = faults.num_calls();
      }
      EXPECT_TRUE(other.is_whole());
    }
  }
  EXPECT_GT(calls, 10);
  EXPECT_GT(num_older, 0);
  EXPECT_GT(num_refused, 0);
}

TEST(DamagedCheckpoints, AreRefusedAtEveryFlippedBitAndEveryLengthAndChangeNothing) {
  const TemporaryFolder folder;
  Counting training(4);
  training.step();
  {
    Checkpoints checkpoints((folder.path() / "run").string());
    ASSERT_TRUE(checkpoints.save(training.session, {.step = 1}));
  }
  training.step();
  const fs::path step = folder.path() / "run" / "step-1";
  int num_refused = 0;
  const auto expect_refused = [&](const fs::path& file, const std::string& bytes, const std::string& what) {
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      (void)load_variables(training.session, step.string(), {.allow_missing = true, .allow_extra = true});
      ADD_FAILURE() << file << " was read with " << what;
    } catch (const DataError& error) {
      ++num_refused;
      EXPECT_NE(std::string(error.what()).find("step-1"), std::string::npos) << error.what();
      EXPECT_NE(error.fact("hint"), "") << error.what();
    }
    ASSERT_EQ(training.count(), 2) << what;
    ASSERT_TRUE(training.is_whole()) << what;
  };
  for (const char* name : {"manifest.json", "variables.safetensors"}) {
    const fs::path file = step / name;
    const std::string good = bytes_of_file(file);
    ASSERT_GT(good.size(), 300U);
    for (std::size_t length = 0; length < good.size(); ++length)
      expect_refused(file, good.substr(0, length), text_of("its first ", length, " bytes"));
    expect_refused(file, good + "x", "a byte more");
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string damaged = good;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      expect_refused(file, damaged, text_of("bit ", bit, " flipped"));
    }
    std::ofstream(file, std::ios::binary) << good;
  }
  EXPECT_GT(num_refused, 5000);
  (void)load_variables(training.session, step.string());
  EXPECT_EQ(training.count(), 1);
}

TEST(LostPower, AtAnyMomentLeavesTheLastCompletedCheckpointOrALaterOne) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  fs::create_directory(run);
  Counting training;
  std::vector<FileChange> changes;
  std::vector<std::size_t> completed;  // changes, when the save of each step was complete
  {
    const FileLog log;
    Checkpoints checkpoints(run, {.keep = 2});
    for (int step = 1; step <= 5; ++step) {
      training.step();
      // The fourth takes the place of the third.
      ASSERT_TRUE(checkpoints.save(training.session, {.step = step == 4 ? 3 : step}));
      completed.push_back(log.changes().size());
    }
    changes = log.changes();
  }
  ASSERT_GT(changes.size(), 60U);
  for (const bool keeps_names : {false, true}) {
    for (std::size_t count = 0; count <= changes.size(); ++count) {
      SCOPED_TRACE(text_of("after ", count, " of ", changes.size(), " changes, names ", keeps_names ? "kept" : "lost"));
      const TemporaryFolder after;
      PowerLoss(changes, count, keeps_names, run).write_to(after.path());
      const auto saved = std::upper_bound(completed.begin(), completed.end(), count) - completed.begin();
      Counting other;
      Checkpoints checkpoints(after.path().string());
      const LogLines log;
      const auto restored = checkpoints.restore_latest(other.session);
      ASSERT_EQ(restored.has_value() || saved == 0, true);
      EXPECT_GE(other.count(), saved);
      EXPECT_TRUE(other.is_whole());
      // Whoever goes on there can save.
      EXPECT_TRUE(checkpoints.save(other.session, {.step = 9}));
    }
  }
}

}  // namespace
}  // namespace sectionflow
