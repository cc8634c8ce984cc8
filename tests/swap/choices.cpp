// What SwapPlanner decides, and what it is asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "runtime/engine.h"
#include "swap/choose_offloads.h"
#include "swap/relaxed_simulation.h"
#include "swap/time_offloads.h"
#include "tests/swap/idle_problem.h"
#include "tests/swap/swap_case.h"

namespace sectionflow::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ChooseOffloads, NothingIsOffloadedWhereEverythingFits) {
  EXPECT_THAT(choose_offloads(problem_of({{0, 9, 100}, {1, 8, 100}}, 50), 250), ElementsAre());
}

TEST(ChooseOffloads, TakesWhatCoversTheMostForTheLeastCopying) {
  EXPECT_THAT(choose_offloads(problem_of({{0, 9, 100, 2}, {0, 9, 100, 1}}, 50), 150), ElementsAre(1));
  // Where the short one is used there is too much too.
  EXPECT_THAT(choose_offloads(problem_of({{0, 9, 100, 2}, {2, 6, 100, 1}}, 50), 150), ElementsAre(0));
  EXPECT_EQ(least_device_bytes(problem_of({{0, 9, 100}, {2, 6, 100}}, 50)), 150U);
  EXPECT_EQ(least_device_bytes(problem_of({{0, 9, 100}, {0, 6, 100}}, 50)), 250U);
}

TEST(ChooseOffloads, GivesBackWhatHasBecomeNeedless) {
  // The short one is taken first, since it is cheap; the long one, which step 3 wants, then does for both.
  EXPECT_THAT(choose_offloads(problem_of({{0, 3, 100, 0.1}, {0, 9, 100}}, 50), 150), ElementsAre(1));
}

TEST(ChooseOffloads, ForcedOnesAreAlwaysOffloaded) {
  SwapProblem problem = problem_of({{0, 9, 100}, {1, 8, 100}}, 0);
  problem.candidates[1].placement = Placement::disk;
  EXPECT_THAT(choose_offloads(problem, 1000), ElementsAre(1));
  EXPECT_THAT(choose_disk(problem, {0, 1}, 1000), ElementsAre(false, true));
  problem.candidates[0].placement = Placement::host;
  EXPECT_THAT(choose_disk(problem, {0, 1}, 1), ElementsAre(false, true));
}

TEST(ChooseOffloads, TheDiskTakesWhatTheHostHasNoRoomFor) {
  const SwapProblem problem = problem_of({{0, 9, 100}, {1, 8, 100}}, 0);
  EXPECT_THAT(choose_disk(problem, {0, 1}, 200), ElementsAre(false, false));
  const std::vector<bool> one = choose_disk(problem, {0, 1}, 199);
  EXPECT_EQ(std::count(one.begin(), one.end(), true), 1);
  EXPECT_THAT(choose_disk(problem, {0, 1}, 99), ElementsAre(true, true));
}

TEST(ChooseOffloads, OnTheirWayToTheDiskOffloadsTakeTurns) {
  // Both leave before step 1 and are back before step 9; the third is in the host all the while.
  SwapProblem problem = problem_of({{0, 9, 100}, {0, 9, 60}, {0, 9, 50}}, 0);
  problem.candidates[2].placement = Placement::host;
  EXPECT_THAT(choose_disk(problem, {0, 1, 2}, 150), ElementsAre(true, true, false));
  const auto times = times_without_waits(problem);
  for (const Decision& decision : time_offloads(problem, {0, 1, 2}, {true, true, false}, times, 1000, 150)) {
    if (!decision.on_disk) continue;
    EXPECT_EQ(decision.disk_out, 1);
    EXPECT_EQ(decision.disk_in, decision.in);
  }
}

TEST(TimeOffloads, TheTeamBringsValuesBackForTheirReader) {
  const SwapProblem problem = problem_of({{0, 9, 100}}, 0);
  const auto decisions = time_offloads(problem, {0}, {false}, times_without_waits(problem), 1000, 1000);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].in, 9);
  EXPECT_EQ(decisions[0].hold, -1);
}

TEST(TimeOffloads, ThreadsBringValuesBackJustInTimeOneAfterTheOther) {
  // Step s runs from s to s + 1. The last copy in of two seconds begins at 7, the one before at 5.
  const SwapProblem problem = problem_of({{0, 9, 100, 2}, {1, 9, 100, 2}}, 0, CopyCarrier::threads);
  const auto decisions = time_offloads(problem, {0, 1}, {false, false}, times_without_waits(problem), 1000, 1000);
  EXPECT_EQ(decisions[0].in, 5);
  EXPECT_EQ(decisions[1].in, 7);
  // Out from 1 to 3, and from 3 to 5.
  EXPECT_EQ(decisions[0].hold, 3);
  EXPECT_EQ(decisions[1].hold, 5);
  const RelaxedSimulation simulation = simulate_relaxed(problem, decisions);
  EXPECT_EQ(simulation.seconds, 10);
  EXPECT_EQ(simulation.steps, times_without_waits(problem));
}

TEST(TimeOffloads, WhereThereIsNoRoomValuesComeBackLaterAndAreNotHeld) {
  SwapProblem problem = problem_of({{0, 9, 100, 2}}, 0, CopyCarrier::threads);
  for (StepIndex step : {1, 2, 3, 4, 5, 6, 7}) problem.device[static_cast<std::size_t>(step)] += 1000;
  const auto decisions = time_offloads(problem, {0}, {false}, times_without_waits(problem), 1000, 1000);
  EXPECT_EQ(decisions[0].in, 8);
  EXPECT_EQ(decisions[0].hold, -1);
  // The copy begins at 8 and ends at 10, when step 9 begins.
  EXPECT_EQ(simulate_relaxed(problem, decisions).seconds, 11);
}

TEST(TimeOffloads, DiskMovesLieBetweenTheCopies) {
  const SwapProblem problem = problem_of({{0, 9, 100, 1}}, 0, CopyCarrier::threads);
  const auto decisions = time_offloads(problem, {0}, {true}, times_without_waits(problem), 1000, 1000);
  EXPECT_EQ(decisions[0].disk_out, 2);
  EXPECT_EQ(decisions[0].in, 8);
  EXPECT_EQ(decisions[0].disk_in, 7);
  EXPECT_EQ(simulate_relaxed(problem, decisions).seconds, 10);
}

/// The net's program with every stretch of a kind placed as asked.
class Placements : public ::testing::Test {
 protected:
  ProgramReport plan(const SessionOptions& options, const OffloadPolicies& request) {
    net_ = std::make_unique<Swapped>(deep_net(), with_memory(options, 1_GiB));
    engine(net_->session()).set_instruction_editor("request", [&](const InstructionList& list, PlanningTools& tools) {
      const InstructionList edited = with_swaps(list, tools, request);
      instructions_ = edited.instructions;
      const Draft plain = tools.draft(list);
      stretches_ = idle_stretches(plain);
      return edited;
    });
    return net_->plan();
  }
  std::unique_ptr<Swapped> net_;  // whose values the others name
  std::vector<Instruction> instructions_;
  std::vector<IdleStretch> stretches_;
};

TEST_F(Placements, AreObeyedWhateverTheBudget) {
  const auto all = [](Placement placement) { return [placement](const IdleStretch&) { return placement; }; };
  EXPECT_EQ(plan({}, {.placement = all(Placement::keep)}).bytes_out, 0U);
  EXPECT_EQ(plan({}, {.placement = all(Placement::automatic)}).bytes_out, 0U);
  std::size_t bytes = 0;
  const ProgramReport host = plan({.disk = 16_MiB}, {.placement = all(Placement::host)});
  for (const IdleStretch& stretch : stretches_) bytes += stretch.bytes;
  EXPECT_EQ(host.bytes_out, bytes);
  EXPECT_EQ(host.bytes_in, bytes);
  EXPECT_EQ(host.disk_bytes_out, 0U);
  const ProgramReport disk = plan({.disk = 16_MiB}, {.placement = all(Placement::disk)});
  EXPECT_EQ(disk.disk_bytes_out, bytes);
  EXPECT_EQ(disk.disk_bytes_in, bytes);
  EXPECT_LT(disk.host_peak_bytes, host.host_peak_bytes);
}

TEST_F(Placements, ValuesDoNotComeBackBeforeTheInstructionThatIsAsked) {
  const auto late = [](const IdleStretch& stretch) { return (stretch.begin + 2 * stretch.end) / 3; };
  const auto host = [](const IdleStretch&) { return Placement::host; };
  plan({.copy_threads = true, .link_bandwidth = 1e6}, {.placement = host, .earliest_return = late});
  std::map<Value, int> returns;  // the plain instruction before which the value comes back last
  int plain = 0;
  for (const Instruction& instruction : instructions_) {
    if (instruction.kind == StepKind::copy_in) returns[instruction.fetched] = plain;
    if (instruction.offload < 0 && instruction.kind != StepKind::hold) ++plain;
  }
  std::set<Value> seen;
  int checked = 0;
  for (auto stretch = stretches_.rbegin(); stretch != stretches_.rend(); ++stretch) {
    if (!seen.insert(stretch->value).second) continue;
    EXPECT_GE(returns.at(stretch->value), late(*stretch)) << stretch->value.name();
    ++checked;
  }
  EXPECT_GT(checked, 10);
}

TEST(InsertSwaps, TheSameProfileGivesTheSameSchedule) {
  const TrainingCase net = deep_net();
  const SessionOptions options = {.host_memory = 64_KiB, .disk = 16_MiB, .copy_threads = true, .link_bandwidth = 1e9};
  const Bounds bounds = bounds_of(net, options);
  const auto text = [&](const Profile& profile) {
    Swapped swapped(net, with_memory(options, (bounds.least + bounds.whole) / 2), {.profile = profile});
    const Program& program = swapped.program();
    std::string text;
    for (const Step& step : program.schedule.steps) {
      text += text_of(static_cast<int>(step.kind), " ", step.node, " ", static_cast<int>(step.lane), " ", step.offload);
      for (StepIndex wait : step.waits) text += text_of(" ", wait);
      text += "\n";
    }
    for (std::size_t offset : program.plan.offsets) text += text_of(offset, " ");
    return text + text_of(program.report.predicted_seconds);
  };
  const std::string first = text({});
  EXPECT_EQ(first, text({}));
  EXPECT_NE(first, text({.link_out = 1e5, .link_in = 1e5}));
}

TEST(InsertSwaps, CopyThreadsHideCopiesThatTheTeamCannot) {
  const TrainingCase net = deep_net();
  const Profile slow_kernels{.flops = 1e8, .memory_bandwidth = 1e8};
  const std::size_t budget = bounds_of(net, {}).whole * 3 / 4;
  const ProgramReport team = Swapped(net, with_memory({}, budget), {.profile = slow_kernels}).plan();
  const ProgramReport threads =
      Swapped(net, with_memory({.copy_threads = true}, budget), {.profile = slow_kernels}).plan();
  EXPECT_LE(threads.predicted_seconds, team.predicted_seconds);
  EXPECT_THAT(threads.notes.at(0), HasSubstr("100 % of it hidden"));
  EXPECT_THAT(team.notes.at(0), HasSubstr(" 0 % of it hidden"));
}

/// The text of the error of a step that must not run.
std::string refusal(const SessionOptions& options, std::size_t device_memory) {
  Swapped net(deep_net(), with_memory(options, device_memory));
  EXPECT_FALSE(net.plan().fits);
  net.session().initialize();
  try {
    net.run();
  } catch (const BudgetError& error) {
    return error.what();
  }
  return "";
}

TEST(InsertSwaps, AProgramThatDoesNotFitNamesTheTier) {
  const std::size_t least = bounds_of(deep_net(), {}).least;
  EXPECT_THAT(refusal({}, least - 1), HasSubstr("device_memory"));
  EXPECT_THAT(refusal({.host_memory = 64_KiB}, least), HasSubstr("host_memory"));
  EXPECT_THAT(refusal({.host_memory = 40_KiB, .disk = 16_KiB}, least), HasSubstr("disk is"));
}

TEST(InsertSwaps, AnyHostMemoryDoesWhereThereIsADiskDownToWhatIsOnItsWay) {
  const TrainingCase net = deep_net();
  const std::size_t least = bounds_of(net, {}).least;
  const std::size_t whole = Swapped(net, with_memory({}, least)).plan().host_peak_bytes;
  std::size_t last_disk = 1_GiB;
  for (std::size_t host = 40_KiB; host < whole + 32_KiB; host += 32_KiB) {
    const ProgramReport report = Swapped(net, with_memory({.host_memory = host, .disk = 16_MiB}, least + 4_KiB)).plan();
    EXPECT_TRUE(report.fits) << host;
    EXPECT_LE(report.host_peak_bytes, host);
    EXPECT_LE(report.disk_bytes_out, last_disk + 64_KiB) << host;
    last_disk = report.disk_bytes_out;
  }
  EXPECT_EQ(last_disk, 0U);
}

}  // namespace
}  // namespace sectionflow::testing
