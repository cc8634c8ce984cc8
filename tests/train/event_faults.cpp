// Events of a training on disks that refuse or are full, and what of them is flushed. In the program of
// checkpoint_faults.cpp, which takes the place of the C library's calls for files.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/failing_files.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;

/// Whether the names in a folder were flushed after the last change of that kind and path.
bool is_flushed(const std::vector<FileChange>& changes, FileChange::Kind kind, const fs::path& path) {
  bool flushed = false;
  for (const FileChange& change : changes) {
    if (change.kind == kind && change.path == path) flushed = false;
    if (change.kind == FileChange::Kind::flush_folder && change.path == path.parent_path()) flushed = true;
  }
  return flushed;
}

TEST(MadeFolders, AreFlushedInTheirParentsAndNewFilesInTheirFolders) {
  const TemporaryFolder folder;
  const fs::path above = folder.path() / "above", run = above / "run", board = above / "board";
  SmallTraining training(false);
  const FileLog log;
  Checkpoints checkpoints(run.string());
  ASSERT_TRUE(checkpoints.save(training.session, {.step = 1}));
  for (const fs::path& made : {above, run})
    EXPECT_TRUE(is_flushed(log.changes(), FileChange::Kind::make_folder, made)) << made;
  EventWriter events(board.string());
  EXPECT_TRUE(is_flushed(log.changes(), FileChange::Kind::make_folder, board));
  events.scalar("loss", 1, 1);
  EXPECT_FALSE(is_flushed(log.changes(), FileChange::Kind::make_file, events.path()));
  events.flush();
  EXPECT_TRUE(is_flushed(log.changes(), FileChange::Kind::make_file, events.path()));
  const auto flushes = [&] {
    return std::count_if(log.changes().begin(), log.changes().end(),
                         [](const FileChange& change) { return change.kind == FileChange::Kind::flush_folder; });
  };
  const auto before = flushes();
  events.flush();
  EXPECT_EQ(flushes(), before) << "once is enough";
}

/// Trains five steps with a TensorBoard callback by a plan; returns the bytes that were written without it failing.
std::int64_t train_watched(const FilePlan& plan, std::int64_t failures_wanted) {
  const TemporaryFolder folder;
  SmallModel model(true);
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  FunctionBatches source(small_batch);
  TensorBoard board((folder.path() / "run").string(), {.histogram_steps = 2, .profile_step = 2});
  std::int64_t written = 0;
  {
    const FailingFiles faults(plan);
    const LogLines log;
    EXPECT_EQ(trainer.fit(source, {.steps = 5, .callbacks = {&rate, &board}}).steps, 5);
    written = faults.num_written_bytes();
    const auto warnings = std::count_if(log.lines.begin(), log.lines.end(), [](const std::string& line) {
      return line.find("TensorBoard") != std::string::npos;
    });
    EXPECT_EQ(warnings, board.failures() > 0 ? 1 : 0);
  }
  EXPECT_GE(board.failures(), failures_wanted);
  // What is there can be read.
  for (const auto& file : fs::directory_iterator(folder.path() / "run")) {
    if (file.file_size() > 0) (void)read_events(file.path().string());
  }
  return written;
}

TEST(TensorBoardOnABadDisk, IsWarnedOfOnceAndTheTrainingGoesOn) {
  const std::int64_t bytes = train_watched({}, 0);
  ASSERT_GT(bytes, 2000);
  for (std::int64_t full = 0; full < bytes; full += 1 + bytes / 40) {
    SCOPED_TRACE(text_of("full after ", full, " of ", bytes, " bytes"));
    train_watched({.disk_bytes = full}, 1);
  }
}

}  // namespace
}  // namespace sectionflow
