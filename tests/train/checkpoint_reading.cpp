// Checkpoints that are read while a training saves others, and removes the old ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"
#include "train/checkpoint_folder.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using testing_support::SmallTraining;

TEST(CheckpointReading, OneThatIsRemovedMeanwhileIsNotThereAndNotDamaged) {
  const TemporaryFolder folder;
  SmallTraining training(false);
  ASSERT_TRUE(Checkpoints(folder.path().string()).save(training.session, {.step = 3}));
  const CheckpointFolder checkpoints(folder.path());
  const auto content = checkpoints.read_while_there(3, [&](const fs::path& path) {
    fs::rename(path, folder.path() / "step-3.old");
    return read_checkpoint(path);
  });
  EXPECT_FALSE(content.has_value());
  EXPECT_FALSE(checkpoints.read_while_there(3, read_checkpoint).has_value());
}

TEST(CheckpointReading, OneThatIsReplacedMeanwhileIsReadInItsNewForm) {
  const TemporaryFolder folder;
  SmallTraining training(false);
  ASSERT_TRUE(Checkpoints(folder.path().string()).save(training.session, {.step = 3}));
  int reads = 0;
  const auto content = CheckpointFolder(folder.path()).read_while_there(3, [&](const fs::path& path) {
    if (++reads > 1) return read_checkpoint(path);
    fs::copy(path, folder.path() / "other", fs::copy_options::recursive);
    fs::rename(path, folder.path() / "step-3.old");
    fs::rename(folder.path() / "other", path);
    return read_checkpoint(folder.path() / "nowhere");
  });
  EXPECT_EQ(reads, 2);
  ASSERT_TRUE(content.has_value());
  EXPECT_EQ(content->manifest.step, 3);
}

TEST(CheckpointReading, OneThatStaysAndIsDamagedIsSaidToBe) {
  const TemporaryFolder folder;
  SmallTraining training(false);
  ASSERT_TRUE(Checkpoints(folder.path().string()).save(training.session, {.step = 3}));
  fs::resize_file(folder.path() / "step-3" / "variables.safetensors", 40);
  EXPECT_THROW((void)CheckpointFolder(folder.path()).read_while_there(3, read_checkpoint), DataError);
}

TEST(CheckpointReading, ErrorsNameTheLineOfTheirUserAndNoneOfTheLibrary) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder.file("run", "").string());
  SmallTraining training(false);
  const auto place_of = [](const auto& call) -> std::string {
    try {
      call();
      return "nothing was thrown";
    } catch (const Error& error) {
      return error.fact("where");
    }
  };
  EXPECT_THAT(place_of([&] { (void)resume(training.trainer, checkpoints); }),
              testing::StartsWith("checkpoint_reading.cpp:"));
  CheckpointCallback saving(checkpoints);
  FunctionBatches batches(testing_support::small_batch);
  EXPECT_THAT(place_of([&] {
                (void)training.trainer.fit(batches, {.steps = 1, .callbacks = {&training.rate, &saving}});
              }),
              testing::StartsWith("checkpoint_reading.cpp:"));
}

TEST(CheckpointReading, FastSavesDamageNothingForWhoListsAndRestores) {
  const TemporaryFolder folder;
  SmallTraining trained(false), restored(false);
  Checkpoints writer(folder.path().string(), {.keep = 1});
  ASSERT_TRUE(writer.save(trained.session, {.step = 1}));
  std::atomic<bool> is_done = false;
  std::thread saving([&] {
    for (std::int64_t step = 2; !is_done; ++step) EXPECT_TRUE(writer.save(trained.session, {.step = step}));
  });
  const testing_support::LogLines log;
  Checkpoints reader(folder.path().string());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  int lists = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (const CheckpointInfo& info : reader.list()) EXPECT_EQ(info.problem, "");
    EXPECT_TRUE(reader.restore_latest(restored.session).has_value());
    ++lists;
  }
  is_done = true;
  saving.join();
  EXPECT_GT(lists, 0);
  EXPECT_THAT(log.lines, testing::IsEmpty());
}

}  // namespace
}  // namespace sectionflow
