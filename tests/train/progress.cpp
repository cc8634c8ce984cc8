#include "train/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "base/bytes.h"

namespace sectionflow {
namespace {

/// A progress line on a string, with a clock that the test sets.
struct Fixture {
  std::ostringstream stream;
  double now = 1000;

  ProgressOptions options(bool is_terminal = false) {
    return {.stream = &stream, .is_terminal = is_terminal, .now_seconds = [this] { return now; }};
  }
};

TEST(Progress, LineTellsWhereTheRunStands) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  line.update({.epoch = 1, .num_epochs = 3, .step = 0, .num_steps = 240, .peak_bytes = 312_MiB});
  EXPECT_EQ(fixture.stream.str(), "epoch 1/3  step 0/240  peak 312 MiB\n");
  fixture.stream.str("");
  fixture.now += 10;
  line.update({.epoch = 1,
               .num_epochs = 3,
               .step = 120,
               .num_steps = 240,
               .loss = 0.43119,
               .images_done = 12340,
               .peak_bytes = 312_MiB});
  // 600 of 720 steps remain at 12 a second.
  EXPECT_EQ(fixture.stream.str(), "epoch 1/3  step 120/240  loss 0.4312  1234 images/s  ETA 0:50  peak 312 MiB\n");
}

TEST(Progress, UnknownTotalsAreLeftOut) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  line.update({.step = 0});
  fixture.now += 5;
  line.update({.step = 7, .loss = 2.5});
  EXPECT_EQ(fixture.stream.str(), "step 0\nstep 7  loss 2.5000\n");
}

TEST(Progress, SpeedAndEtaOfAResumedRunCountFromItsFirstState) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  line.update({.epoch = 2, .num_epochs = 2, .step = 100, .num_steps = 200, .images_done = 1000000});
  fixture.now += 100;
  line.update({.epoch = 2, .num_epochs = 2, .step = 110, .num_steps = 200, .images_done = 1000320});
  EXPECT_NE(fixture.stream.str().find("step 110/200  3.2 images/s  ETA 15:00\n"), std::string::npos)
      << fixture.stream.str();
}

TEST(Progress, LongEtaHasHours) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  line.update({.epoch = 1, .num_epochs = 1, .step = 0, .num_steps = 3726});
  fixture.now += 3;
  line.update({.epoch = 1, .num_epochs = 1, .step = 3, .num_steps = 3726});
  EXPECT_NE(fixture.stream.str().find("ETA 1:02:03"), std::string::npos) << fixture.stream.str();
}

TEST(Progress, LossKeepsItsDigitsWhateverItsSize) {
  const auto printed = [](double loss) {
    Fixture fixture;
    ProgressLine line(fixture.options());
    line.update({.step = 1, .loss = loss});
    return fixture.stream.str();
  };
  EXPECT_EQ(printed(0), "step 1  loss 0.0000\n");
  EXPECT_EQ(printed(1.5e-7), "step 1  loss 1.500e-07\n");
  EXPECT_EQ(printed(-2e9), "step 1  loss -2.000e+09\n");
  EXPECT_EQ(printed(std::nan("")), "step 1  loss nan\n");
}

TEST(Progress, PipedLinesComeEveryThreeSeconds) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  for (int step = 0; step <= 100; ++step, fixture.now += 0.125) line.update({.step = step});
  line.finish();
  // Steps 0, 24, 48, 72, 96 by the clock, 100 as the last.
  EXPECT_EQ(fixture.stream.str(), "step 0\nstep 24\nstep 48\nstep 72\nstep 96\nstep 100\n");
}

TEST(Progress, TerminalLineIsRedrawnInPlaceAndEndedOnce) {
  Fixture fixture;
  ProgressLine line(fixture.options(true));
  line.update({.step = 0});
  fixture.now += 0.0625;
  line.update({.step = 1});
  fixture.now += 0.0625;
  line.update({.step = 2});
  line.finish();
  line.finish();
  EXPECT_EQ(fixture.stream.str(), "\rstep 0\x1b[K\rstep 2\x1b[K\n");
}

TEST(Progress, EndOfTheRunIsPrintedAtOnce) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  line.update({.epoch = 1, .num_epochs = 2, .step = 0, .num_steps = 2});
  line.update({.epoch = 1, .num_epochs = 2, .step = 2, .num_steps = 2});
  line.update({.epoch = 2, .num_epochs = 2, .step = 2, .num_steps = 2});
  EXPECT_EQ(fixture.stream.str(), "epoch 1/2  step 0/2\nepoch 2/2  step 2/2\n");
  line.finish();
  EXPECT_EQ(fixture.stream.str(), "epoch 1/2  step 0/2\nepoch 2/2  step 2/2\n");
}

TEST(Progress, ErrorInMidRunIsPrintedBelowTheLine) {
  Fixture fixture;
  try {
    ProgressLine line(fixture.options(true));
    line.update({.step = 0});
    line.update({.step = 1});
    throw std::runtime_error("lost");
  } catch (const std::runtime_error&) {
    fixture.stream << "error";
  }
  EXPECT_EQ(fixture.stream.str(), "\rstep 0\x1b[K\rstep 1\x1b[K\nerror");
}

TEST(Progress, FinishWithoutStatesPrintsNothing) {
  Fixture fixture;
  ProgressLine(fixture.options(true)).finish();
  EXPECT_EQ(fixture.stream.str(), "");
}

TEST(Progress, UpdateAfterFinishBeginsANewRun) {
  Fixture fixture;
  ProgressLine line(fixture.options());
  line.update({.step = 5, .images_done = 10});
  line.finish();
  line.update({.step = 0, .images_done = 20});
  EXPECT_EQ(fixture.stream.str(), "step 5\nstep 0\n");
}

TEST(Progress, StreamsOfATestAreNoTerminals) {
  std::ostringstream stream;
  ProgressLine line({.stream = &stream});
  line.update({.step = 1});
  EXPECT_EQ(stream.str(), "step 1\n");
}

}  // namespace
}  // namespace sectionflow
