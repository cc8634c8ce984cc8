// What callbacks write is found where it was asked for, wherever the process goes meanwhile.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using testing_support::small_batch;
using testing_support::SmallTraining;

/// The working directory of a test, until its end.
struct WorkingDirectory {
  explicit WorkingDirectory(const fs::path& path) { fs::current_path(path); }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;
  ~WorkingDirectory() { fs::current_path(before); }
  fs::path before = fs::current_path();
};

TEST(OutputsOfCallbacks, DoNotFollowTheWorkingDirectory) {
  const TemporaryFolder first, second;
  const WorkingDirectory here(first.path());
  SmallTraining training(true);
  FunctionBatches source(small_batch);
  TensorBoard board("board");
  StatisticsCsv steps("steps.csv");
  StatisticsAverages averages("averages.csv", {.image_size = 6});
  fs::current_path(second.path());
  training.trainer.fit(source, {.steps = 3, .callbacks = {&training.rate, &board, &steps, &averages}});
  EXPECT_TRUE(fs::is_empty(second.path()));
  EXPECT_TRUE(fs::exists(first.path() / "steps.csv"));
  EXPECT_TRUE(fs::exists(first.path() / "averages.csv"));
  EXPECT_FALSE(fs::is_empty(first.path() / "board"));
  EXPECT_EQ(board.failures() + steps.failures(), 0);
}

}  // namespace
}  // namespace sectionflow
