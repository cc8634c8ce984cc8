// Programs that swap: the same bits under every budget, planned bytes measured in every tier, hard limits.

#include <gtest/gtest.h>

#include "runtime/engine.h"
#include "tests/support/shrink_spec.h"
#include "tests/support/training_spec.h"
#include "tests/swap/swap_case.h"

namespace sectionflow::testing {
namespace {

struct Road {
  const char* name;
  SessionOptions session;  ///< who carries, and how fast
  friend void PrintTo(const Road& road, std::ostream* stream) { *stream << road.name; }
};

const std::vector<Road>& roads() {
  static const std::vector<Road> all = {
      {"Team", {}},
      {"CopyThreads", {.copy_threads = true}},
      {"SlowLink", {.copy_threads = true, .link_bandwidth = 100e6}},
      {"SlowTeam", {.link_bandwidth = 200e6}},
      {"DelayedThreads", {.copy_threads = true, .random_delays = 5}},
      {"Disk", {.host_memory = 40_KiB, .disk = 16_MiB}},
      {"DiskAndCopyThreads", {.host_memory = 40_KiB, .disk = 16_MiB, .copy_threads = true}},
      {"DelayedDisk", {.host_memory = 40_KiB, .disk = 16_MiB, .copy_threads = true, .random_delays = 9}},
  };
  return all;
}

class SwapRoads : public ::testing::TestWithParam<Road> {};

TEST_P(SwapRoads, EveryBudgetFromTheLeastToTheWholeGivesTheSameBits) {
  const TrainingCase net = deep_net();
  TrainOptions options{.steps = 3, .threads = 1};
  const TrainingRecord whole = record_training(net, How::whole, options);
  const Bounds bounds = bounds_of(net, GetParam().session);
  ASSERT_LT(bounds.least, bounds.whole * 2 / 3);
  const ProgramReport least = Swapped(net, with_memory(GetParam().session, bounds.least)).plan();
  EXPECT_GT(least.bytes_out, 0U);
  EXPECT_EQ(least.disk_bytes_out > 0, GetParam().session.disk > 0);
  for (int i = 0; i <= 4; ++i) {
    options.session = with_memory(GetParam().session, bounds.least + (bounds.whole - bounds.least) / 4 * i);
    options.on_session = [](How, const Graph&, Session& session) { insert_swaps(session); };
    SCOPED_TRACE(text_of("budget ", options.session.device_memory.bytes_of(0)));
    const TrainingRecord swapped = record_training(net, How::whole, options);
    EXPECT_EQ(swapped.complaints, std::vector<std::string>{});
    EXPECT_EQ(first_difference(whole, swapped), "");
  }
}

TEST_P(SwapRoads, OneByteLessThanTheLeastIsRefused) {
  const TrainingCase net = deep_net();
  const Bounds bounds = bounds_of(net, GetParam().session);
  Swapped enough(net, with_memory(GetParam().session, bounds.least));
  EXPECT_TRUE(enough.plan().fits);
  EXPECT_LE(enough.plan().planned_peak_bytes, bounds.least);
  Swapped too_little(net, with_memory(GetParam().session, bounds.least - 1));
  EXPECT_FALSE(too_little.plan().fits);
  too_little.session().initialize();
  try {
    too_little.run();
    FAIL() << "a budget was ignored";
  } catch (const BudgetError& error) {
    EXPECT_NE(std::string(error.what()).find("device_memory"), std::string::npos);
  }
}

TEST_P(SwapRoads, SwapAlsoUnderSections) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const TrainingSpec spec = random_spec(seed);
    TrainOptions options = train_options(spec);
    options.session = GetParam().session;
    // So little that every program wants to swap all it can; the plans, which would not fit, are given their memory
    // later.
    options.on_session = [](How, const Graph&, Session& session) {
      engine(session).set_instruction_editor("swap much", [](const InstructionList& list, PlanningTools& tools) {
        const auto every = [](const IdleStretch& stretch) {
          return stretch.bytes % 3 == 0 ? Placement::keep : Placement::host;
        };
        return with_swaps(list, tools, {.placement = every});
      });
    };
    options.session.host_memory = 0;
    options.session.disk = 64_MiB;  // some of the cuts ask for it
    const auto failure = find_failure(training_case(spec), options);
    if (failure) ADD_FAILURE() << "seed " << seed << ": " << failure->text << "\n" << listing(spec);
  }
}

INSTANTIATE_TEST_SUITE_P(Roads, SwapRoads, ::testing::ValuesIn(roads()),
                         [](const auto& info) { return std::string(info.param.name); });

/// The hint of the BudgetError of one step.
std::string hint_of(const SessionOptions& options) {
  Swapped net(deep_net(), options);
  net.session().initialize();
  try {
    net.run();
  } catch (const BudgetError& error) {
    return error.fact("hint");
  }
  return "no error";
}

TEST(InsertSwaps, ATensorThatHostMemoryIsTooSmallForIsNamed) {
  const Bounds bounds = bounds_of(deep_net(), {.host_memory = 40_KiB, .disk = 16_MiB});
  const std::string text = hint_of(with_memory({.host_memory = 1_KiB, .disk = 16_MiB}, bounds.least));
  EXPECT_NE(text.find("' f32[6,8,8,8] (12.0 KiB) alone is larger than what host_memory has left"), std::string::npos)
      << text;
  EXPECT_NE(text.find("on its way to the disk"), std::string::npos) << text;
  EXPECT_EQ(text.find("SessionOptions::disk"), std::string::npos) << "there is one: " << text;
}

TEST(InsertSwaps, MoreMemoryIsNeverSlower) {
  for (const Road& road : roads()) {
    SCOPED_TRACE(road.name);
    const TrainingCase net = deep_net();
    const Bounds bounds = bounds_of(net, road.session);
    double last = 1e9;
    bool fitted = false;
    for (std::size_t i = 0; i <= 24; ++i) {
      const std::size_t budget = bounds.least * 3 / 4 + (bounds.whole - bounds.least * 3 / 4) / 24 * i + 100;
      const ProgramReport report = Swapped(net, with_memory(road.session, budget)).plan();
      EXPECT_TRUE(report.fits || !fitted) << budget;
      EXPECT_EQ(report.fits, budget >= bounds.least) << budget;
      if (!report.fits) continue;
      fitted = true;
      EXPECT_LE(report.predicted_seconds, last) << budget;
      last = report.predicted_seconds;
    }
    EXPECT_TRUE(fitted);
  }
}

/// The largest tensor that idles somewhere in the net's program, in whole pages.
std::size_t largest_idle_bytes(const TrainingCase& training_case) {
  std::size_t most = 0;
  Swapped net(training_case, with_memory({}, 1_GiB));
  engine(net.session()).set_instruction_editor("largest", [&](const InstructionList& list, PlanningTools& tools) {
    for (const IdleStretch& stretch : idle_stretches(tools.draft(list))) most = std::max(most, stretch.bytes);
    return list;
  });
  net.plan();
  return round_up(most, alignment_of(Tier::host));
}

TEST(InsertSwaps, BesideADiskTheHostNeedsRoomForOneTensorAlone) {
  const TrainingCase net = deep_net();
  const std::size_t host = largest_idle_bytes(net);
  for (const SessionOptions& road : {SessionOptions{.host_memory = host, .disk = 64_MiB},
                                     SessionOptions{.host_memory = host, .disk = 64_MiB, .copy_threads = true}}) {
    const Bounds bounds = bounds_of(net, road);
    for (std::size_t i = 0; i < 4; ++i) {
      Swapped swapped(net, with_memory(road, bounds.least + (bounds.whole - bounds.least) / 4 * i));
      const ProgramReport report = swapped.plan();
      EXPECT_TRUE(report.fits) << i;
      EXPECT_GT(report.disk_bytes_out, 0U);
      EXPECT_LE(report.host_peak_bytes, host);
      swapped.session().initialize();
      EXPECT_NO_THROW(swapped.run());
    }
    SessionOptions less = road;
    less.host_memory = host - alignment_of(Tier::host);
    EXPECT_FALSE(Swapped(net, with_memory(less, bounds.least)).plan().fits);
  }
}

TEST(InsertSwaps, ABudgetThatTheWholeGraphFitsMovesNothing) {
  const TrainingCase net = deep_net();
  Swapped swapped(net, with_memory({}, bounds_of(net, {}).whole));
  const ProgramReport report = swapped.plan();
  EXPECT_EQ(report.bytes_out, 0U);
  EXPECT_EQ(report.host_peak_bytes, 0U);
  EXPECT_EQ(report.notes, std::vector<std::string>{});
}

TEST(InsertSwaps, TheReportTellsWhatIsOffloadedAndWhy) {
  const TrainingCase net = deep_net();
  const Bounds bounds = bounds_of(net, {});
  const ProgramReport report = Swapped(net, with_memory({}, bounds.least)).plan();
  ASSERT_GE(report.notes.size(), 2U);
  EXPECT_LE(report.notes.size(), 10U);
  EXPECT_NE(report.notes[0].find(", offloaded; expected:"), std::string::npos);
  EXPECT_NE(report.notes[1].find("is offloaded to host memory from"), std::string::npos);
  EXPECT_GT(report.predicted_seconds, 0);
}

}  // namespace
}  // namespace sectionflow::testing
