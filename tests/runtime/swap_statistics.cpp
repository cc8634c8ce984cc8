#include <gtest/gtest.h>

#include "runtime/trace.h"

namespace sectionflow {
namespace {

Trace::Event step(Lane lane, StepKind kind, double start_us, double end_us, std::uint64_t cycle = 0) {
  return {
      .pass = {}, .cycle = cycle, .start_us = start_us, .duration_us = end_us - start_us, .kind = kind, .lane = lane};
}
Trace::Event compute(double start_us, double end_us, std::uint64_t cycle = 0) {
  return step(Lane::compute, StepKind::compute, start_us, end_us, cycle);
}

TEST(SwapTimes, CopiesBesideComputingAreHidden) {
  const SwapTimes times = swap_times({compute(0, 1000), step(Lane::copy_out, StepKind::copy_out, 100, 900),
                                      compute(1010, 2000), step(Lane::copy_in, StepKind::copy_in, 1100, 1300)});
  EXPECT_DOUBLE_EQ(times.copy_seconds, 1000e-6);
  EXPECT_DOUBLE_EQ(times.stall_seconds, 0);
  EXPECT_DOUBLE_EQ(times.hidden_share, 1);
  EXPECT_DOUBLE_EQ(times.compute_seconds, 1990e-6);
  EXPECT_DOUBLE_EQ(times.cycle_seconds, 2000e-6);
}

TEST(SwapTimes, WhatTheComputeLaneCarriesItselfIsStall) {
  const SwapTimes times = swap_times({compute(0, 1000), step(Lane::compute, StepKind::copy_out, 1000, 1400),
                                      step(Lane::compute, StepKind::copy_in, 1400, 1600), compute(1600, 2000)});
  EXPECT_DOUBLE_EQ(times.copy_seconds, 600e-6);
  EXPECT_DOUBLE_EQ(times.stall_seconds, 600e-6);
  EXPECT_DOUBLE_EQ(times.hidden_share, 0);
  EXPECT_DOUBLE_EQ(times.compute_seconds, 1400e-6);
}

TEST(SwapTimes, GapsOfTheComputeLaneAreStall) {
  // The second step waits until 1500 for a copy of 800 us, 500 of which the first step hides less its own end.
  const std::vector<Trace::Event> events = {compute(0, 1000), step(Lane::copy_in, StepKind::copy_in, 700, 1500),
                                            compute(1500, 2000)};
  const SwapTimes times = swap_times(events);
  EXPECT_DOUBLE_EQ(times.stall_seconds, 500e-6);
  EXPECT_DOUBLE_EQ(times.hidden_share, 1 - 500.0 / 800);
  EXPECT_DOUBLE_EQ(swap_times(events, 500).stall_seconds, 0) << "a gap must be longer than the threshold";
}

TEST(SwapTimes, ShortGapsAreNone) {
  const SwapTimes times = swap_times(
      {compute(0, 100), compute(150, 200), compute(250.5, 300), step(Lane::copy_out, StepKind::copy_out, 0, 100)});
  EXPECT_DOUBLE_EQ(times.stall_seconds, 50.5e-6);
}

TEST(SwapTimes, WhatFollowsTheLastStepIsStall) {
  const SwapTimes times = swap_times({compute(0, 1000), step(Lane::copy_out, StepKind::copy_out, 900, 1300),
                                      step(Lane::disk_out, StepKind::disk_write, 1300, 1400)});
  EXPECT_DOUBLE_EQ(times.copy_seconds, 500e-6);
  EXPECT_DOUBLE_EQ(times.stall_seconds, 400e-6);
  EXPECT_DOUBLE_EQ(times.cycle_seconds, 1400e-6);
}

TEST(SwapTimes, WithoutCopiesThereIsNoStall) {
  const SwapTimes times = swap_times({compute(0, 100), compute(5000, 5100)});
  EXPECT_EQ(times.copy_seconds, 0);
  EXPECT_EQ(times.stall_seconds, 0);
  EXPECT_EQ(times.hidden_share, 0);
  EXPECT_EQ(swap_times({}).cycle_seconds, 0);
}

TEST(SwapTimes, TimeBetweenCyclesDoesNotCount) {
  const SwapTimes times = swap_times({compute(0, 100, 7), step(Lane::copy_out, StepKind::copy_out, 50, 100, 7),
                                      compute(9000, 9100, 8), step(Lane::copy_in, StepKind::copy_in, 9000, 9050, 8)});
  EXPECT_DOUBLE_EQ(times.copy_seconds, 100e-6);
  EXPECT_DOUBLE_EQ(times.stall_seconds, 0);
  EXPECT_NEAR(times.cycle_seconds, 200e-6, 1e-12);
}

TEST(SwapTimes, NoShareIsBelowNothing) {
  // A stall longer than all copies: the compute lane waits for one that waits for the disk.
  const SwapTimes times =
      swap_times({compute(0, 100), step(Lane::copy_in, StepKind::copy_in, 1000, 1100), compute(1100, 1200)});
  EXPECT_DOUBLE_EQ(times.hidden_share, 0);
}

TEST(SwapTimes, EventsMayComeInAnyOrder) {
  // A trace is ordered by the ends of steps.
  const SwapTimes times =
      swap_times({step(Lane::copy_in, StepKind::copy_in, 700, 1500), compute(1500, 2000), compute(0, 1000)});
  EXPECT_DOUBLE_EQ(times.stall_seconds, 500e-6);
}

}  // namespace
}  // namespace sectionflow
