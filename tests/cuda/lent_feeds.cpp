// Feeds in memory that the session lends, on a device with queues: copied from where they lie, in recordings too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cuda/lent_training.h"
#include "tests/support/emulated_device.h"
#include "tests/support/log_lines.h"

namespace sectionflow::lent_feeds {
namespace {

using namespace testing_support;
using testing::Contains;
using testing::HasSubstr;

using Training = LentTraining;

TEST(LentFeeds, AreCopiedFromWhereTheyLieWithTheSameBytesRecordedOrNot) {
  for (const bool in_sections : {false, true}) {
    const auto expected = Training(in_sections, {.threads = 1}).trained(9);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = seed});
      for (const bool records : {false, true}) {
        SCOPED_TRACE(text_of(in_sections ? "sections" : "whole", ", seed ", seed, records ? ", recorded" : ""));
        Training training(in_sections, {.device = cuda(), .record_cycles = records});
        int steps = 0;
        expect_same(training.trained(9,
                                     [&] {
                                       EXPECT_EQ(training.is_recorded(), records && ++steps > 1) << steps;
                                       EXPECT_EQ(training.num_direct(), 2);
                                     }),
                    expected);
        EXPECT_EQ(training.memory()->figures().lent_blocks, 0U);
      }
    }
  }
}

TEST(LentFeeds, GoByPinnedMemoryOfTheProgramsWhereNoneIsLent) {
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
  const auto expected = Training(true, {.threads = 1}).trained(9);
  Training none(true, {.device = cuda(), .lent_memory = 0});
  expect_same(none.trained(9, [&] { EXPECT_EQ(none.num_direct(), 0); }), expected);
  // One block: now the images, now the labels, now neither.
  Training little(true, {.device = cuda(), .lent_memory = 4096});
  expect_same(little.trained(9, [&] { EXPECT_LE(little.num_direct(), 1); }), expected);
}

TEST(LentFeeds, OfARecordingThatCannotBeChangedAreExecutedStepByStep) {
  const auto expected = Training(true, {.threads = 1}).trained(9);
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .refuses_feeds = true});
  const LogLines log;
  Training training(true, {.device = cuda()});
  expect_same(training.trained(9), expected);
  EXPECT_THAT(log.lines, Contains(HasSubstr("cannot be given other feeds")));
}

TEST(LentFeeds, AreNotPinnedByTheSessionThatHasEnded) {
  DatasetBatches source(Training::batches());
  Example kept;
  {
    // A device with something still pinned aborts at its end.
    const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
    Training training(false, {.device = cuda()});
    training.trainer->fit(source, {.steps = 2});
    kept = *source.next();
    EXPECT_TRUE(training.memory()->is_pinned(kept.at("x").bytes(), kept.at("x").num_bytes()));
  }
  DatasetBatches reference(Training::batches());
  for (int i = 0; i < 2; ++i) (void)reference.next();
  EXPECT_TRUE(bitwise_equal(kept.at("x"), reference.next()->at("x")));
  // Fed to another session it is anybody's memory.
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
  Training next(false, {.device = cuda()}), expected(false, {.threads = 1});
  next.trainer->fit(source, {.steps = 3});
  expected.trainer->fit(reference, {.steps = 3});
  expect_same(next.trained(1), expected.trained(1));
}

}  // namespace
}  // namespace sectionflow::lent_feeds
