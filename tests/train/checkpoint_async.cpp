// Checkpoints that a thread writes while training goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "tests/support/log_lines.h"
#include "tests/support/resumable_training.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class AsynchronousCheckpoints : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::size_t snapshot_bytes(ResumableTraining& training) {
    std::size_t bytes = 0;
    for (Value variable : training.graph.values(kVariables)) bytes += round_up(variable.type().bytes());
    return bytes;
  }
  static std::string tensors(const fs::path& run, int step) {
    return bytes_of_file(run / text_of("step-", step) / "variables.safetensors");
  }

  TemporaryFolder folder_;
};

TEST_F(AsynchronousCheckpoints, HoldTheSameBytesWhateverIsTrainedMeanwhile) {
  for (Way way : {Way::whole, Way::sections_and_host}) {
    ResumableTraining one(way), other(way);
    {
      Checkpoints now(path("now"), {.keep = 100}), beside(path("beside"), {.keep = 100, .asynchronous = true});
      for (int step = 0; step < 6; ++step) {
        ASSERT_TRUE(now.save(*one.session, {.step = step, .data_position = one.position()}));
        ASSERT_TRUE(beside.save(*other.session, {.step = step, .data_position = other.position()}));
        one.train(1);
        other.train(1);
      }
      EXPECT_TRUE(beside.wait());
      EXPECT_EQ(beside.statistics().saved, 6);
      EXPECT_EQ(beside.statistics().saved_synchronously, 0);
      EXPECT_LE(beside.statistics().blocked_seconds, beside.statistics().total_seconds);
    }
    EXPECT_EQ(first_difference(one.state(), other.state()), "");
    for (int step = 0; step < 6; ++step) {
      EXPECT_EQ(tensors(path("now"), step), tensors(path("beside"), step));
      const fs::path manifest = fs::path(text_of("step-", step)) / "manifest.json";
      EXPECT_EQ(bytes_of_file(path("now") / manifest), bytes_of_file(path("beside") / manifest));
    }
    fs::remove_all(path("now"));
    fs::remove_all(path("beside"));
  }
}

TEST_F(AsynchronousCheckpoints, AreCompleteWhenTheirOwnerEndsAlsoAfterTheSession) {
  ResumableTraining training(Way::whole);
  auto checkpoints = std::make_unique<Checkpoints>(path("run"), CheckpointOptions{.asynchronous = true});
  ASSERT_TRUE(checkpoints->save(*training.session, {.step = 1}));
  training.session.reset();
  checkpoints.reset();
  EXPECT_EQ(bytes_of_file(fs::path(path("run")) / "latest"), "step-1\n");
}

TEST_F(AsynchronousCheckpoints, OfASessionThatEndsInAnExceptionAreComplete) {
  try {
    ResumableTraining training(Way::whole);
    Checkpoints checkpoints(path("run"), {.asynchronous = true});
    (void)checkpoints.save(*training.session, {.step = 1});
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {
  }
  ResumableTraining other(Way::whole);
  Checkpoints checkpoints(path("run"), {.asynchronous = true});
  EXPECT_EQ(checkpoints.restore_latest(*other.session)->checkpoint.step, 1);
}

TEST_F(AsynchronousCheckpoints, WhoseLastSaveFailsSayInTheLogWhenTheirOwnerEnds) {
  const std::string blocked = folder_.file("file", "no folder").string();
  ResumableTraining training(Way::whole);
  for (const int stop_after : {0, 1}) {
    const LogLines log;
    {
      Checkpoints checkpoints(blocked, {.asynchronous = true, .stop_after_failures = stop_after});
      ASSERT_TRUE(checkpoints.save(*training.session, {.step = 1}));
    }
    EXPECT_THAT(log.lines, testing::ElementsAre(AllOf(HasSubstr("a checkpoint is lost"), HasSubstr("file"))));
  }
}

TEST_F(AsynchronousCheckpoints, AreRestoredAndListedWhenTheyAreComplete) {
  ResumableTraining training(Way::whole);
  Checkpoints checkpoints(path("run"), {.asynchronous = true});
  for (int step = 1; step < 5; ++step) {
    training.train(1);
    ASSERT_TRUE(checkpoints.save(*training.session, {.step = step}));
    EXPECT_EQ(checkpoints.list().back().step, step);
    EXPECT_EQ(checkpoints.restore_latest(*training.session)->checkpoint.step, step);
  }
}

TEST_F(AsynchronousCheckpoints, CountInTheHostMemoryOfTheSession) {
  std::size_t programs = 0;
  {
    ResumableTraining training(Way::sections_and_host);
    training.train(1);
    programs = training.session->statistics().planned_host_peak_bytes;
    ASSERT_GT(programs, 0U);
  }
  for (const bool fits : {true, false}) {
    ResumableTraining probe(Way::whole);
    ResumableTraining training(Way::sections_and_host,
                               {.host_memory = programs + snapshot_bytes(probe) - (fits ? 0 : 1)});
    training.train(1);
    Checkpoints checkpoints(path(fits ? "fits" : "does not"), {.asynchronous = true});
    const LogLines log;
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(checkpoints.save(*training.session, {.step = step}));
      training.train(1);
    }
    EXPECT_TRUE(checkpoints.wait());
    EXPECT_EQ(checkpoints.statistics().saved, 3);
    EXPECT_EQ(checkpoints.statistics().saved_synchronously, fits ? 0 : 3);
    const auto says_so = HasSubstr("host_memory has no place for a copy of the variables");
    if (fits) {
      EXPECT_THAT(log.lines, Each(Not(says_so)));
    } else {
      EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(),
                              [&](const auto& line) { return line.find("saved synchronously") != std::string::npos; }),
                1);
      EXPECT_THAT(log.lines, Contains(says_so));
    }
  }
}

TEST_F(AsynchronousCheckpoints, GiveTheirBytesBackWhereAProgramNeedsThem) {
  std::size_t programs = 0;
  {
    ResumableTraining training(Way::sections_and_host);
    training.train(1);
    programs = training.session->statistics().planned_host_peak_bytes;
  }
  ResumableTraining training(Way::sections_and_host, {.host_memory = programs + 10});
  std::shared_ptr<HostHold> hold;
  int given_back = 0;
  hold = engine(*training.session).hold_host_memory(11, [&] {
    hold.reset();
    ++given_back;
  });
  ASSERT_NE(hold, nullptr) << "no program has needed host memory yet";
  training.train(1);
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(engine(*training.session).hold_host_memory(11, {}), nullptr);
  EXPECT_NE(engine(*training.session).hold_host_memory(10, {}), nullptr);
  // The first checkpoint is taken before any cycle has run, and is written when the cycle needs its bytes.
  ResumableTraining other(Way::sections_and_host, {.host_memory = std::max(programs, snapshot_bytes(training))});
  Checkpoints checkpoints(path("run"), {.asynchronous = true});
  ASSERT_TRUE(checkpoints.save(*other.session, {.step = 0}));
  other.train(1);
  EXPECT_TRUE(checkpoints.wait());
  EXPECT_EQ(checkpoints.statistics().saved_synchronously, 0);
}

TEST_F(AsynchronousCheckpoints, KeepTheirCopyForTheNextSaveUntilSomebodyNeedsItsBytes) {
  ResumableTraining training(Way::whole);
  const std::size_t copy = snapshot_bytes(training);
  ResumableTraining small(Way::whole, {.host_memory = copy + copy / 2});
  Engine& held = engine(*small.session);
  Checkpoints now(path("now")), one(path("one"), {.asynchronous = true}), other(path("other"), {.asynchronous = true});
  for (Checkpoints* each : {&one, &one, &other, &other, &one}) {
    small.train(1);
    training.train(1);
    ASSERT_TRUE(each->save(*small.session, {.step = 1}) && each->wait());
    EXPECT_EQ(each->statistics().saved_synchronously, 0) << "an idle copy gives way to another's";
    ASSERT_TRUE(now.save(*training.session, {.step = 1}));
    EXPECT_EQ(tensors(each->folder(), 1), tensors(now.folder(), 1));
    EXPECT_NE(held.hold_host_memory(copy / 2, {}), nullptr) << "one copy is held at the most";
  }
  EXPECT_NE(held.hold_host_memory(copy + copy / 2, {}), nullptr) << "nobody needs the copy now";
  // A session of another size, then the first one again: a copy is of the session that it counts in.
  ASSERT_TRUE(one.save(*training.session, {.step = 2}) && one.save(*small.session, {.step = 3}) && one.wait());
  EXPECT_EQ(one.statistics().saved, 5);
}

TEST_F(AsynchronousCheckpoints, ThatFailSaySoAtTheNextCall) {
  ResumableTraining training(Way::whole);
  const fs::path blocked = folder_.file("file", "no folder");
  Checkpoints checkpoints(blocked.string(), {.asynchronous = true, .stop_after_failures = 2});
  const LogLines log;
  EXPECT_TRUE(checkpoints.save(*training.session, {.step = 1})) << "nothing is known yet";
  training.train(1);
  EXPECT_FALSE(checkpoints.save(*training.session, {.step = 2}));
  EXPECT_EQ(checkpoints.statistics().failures, 1);
  EXPECT_THAT(log.lines, Contains(HasSubstr("training goes on")));
  EXPECT_THAT([&] { checkpoints.wait(); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E420"), HasSubstr("2 saves in a row"))));
  EXPECT_TRUE(checkpoints.wait()) << "it has been told";
  fs::remove(blocked);
  EXPECT_TRUE(checkpoints.save(*training.session, {.step = 3}));
  EXPECT_TRUE(checkpoints.wait());
  EXPECT_EQ(checkpoints.statistics().failures_in_a_row, 0);
}

TEST_F(AsynchronousCheckpoints, OfAGraphWithoutVariablesAreEmptyAndWhole) {
  Graph graph;
  (void)placeholder(graph, "x", {2});
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  Checkpoints checkpoints(path("run"), {.asynchronous = true});
  EXPECT_TRUE(checkpoints.save(session, {.step = 1}));
  EXPECT_TRUE(checkpoints.wait());
  EXPECT_EQ(checkpoints.restore_latest(session)->checkpoint.step, 1);
}

}  // namespace
}  // namespace sectionflow
