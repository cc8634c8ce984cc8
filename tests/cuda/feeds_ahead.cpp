// Feeds of the next step, copied to a device with queues beside the steps of the one before it.

#include "schedule/feeds_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "runtime/next_feeds.h"
#include "tests/cuda/lent_training.h"
#include "tests/support/emulated_device.h"

namespace sectionflow::feeds_ahead {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Training = LentTraining;

NextFeeds::Figures figures_of(Training& training) {
  return engine(*training.session).next_feeds().figures();
}

std::vector<HostTensor> as_the_cpu_trains(bool in_sections, std::int64_t steps) {
  MadeBatches source;
  return Training(in_sections, {.threads = 1}).trained_on(source, {.steps = steps});
}

TEST(FeedsAhead, AreThereWhenTheirStepBeginsWithTheSameBytes) {
  for (const bool in_sections : {false, true}) {
    const auto expected = as_the_cpu_trains(in_sections, 7);
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = seed});
      for (const bool records : {false, true}) {
        SCOPED_TRACE(text_of(in_sections ? "sections" : "whole", ", seed ", seed, records ? ", recorded" : ""));
        Training training(in_sections, {.device = cuda(), .record_cycles = records, .check_schedules = true});
        MadeBatches source;
        expect_same(training.trained_on(source, {.steps = 7}), expected);
        // Images and labels, of every step but the first, and of the one behind the last.
        EXPECT_EQ(figures_of(training).arrived, 12U);
        EXPECT_EQ(figures_of(training).copied, 14U);
      }
    }
  }
}

TEST(FeedsAhead, AreCopiedBesideKernelsAndBehindWhatIsReadWhereTheyArrive) {
  for (const bool records : {false, true}) {
    int beside = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      std::vector<std::string> done;
      const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = seed, .watch = [&](const std::string& what) {
                                done.push_back(what);
                              }});
      Training training(false, {.device = cuda(), .record_cycles = records});
      MadeBatches source;
      int step = 0;
      training.trained_on(source, {.steps = 6}, [&] {
        const auto place = [&](const char* what) {
          EXPECT_EQ(std::count(done.begin(), done.end(), what), 1) << what << " in step " << step;
          return std::find(done.begin(), done.end(), what) - done.begin();
        };
        const auto copied = place("copy_in copies 768 bytes in");
        if (step++ > 0) {
          EXPECT_LT(place("compute moves 768 bytes"), copied);
          beside += std::count(done.begin() + copied, done.end(), "compute") > 0 ? 1 : 0;
        }
        done.clear();
      });
    }
    EXPECT_GT(beside, 20) << "of 60 copies to the device that were done before the last kernel";
  }
}

TEST(FeedsAhead, LieWithinTheBudgetOrNowhere) {
  const auto expected = as_the_cpu_trains(false, 5);
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
  const auto train = [&](std::size_t budget) {
    auto training = std::make_unique<Training>(
        false, SessionOptions{.device = cuda(), .device_memory = budget, .check_schedules = true});
    training->session->set_measuring(true);
    MadeBatches source;
    const auto measured = [&] {
      const Statistics& statistics = training->session->statistics();
      EXPECT_EQ(statistics.measured_peak_bytes, statistics.planned_peak_bytes);
      EXPECT_LE(statistics.planned_peak_bytes, budget);
    };
    expect_same(training->trained_on(source, {.steps = 5}, measured), expected);
    return training;
  };
  const auto roomy = train(1_MiB);
  const ProgramReport report = engine(*roomy->session).latest_program()->report;
  EXPECT_GE(report.feeds_ahead_bytes, 768U + 32U);
  EXPECT_EQ(figures_of(*roomy).copied, 10U);
  EXPECT_THAT(report.text(), HasSubstr("behind the peak for the next step's"));
  const std::size_t enough = report.planned_peak_bytes + report.feeds_ahead_bytes;
  EXPECT_EQ(figures_of(*train(enough)).copied, 10U);
  const auto tight = train(enough - 1);
  EXPECT_EQ(engine(*tight->session).latest_program()->report.feeds_ahead_bytes, 0U);
  EXPECT_EQ(figures_of(*tight).copied, 0U);
  EXPECT_EQ(figures_of(*train(report.planned_peak_bytes)).copied, 0U);
}

TEST(FeedsAhead, AreLostToWhoeverElseUsesTheMemory) {
  const auto expected = as_the_cpu_trains(true, 9);
  for (const bool poisons : {false, true}) {
    const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = 4});
    Training training(true, {.device = cuda(), .poison = poisons, .check_schedules = true});
    MadeBatches source, validation;
    int step = 0;
    const auto disturb = [&] {
      ++step;
      if (step == 5) training.session->set_measuring(true);
      if (step == 2) {
        const Engine::Workbench bench = engine(*training.session).workbench();
        std::memset(bench.region.data(), 0x77, bench.region.size());
      }
    };
    const FitOptions options{.steps = 9, .validation = &validation, .validation_steps = 1, .validate_every_steps = 3};
    expect_same(training.trained_on(source, options, disturb), expected);
    // Behind the bench after step 2, the evaluation after step 3, and canaries from step 6 on, feeds come anew.
    EXPECT_EQ(figures_of(training).arrived, 2U * 2U) << "of steps 2 and 5";
    EXPECT_EQ(training.memory()->figures().lent_blocks, 2U) << "what the source has made";
  }
}

TEST(FeedsAhead, OfASourceThatIsLateThrowsOrGivesAnotherSizeEndWell) {
  for (const bool records : {false, true}) {
    const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = 2});
    const auto compare = [&](MadeBatches::Oddities oddities, std::uint64_t arrived) {
      Training expected(false, {.threads = 1}), training(false, {.device = cuda(), .record_cycles = records});
      MadeBatches reference(oddities), source(oddities);
      for (Training* each : {&expected, &training}) {
        MadeBatches& batches = each == &expected ? reference : source;
        if (oddities.throws >= 0) {
          EXPECT_THAT([&] { each->trained_on(batches, {.steps = 6}); },
                      ThrowsMessage<std::runtime_error>(HasSubstr("the disk is gone")));
          EXPECT_EQ(batches.position(), std::to_string(oddities.throws));
        }
      }
      expect_same(training.trained_on(source, {.steps = 6}), expected.trained_on(reference, {.steps = 6}));
      EXPECT_EQ(figures_of(training).arrived, arrived);
      EXPECT_LE(training.memory()->figures().lent_blocks, 2U);
    };
    compare({.late = 3}, 2 * 4);
    // Steps 0, 1 and 2, then six from 3 on, of which the first has nothing before it.
    compare({.throws = 3}, 2 * (2 + 5));
    // Neither the short batch nor the one behind it is of the program that was executed before.
    compare({.is_short = 3}, 2 * 3);
  }
}

TEST(FeedsAhead, AreCheckedWhereverTheyLie) {
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
  Training training(false, {.device = cuda()});
  MadeBatches source;
  training.trained_on(source, {.steps = 1});
  auto& program = const_cast<Executable&>(*engine(*training.session).latest_program());
  const std::size_t capacity = 2_MiB - program.transient_offset;
  check_feeds_ahead(program, capacity);
  const FeedsAhead sound = program.feeds_ahead;
  ASSERT_EQ(sound.offsets.size(), 2U);
  const auto expect_refused = [&](const char* why, const auto& spoil, std::size_t most) {
    program.feeds_ahead = sound;
    spoil(program.feeds_ahead);
    EXPECT_THAT([&] { check_feeds_ahead(program, most); }, ThrowsMessage<InternalError>(HasSubstr(why)));
    program.feeds_ahead = sound;
  };
  expect_refused(
      "the region ends at", [](FeedsAhead&) {}, sound.end - 1);
  expect_refused(
      "are taken up to", [](FeedsAhead& ahead) { ahead.offsets[0] = 0; }, capacity);
  expect_refused(
      "are taken up to", [](FeedsAhead& ahead) { ahead.offsets[1] = ahead.offsets[0]; }, capacity);
  expect_refused(
      "are taken up to", [](FeedsAhead& ahead) { ahead.offsets[1] += 4; }, capacity);
  expect_refused(
      "places for 2 feeds", [](FeedsAhead& ahead) { ahead.offsets.pop_back(); }, capacity);
  expect_refused(
      "bytes for a feed of", [](FeedsAhead& ahead) { ahead.bytes[0] -= 4; }, capacity);
}

}  // namespace
}  // namespace sectionflow::feeds_ahead
