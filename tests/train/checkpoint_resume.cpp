// Training that goes on from a checkpoint, under whatever strategy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/log_lines.h"
#include "tests/support/resumable_training.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

// Beyond the end of an epoch, whose last batch is smaller.
constexpr int kSteps = 3;

/// The variables and the last losses of two trainings.
std::string difference_of_ends(ResumableTraining& whole, ResumableTraining& resumed) {
  TrainingState a = whole.state(), b = resumed.state();
  a.losses.erase(a.losses.begin(), a.losses.end() - static_cast<std::ptrdiff_t>(b.losses.size()));
  return first_difference(a, b);
}

TEST(ResumedTraining, UnderEveryStrategyAfterEveryOtherGivesTheBitsOfOneThatHasNeverStopped) {
  ResumableTraining reference(Way::whole);
  reference.train(2 * kSteps);
  const TemporaryFolder folder;
  for (Way producer : kAllWays) {
    SCOPED_TRACE(name_of(producer));
    const std::string path = (folder.path() / name_of(producer)).string();
    {
      ResumableTraining first(producer);
      first.train(kSteps);
      if (producer != Way::whole && producer != Way::sections) {
        EXPECT_GT(first.session->statistics().bytes_reclaimed, 0U) << "nothing has been swapped";
      }
      Checkpoints checkpoints(path);
      ASSERT_TRUE(checkpoints.save(*first.session, {.step = kSteps,
                                                    .data_position = first.position(),
                                                    .metrics = {{"loss", first.losses.back().item<float>()}},
                                                    .strategy = name_of(producer)}));
    }
    for (Way consumer : kAllWays) {
      SCOPED_TRACE(name_of(consumer));
      ResumableTraining second(consumer);
      Checkpoints checkpoints(path);
      const auto restored = checkpoints.restore_latest(*second.session);
      ASSERT_TRUE(restored.has_value());
      EXPECT_EQ(restored->checkpoint.step, kSteps);
      EXPECT_EQ(restored->checkpoint.strategy, name_of(producer));
      EXPECT_EQ(restored->report.completed_cycles, static_cast<std::uint64_t>(kSteps));
      second.go_to(restored->checkpoint.data_position);
      second.train(kSteps);
      EXPECT_EQ(difference_of_ends(reference, second), "");
    }
  }
}

TEST(ResumedTraining, OfEveryOptimiserWithSlotsOfItsOwnKindHasTheBitsOfOneThatHasNeverStopped) {
  for (const Optimizer& optimizer :
       {Optimizer(Lion{.learning_rate = 1e-3F}), Optimizer(Lamb{}), Optimizer(Adafactor{}),
        Optimizer(Adam{.slots = SlotStorage::eight_bit}), Optimizer(AdamW{.slots = SlotStorage::eight_bit})}) {
    ResumableTraining reference(Way::whole, {.optimizer = optimizer}), first(Way::sections, {.optimizer = optimizer});
    reference.train(2 * kSteps);
    first.train(kSteps);
    const TemporaryFolder folder;
    Checkpoints checkpoints((folder.path() / "run").string());
    ASSERT_TRUE(checkpoints.save(*first.session, {.step = kSteps, .data_position = first.position()}));
    for (const Way way : {Way::whole, Way::sections_and_host}) {
      ResumableTraining second(way, {.optimizer = optimizer});
      const auto restored = checkpoints.restore_latest(*second.session);
      ASSERT_TRUE(restored.has_value());
      second.go_to(restored->checkpoint.data_position);
      second.train(kSteps);
      EXPECT_EQ(difference_of_ends(reference, second), "") << optimizer.index() << ", " << name_of(way);
    }
  }
}

TEST(ResumedTraining, NeedsThePositionOfTheDataAndTheSeed) {
  ResumableTraining reference(Way::whole), first(Way::whole);
  reference.train(2 * kSteps);
  first.train(kSteps);
  const TemporaryFolder folder;
  Checkpoints checkpoints((folder.path() / "run").string());
  ASSERT_TRUE(checkpoints.save(*first.session, {.step = kSteps, .data_position = first.position()}));
  ResumableTraining from_the_beginning(Way::whole);
  ASSERT_TRUE(checkpoints.restore_latest(*from_the_beginning.session));
  from_the_beginning.train(kSteps);
  EXPECT_NE(difference_of_ends(reference, from_the_beginning), "");

  ResumableTraining on_other_threads(Way::whole, {.threads = 2});
  ResumableTraining of_another_seed(Way::whole, {.seed = 8});
  const LogLines log;
  ASSERT_TRUE(checkpoints.restore_latest(*on_other_threads.session));
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("was saved on 'cpu (1 thread), oneDNN"),
                                        HasSubstr("this session computes on 'cpu (2 threads), oneDNN"))));
  const auto restored = checkpoints.restore_latest(*of_another_seed.session);
  ASSERT_TRUE(restored);
  EXPECT_THAT(log.lines, Contains(HasSubstr("was saved by a session of seed 7, this one has seed 8")));
  of_another_seed.go_to(restored->checkpoint.data_position);
  of_another_seed.train(kSteps);
  EXPECT_NE(difference_of_ends(reference, of_another_seed), "");
}

TEST(ResumedTraining, InTheSameSessionGoesBackToTheCheckpoint) {
  ResumableTraining training(Way::sections_and_host);
  training.train(kSteps);
  const TemporaryFolder folder;
  Checkpoints checkpoints((folder.path() / "run").string());
  ASSERT_TRUE(checkpoints.save(*training.session, {.step = kSteps, .data_position = training.position()}));
  training.train(kSteps);
  const TrainingState first_time = training.state();
  const auto restored = checkpoints.restore_latest(*training.session);
  ASSERT_TRUE(restored);
  training.go_to(restored->checkpoint.data_position);
  training.losses.resize(kSteps);
  training.train(kSteps);
  EXPECT_EQ(first_difference(first_time, training.state()), "");
}

}  // namespace
}  // namespace sectionflow
