// Folders that are none of checkpoints, and what is said of them.

#include "train/checkpoint_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing_support::LogLines;
using testing_support::SmallTraining;

TEST(CheckpointPlace, ACheckpointIsNotTakenForAFolderOfThem) {
  const TemporaryFolder folder;
  const fs::path own = folder.path() / "step-2";
  SmallTraining training(false);
  ASSERT_TRUE(Checkpoints(folder.path().string()).save(training.session, {.step = 2}));
  for (const bool asynchronous : {false, true}) {
    Checkpoints mistaken(own.string(), {.asynchronous = asynchronous});
    EXPECT_THROW(mistaken.open(), ArgumentError);
    EXPECT_THROW((void)mistaken.list(), ArgumentError);
    EXPECT_THROW((void)resume(training.trainer, mistaken), ArgumentError);
    EXPECT_THROW(
        {
          (void)mistaken.save(training.session, {.step = 9});
          (void)mistaken.wait();
        },
        ArgumentError);
  }
  EXPECT_FALSE(fs::exists(own / "latest"));
  EXPECT_FALSE(fs::exists(own / "step-9"));
  try {
    check_takes_checkpoints(own / "");
    FAIL() << "a slash at the end makes it no other folder";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("take its folder, '" + folder.path().string() + "'"));
  }
}

TEST(CheckpointPlace, AFolderOfRecordsIsRefusedUntilItHasACheckpoint) {
  const TemporaryFolder folder;
  SmallTraining training(false);
  folder.file("train-00000.tfrecord", "");
  Checkpoints checkpoints(folder.path().string());
  EXPECT_THROW(checkpoints.open(), ArgumentError);
  fs::remove(folder.path() / "train-00000.tfrecord");
  ASSERT_TRUE(checkpoints.save(training.session, {.step = 1}));
  folder.file("train-00000.tfrecord", "");
  EXPECT_EQ(Checkpoints(folder.path().string()).list().size(), 1U);
}

TEST(CheckpointPlace, AFolderOfPicturesByClassIsRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"cat", "dog", ".cache"}) fs::create_directory(folder.path() / name);
  folder.file("cat/0.JPG", "");
  EXPECT_NO_THROW(check_takes_checkpoints(folder.path())) << "a folder without pictures beside it: perhaps a run";
  folder.file("dog/0.png", "");
  Checkpoints checkpoints(folder.path().string());
  EXPECT_THROW(checkpoints.open(), ArgumentError);
  EXPECT_THROW((void)checkpoints.list(), ArgumentError);
  EXPECT_FALSE(fs::exists(folder.path() / "latest"));
  const TemporaryFolder run;
  SmallTraining training(false);
  ASSERT_TRUE(Checkpoints(run.path().string()).save(training.session, {.step = 1}));
  for (const char* name : {"plots", "samples"}) {
    fs::create_directory(run.path() / name);
    run.file(std::string(name) + "/0.png", "");
  }
  fs::remove_all(run.path() / "step-1.tmp");
  EXPECT_EQ(Checkpoints(run.path().string()).list().size(), 1U) << "one with a checkpoint stays one";
  fs::remove_all(run.path() / "step-1");
  EXPECT_NO_THROW(check_takes_checkpoints(run.path())) << "one whose file `latest` names a checkpoint was one";
  run.file("latest", "the latest news");
  EXPECT_THROW(check_takes_checkpoints(run.path()), ArgumentError);
}

TEST(CheckpointPlace, WhatHasTheNameOfACheckpointAndIsNoneIsSetAside) {
  const TemporaryFolder folder;
  const fs::path step = folder.path() / "step-3";
  SmallTraining training(false);
  Checkpoints checkpoints(folder.path().string());
  const LogLines log;
  for (const std::string aside : {"step-3.set-aside", "step-3.set-aside-2"}) {
    ASSERT_TRUE(checkpoints.save(training.session, {.step = 3}));
    fs::remove(step / "manifest.json");
    folder.file("step-3/notes.txt", aside);
    const std::string tensors = bytes_of_file(step / "variables.safetensors");
    EXPECT_TRUE(checkpoints.save(training.session, {.step = 3})) << checkpoints.statistics().last_failure;
    EXPECT_EQ(bytes_of_file(folder.path() / aside / "notes.txt"), aside);
    EXPECT_EQ(bytes_of_file(folder.path() / aside / "variables.safetensors"), tensors);
    EXPECT_THAT(log.lines, Contains(HasSubstr("it is '" + aside + "' from now on")));
  }
  fs::remove_all(step);
  folder.file("step-3", "a file");
  EXPECT_TRUE(checkpoints.save(training.session, {.step = 3}));
  EXPECT_EQ(bytes_of_file(folder.path() / "step-3.set-aside-3"), "a file");
  // They are in nobody's way.
  EXPECT_EQ(Checkpoints(folder.path().string()).list().size(), 1U);
  EXPECT_EQ(Checkpoints(folder.path().string()).restore_latest(training.session)->checkpoint.step, 3);
}

TEST(CheckpointPlace, WhereTheFolderWithinHasTheCheckpointsAWarningNamesIt) {
  const TemporaryFolder folder;
  const fs::path inner = folder.path() / "checkpoints";
  SmallTraining training(false);
  ASSERT_TRUE(Checkpoints(inner.string()).save(training.session, {.step = 2}));
  Checkpoints above(folder.path().string());
  const LogLines log;
  EXPECT_FALSE(resume(training.trainer, above).has_value());
  EXPECT_THAT(log.lines, Contains(HasSubstr("'" + inner.string() + "' has some")));
}

TEST(CheckpointPlace, AFileThatHasTheNameOfAManifestMakesNoCheckpointOfAFolder) {
  const TemporaryFolder folder;
  folder.file("manifest.json", R"({"name": "a page"})");
  EXPECT_NO_THROW(check_takes_checkpoints(folder.path()));
  EXPECT_NO_THROW(check_takes_checkpoints(folder.path() / "not there yet"));
}

}  // namespace
}  // namespace sectionflow
