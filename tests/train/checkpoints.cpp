#include "train/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/safetensors.h"
#include "device/instruction_set.h"
#include "graph/ops/basic.h"
#include "tests/support/log_lines.h"
#include "tests/support/resumable_training.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint_folder.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A training and a folder for its checkpoints.
class CheckpointsTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "run") const { return (folder_.path() / name).string(); }
  fs::path file(const std::string& name) const { return folder_.path() / "run" / name; }
  std::vector<std::int64_t> steps(const Checkpoints& checkpoints) const {
    std::vector<std::int64_t> steps;
    for (const CheckpointInfo& info : checkpoints.list()) steps.push_back(info.step);
    return steps;
  }
  /// Names in the folder, in their order.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  TrainingState variables() { return {read_variables(*training_.session), {}}; }
  /// Trains a step and saves it.
  TrainingState save(Checkpoints& checkpoints, std::int64_t step) {
    training_.train(1);
    EXPECT_TRUE(checkpoints.save(*training_.session, {.step = step}));
    return variables();
  }
  static void damage(const fs::path& file, std::size_t at = 100) {
    std::string bytes = bytes_of_file(file);
    ASSERT_LT(at, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
  }

  TemporaryFolder folder_;
  ResumableTraining training_{Way::whole};
};

TEST_F(CheckpointsTest, OfAFolderThatIsNotThereAreNone) {
  Checkpoints checkpoints(path());
  EXPECT_FALSE(checkpoints.restore_latest(*training_.session).has_value());
  EXPECT_THAT(checkpoints.list(), testing::IsEmpty());
  EXPECT_TRUE(checkpoints.wait());
  EXPECT_FALSE(fs::exists(path())) << "nothing was to be written";
  fs::create_directory(path());
  EXPECT_FALSE(checkpoints.restore_latest(*training_.session).has_value());
}

TEST_F(CheckpointsTest, TellWhatTheyWereSavedWith) {
  training_.train(2);
  Checkpoints checkpoints(path());
  const Profile profile = Profile::nominal();
  EXPECT_TRUE(
      checkpoints.save(*training_.session, {.step = 12,
                                            .data_position = "{\"épochs\": 3}\n\t\"",
                                            .metrics = {{"loss", 0.5}, {"nan", std::nan("")}, {"far", -INFINITY}},
                                            .profile = profile,
                                            .strategy = "sections:4"}));
  ASSERT_EQ(checkpoints.list().size(), 1U);
  const CheckpointInfo info = checkpoints.list()[0];
  EXPECT_EQ(info.step, 12);
  EXPECT_EQ(info.path, file("step-12").string());
  EXPECT_EQ(info.problem, "");
  EXPECT_EQ(info.data_position, "{\"épochs\": 3}\n\t\"");
  EXPECT_EQ(info.metrics.at("loss"), 0.5);
  EXPECT_TRUE(std::isnan(info.metrics.at("nan")));
  EXPECT_EQ(info.metrics.at("far"), -INFINITY);
  EXPECT_EQ(info.completed_cycles, 2U);
  EXPECT_EQ(info.seed, 7U);
  EXPECT_THAT(info.optimizers, ElementsAre("apply_adam"));
  EXPECT_EQ(info.strategy, "sections:4");
  const std::string cpu = training_.session->device_name() + ", oneDNN ";
  EXPECT_EQ(info.device.substr(0, cpu.size()), cpu);
  EXPECT_TRUE(info.device.ends_with(", " + to_string(instruction_set()))) << info.device;
  EXPECT_EQ(info.num_bytes, fs::file_size(file("step-12") / "variables.safetensors"));
  EXPECT_EQ(info.profile, profile);
  EXPECT_THAT(names(), ElementsAre("latest", "step-12"));
  EXPECT_EQ(bytes_of_file(file("latest")), "step-12\n");
  EXPECT_EQ(checkpoints.statistics().saved, 1);
  EXPECT_EQ(checkpoints.statistics().failures, 0);
  EXPECT_GT(checkpoints.statistics().num_bytes, 1000U);
}

TEST_F(CheckpointsTest, KeepTheLastAndTheBest) {
  Checkpoints checkpoints(path(), {.keep = 2, .best_metric = "loss"});
  const double losses[] = {3, std::nan(""), 1, 2, 1, 5, 4};
  for (int i = 0; i < 7; ++i)
    ASSERT_TRUE(checkpoints.save(*training_.session, {.step = i, .metrics = {{"loss", losses[i]}}}));
  EXPECT_THAT(steps(checkpoints), ElementsAre(2, 5, 6)) << "of equal ones the first";
  EXPECT_THAT(names(), ElementsAre("latest", "step-2", "step-5", "step-6"));
  // Another process knows as much by the manifests.
  ASSERT_TRUE(checkpoints.wait());
  Checkpoints highest(path("other"), {.keep = 1, .best_metric = "accuracy", .higher_is_better = true});
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(highest.save(*training_.session, {.step = i, .metrics = {{"accuracy", i == 1 ? 0.9 : 0.1}}}));
  EXPECT_THAT(steps(highest), ElementsAre(1, 3));
}

TEST_F(CheckpointsTest, OfASecondProcessGoOnWithTheFirstOnesOrder) {
  {
    Checkpoints first(path(), {.keep = 3, .best_metric = "loss"});
    for (int i : {10, 20, 30})
      ASSERT_TRUE(first.save(*training_.session, {.step = i, .metrics = {{"loss", i == 10 ? 0.0 : 1.0}}}));
  }
  // Back at an earlier step: what is saved last is the newest, whatever its number.
  Checkpoints second(path(), {.keep = 2, .best_metric = "loss"});
  ASSERT_TRUE(second.save(*training_.session, {.step = 15, .metrics = {{"loss", 2}}}));
  EXPECT_THAT(steps(second), ElementsAre(10, 30, 15));
  EXPECT_EQ(second.restore_latest(*training_.session)->checkpoint.step, 15);
}

TEST_F(CheckpointsTest, OfTheSameStepReplaceEachOther) {
  Checkpoints checkpoints(path());
  (void)save(checkpoints, 5);
  const TrainingState second = save(checkpoints, 5);
  training_.train(1);
  EXPECT_THAT(names(), ElementsAre("latest", "step-5"));
  ASSERT_TRUE(checkpoints.restore_latest(*training_.session));
  EXPECT_EQ(first_difference(second, variables()), "");
}

TEST_F(CheckpointsTest, AreRestoredByTheirStep) {
  Checkpoints checkpoints(path());
  const TrainingState first = save(checkpoints, 1);
  (void)save(checkpoints, 2);
  EXPECT_EQ(checkpoints.restore(*training_.session, 1).checkpoint.step, 1);
  EXPECT_EQ(first_difference(first, variables()), "");
  EXPECT_EQ(training_.session->completed_cycles(), 1U);
  EXPECT_THAT([&] { checkpoints.restore(*training_.session, 7); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("step-7"), HasSubstr("hint:"))));
}

TEST_F(CheckpointsTest, ThatAreDamagedGiveWayToTheNewestThatIsNotWithOneWarning) {
  Checkpoints checkpoints(path());
  const TrainingState first = save(checkpoints, 1);
  const TrainingState second = save(checkpoints, 2);
  (void)save(checkpoints, 3);
  damage(file("step-3") / "variables.safetensors", fs::file_size(file("step-3") / "variables.safetensors") - 5);
  const auto restores = [&](std::int64_t step, const TrainingState& wanted, const std::string& problem) {
    const LogLines log;
    const auto restored = checkpoints.restore_latest(*training_.session);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->checkpoint.step, step);
    EXPECT_EQ(first_difference(wanted, variables()), "");
    EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(),
                            [](const auto& line) { return line.find("sound checkpoint") != std::string::npos; }),
              1);
    EXPECT_THAT(log.lines, Contains(HasSubstr(problem)));
  };
  restores(2, second, "damaged");
  damage(file("step-2") / "manifest.json");
  restores(1, first, "manifest.json': is damaged");
  fs::remove_all(file("step-3"));
  restores(1, first, "step-3', the latest, is not there");
  std::ofstream(file("latest")) << "../../etc";
  restores(1, first, "latest' does not name a checkpoint");
  fs::remove(file("latest"));
  fs::create_symlink(file("step-1") / "manifest.json", file("latest"));
  restores(1, first, "symbolic link");
  // All of them: the session stays as it was.
  fs::remove(file("step-1") / "variables.safetensors");
  training_.train(1);
  const TrainingState before = variables();
  EXPECT_THAT([&] { checkpoints.restore_latest(*training_.session); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E421"), HasSubstr("no checkpoint in '" + path()),
                                             HasSubstr("variables.safetensors"), HasSubstr("hint:"))));
  EXPECT_EQ(first_difference(before, variables()), "");
  // Those that cannot be read are told of, and are nobody's to delete.
  ASSERT_EQ(checkpoints.list().size(), 2U);
  EXPECT_THAT(checkpoints.list()[0].problem, HasSubstr("damaged"));
  Checkpoints once_more(path(), {.keep = 1});
  ASSERT_TRUE(checkpoints.save(*training_.session, {.step = 9}));
  EXPECT_TRUE(fs::exists(file("step-2")));
}

TEST_F(CheckpointsTest, OfOtherVariablesAreRefusedAtOnceAndNotReplacedByOlderOnes) {
  Checkpoints checkpoints(path());
  (void)save(checkpoints, 1);
  (void)save(checkpoints, 2);
  ResumableTraining wider(Way::whole, {.extra_width = 2});
  const TrainingState before{read_variables(*wider.session), {}};
  EXPECT_THAT([&] { checkpoints.restore_latest(*wider.session); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E424"), HasSubstr("step-2"), HasSubstr("differences"))));
  EXPECT_EQ(first_difference(before, {read_variables(*wider.session), {}}), "");
}

TEST_F(CheckpointsTest, WhoseLinksLeadOutOfTheFolderAreRefused) {
  Checkpoints checkpoints(path());
  (void)save(checkpoints, 1);
  const fs::path tensors = file("step-1") / "variables.safetensors";
  fs::rename(tensors, folder_.path() / "elsewhere");
  fs::create_symlink(folder_.path() / "elsewhere", tensors);
  EXPECT_THAT([&] { checkpoints.restore_latest(*training_.session); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E421"), HasSubstr("symbolic link"))));
  // A whole checkpoint that is a link, too.
  fs::remove(tensors);
  fs::rename(folder_.path() / "elsewhere", tensors);
  fs::rename(file("step-1"), folder_.path() / "moved");
  fs::create_directory_symlink(folder_.path() / "moved", file("step-1"));
  EXPECT_THROW(checkpoints.restore_latest(*training_.session), DataError);
  // By its own name it is one like any other.
  EXPECT_EQ(load_variables(*training_.session, (folder_.path() / "moved").string()).kept.size(), 0U);
}

TEST_F(CheckpointsTest, AreFilesThatLoadVariablesReads) {
  Checkpoints checkpoints(path());
  const TrainingState saved = save(checkpoints, 1);
  for (const fs::path& each : {file("step-1"), file("step-1") / "variables.safetensors"}) {
    training_.train(1);
    EXPECT_EQ(load_variables(*training_.session, each.string()).completed_cycles, 1U);
    EXPECT_EQ(first_difference(saved, variables()), "");
  }
}

TEST_F(CheckpointsTest, OfWhatAKilledProcessHasLeftNothingStays) {
  fs::create_directories(file("step-3.sectionflow-new"));
  std::ofstream(file("step-3.sectionflow-new") / "variables.safetensors") << "half";
  fs::create_directories(file("step-4.sectionflow-old"));
  std::ofstream(file("latest.sectionflow-new")) << "ste";
  std::ofstream(file("notes.tmp")) << "a user's own";
  fs::create_directory(file("step-x.tmp"));
  // Copies that somebody has made.
  for (const char* copy : {"step-4.old", "step-4.tmp", "step-4.replaced"}) {
    fs::create_directory(file(copy));
    std::ofstream(file(copy) / "manifest.json") << "somebody's";
  }
  Checkpoints checkpoints(path());
  EXPECT_FALSE(checkpoints.restore_latest(*training_.session).has_value());
  (void)save(checkpoints, 3);
  EXPECT_THAT(names(), ElementsAre("latest", "notes.tmp", "step-3", "step-4.old", "step-4.replaced", "step-4.tmp",
                                   "step-x.tmp"));
  for (const char* copy : {"step-4.old", "step-4.tmp", "step-4.replaced"}) {
    EXPECT_EQ(bytes_of_file((file(copy) / "manifest.json").string()), "somebody's");
  }
}

TEST_F(CheckpointsTest, OfAFolderWithoutExchangeAreFoundWhereTheProcessWasKilledBetween) {
  {
    Checkpoints checkpoints(path());
    (void)save(checkpoints, 3);
  }
  // As if step-3 was just being replaced, on a file system that cannot do it at once.
  fs::rename(file("step-3"), file("step-3.sectionflow-replaced"));
  fs::create_directory(file("step-3.sectionflow-new"));
  training_.train(1);
  Checkpoints reads(path());
  EXPECT_THAT(steps(reads), ElementsAre(3));
  EXPECT_EQ(reads.restore_latest(*training_.session)->checkpoint.path, file("step-3.sectionflow-replaced").string());
  EXPECT_EQ(training_.session->completed_cycles(), 1U);
  EXPECT_TRUE(fs::exists(file("step-3.sectionflow-replaced"))) << "who reads moves nothing";
  Checkpoints checkpoints(path());
  (void)save(checkpoints, 4);
  EXPECT_THAT(steps(checkpoints), ElementsAre(3, 4));
  EXPECT_THAT(names(), ElementsAre("latest", "step-3", "step-4"));
}

TEST_F(CheckpointsTest, AreWrittenByOneAtATime) {
  Checkpoints first(path());
  (void)save(first, 1);
  Checkpoints second(path(), {.stop_after_failures = 1});
  EXPECT_TRUE(second.restore_latest(*training_.session)) << "reading is free";
  EXPECT_THAT([&] { second.save(*training_.session, {.step = 2}); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E420"), HasSubstr("the folder of another training"))));
  EXPECT_THAT(names(), ElementsAre("latest", "step-1"));
  CheckpointFolder folder(path());
  EXPECT_THAT([&] { folder.open_for_writing(); }, ThrowsMessage<DataError>(HasSubstr("SF-E423")));
}

TEST_F(CheckpointsTest, ThatCannotBeWrittenAreCountedAndTrainingGoesOn) {
  const fs::path blocked = folder_.file("file", "no folder");
  Checkpoints checkpoints(blocked.string(), {.stop_after_failures = 3});
  const LogLines log;
  EXPECT_FALSE(checkpoints.save(*training_.session, {.step = 1}));
  training_.train(1);
  EXPECT_FALSE(checkpoints.save(*training_.session, {.step = 2}));
  EXPECT_EQ(checkpoints.statistics().failures, 2);
  EXPECT_THAT(checkpoints.statistics().last_failure, HasSubstr("file"));
  EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(),
                          [](const auto& line) { return line.find("training goes on") != std::string::npos; }),
            2);
  EXPECT_THAT([&] { checkpoints.save(*training_.session, {.step = 3}); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E420"), HasSubstr("3 saves in a row have failed"),
                                             HasSubstr("checkpoints.cpp:"), HasSubstr("hint:"))));
  // One that goes well ends the row.
  fs::remove(blocked);
  EXPECT_TRUE(checkpoints.save(*training_.session, {.step = 4}));
  EXPECT_EQ(checkpoints.statistics().failures_in_a_row, 0);
  EXPECT_EQ(checkpoints.statistics().failures, 3);
}

TEST_F(CheckpointsTest, RefuseWhatMeansNothing) {
  const auto says = [](const std::string& text) { return ThrowsMessage<ArgumentError>(HasSubstr(text)); };
  EXPECT_THAT([&] { Checkpoints("", {}); }, says("no name"));
  EXPECT_THAT([&] { Checkpoints(std::string("a\0b", 3)); }, says("zero"));
  EXPECT_THAT([&] { Checkpoints(path(), {.keep = 0}); }, says("keep is 0"));
  EXPECT_THAT([&] { Checkpoints(path(), {.stop_after_failures = -1}); }, says("stop_after_failures is -1"));
  Checkpoints checkpoints(path());
  EXPECT_THAT([&] { checkpoints.save(*training_.session, {.step = -1}); }, says("step is -1"));
  EXPECT_THAT([&] { checkpoints.save(*training_.session, {.data_position = "\xff"}); }, says("not UTF-8"));
  EXPECT_THAT([&] { checkpoints.save(*training_.session, {.metrics = {{"\xff", 1}}}); }, says("not UTF-8"));
  for (const bool asynchronous : {false, true}) {
    Graph graph;
    (void)variable("v\xff", fill(graph, {4}, 1));
    Session misnamed(graph, {.device_memory = 1 << 20, .threads = 1});
    misnamed.initialize();
    Checkpoints others(path(), {.asynchronous = asynchronous});
    EXPECT_THAT([&] { others.save(misnamed, {}); }, says("not UTF-8"));
    EXPECT_TRUE(others.wait());
  }
  Session empty(training_.graph, {.device_memory = 16 << 20, .threads = 1});
  EXPECT_THAT([&] { checkpoints.save(empty, {}); }, says("SF-E321"));
  EXPECT_THAT([&] { checkpoints.restore_latest(empty); }, says("SF-E321"));
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(checkpoints.statistics().failures, 0) << "a wrong call is no failure of the disk";
}

TEST_F(CheckpointsTest, StayInTheirFolderWhereverTheProcessGoes) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  Checkpoints checkpoints("run");
  fs::current_path("/");
  (void)save(checkpoints, 1);
  fs::current_path(before);
  EXPECT_THAT(names(), ElementsAre("latest", "step-1"));
  EXPECT_EQ(checkpoints.folder(), "run");
}

TEST_F(CheckpointsTest, OfAFolderThatWasMovedAwayGoOnInTheOneInItsPlace) {
  Checkpoints checkpoints(path(), {.keep = 2, .best_metric = "loss"});
  ASSERT_TRUE(checkpoints.save(*training_.session, {.step = 1, .metrics = {{"loss", 0.1}}}));
  fs::rename(path(), path("moved"));
  fs::create_directory(path());
  (void)save(checkpoints, 2);
  EXPECT_THAT(names(), ElementsAre("latest", "step-2"));
  // Nobody keeps others from the one that was moved any more.
  EXPECT_TRUE(CheckpointFolder(path("moved")).open_for_writing());
  EXPECT_THAT(CheckpointFolder(path("moved")).steps(), ElementsAre(1));
  fs::remove_all(path());
  for (int step = 3; step < 6; ++step) (void)save(checkpoints, step);
  EXPECT_THAT(names(), ElementsAre("latest", "step-4", "step-5"));
  EXPECT_EQ(checkpoints.statistics().failures, 0);
  CheckpointFolder other(path());
  EXPECT_THAT([&] { other.open_for_writing(); }, ThrowsMessage<DataError>(HasSubstr("SF-E423")));
}

TEST_F(CheckpointsTest, WhileHalfACycleIsPendingAreNeitherSavedNorRestored) {
  ResumableTraining halves(Way::sections);
  Checkpoints checkpoints(path());
  ASSERT_TRUE(checkpoints.save(*halves.session, {.step = 1}));
  const HostTensor images(Dtype::f32, {2, 8, 8, 1}), labels(Dtype::i32, {2});
  (void)halves.manager.run_forward(*halves.session, {halves.loss}, {{halves.images, images}, {halves.labels, labels}});
  EXPECT_THAT([&] { checkpoints.save(*halves.session, {.step = 2}); },
              ThrowsMessage<ArgumentError>(HasSubstr("SF-E322")));
  EXPECT_THAT([&] { checkpoints.restore_latest(*halves.session); }, ThrowsMessage<ArgumentError>(HasSubstr("SF-E322")));
  halves.manager.discard_forward(*halves.session);
  EXPECT_TRUE(checkpoints.save(*halves.session, {.step = 2}));
}

}  // namespace
}  // namespace sectionflow
