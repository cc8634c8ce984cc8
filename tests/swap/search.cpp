// What may be said of a choice of offloads before anything is drafted: what it takes, what bounds it, what is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "swap/choose_offloads.h"
#include "swap/search_offloads.h"
#include "swap/time_offloads.h"
#include "tests/swap/idle_problem.h"

namespace sectionflow::testing {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kEnough = 1'000'000;

TEST(RelaxedSimulation, AStepWaitsUntilEnoughHasLeftForIt) {
  // Two copies of three seconds, from 1 to 4 and from 4 to 7; at step 5 there is room for one of the two.
  SwapProblem problem = problem_of({{0, 9, 100, 3}, {1, 9, 100, 3}}, 0, CopyCarrier::threads);
  for (StepIndex step = 2; step < 9; ++step) problem.device[static_cast<std::size_t>(step)] = 200;
  problem.device[1] = 150;
  problem.device[5] += 100;
  const std::vector<Decision> decisions = {{.candidate = 0, .in = 9}, {.candidate = 1, .in = 9}};
  EXPECT_EQ(simulate_relaxed(problem, decisions).steps[5].start, 5);
  EXPECT_EQ(simulate_relaxed(problem, decisions, 300).steps[5].start, 5);
  EXPECT_EQ(simulate_relaxed(problem, decisions, 200).steps[5].start, 5) << "the first has left at 4";
  EXPECT_EQ(simulate_relaxed(problem, decisions, 199).steps[5].start, 7) << "both must have left";
}

TEST(TimeOffloads, AHoldEndsWhereTheStepThatWaitedForItBegins) {
  const SwapProblem problem = problem_of({{0, 9, 100, 3}}, 0, CopyCarrier::threads);
  std::vector<StepTime> times = times_without_waits(problem);
  for (std::size_t step = 2; step < times.size(); ++step) times[step] = {times[step].start + 2, times[step].end + 2};
  // The copy is over at 4, when step 2 begins after having waited.
  EXPECT_EQ(time_offloads(problem, {0}, {false}, times, kEnough, kEnough)[0].hold, 2);
}

TEST(RepairOffloads, AddsWhatIsMissingAndGivesBackWhatIsNeedless) {
  const SwapProblem problem = problem_of({{0, 9, 100}, {0, 9, 100}, {0, 9, 200}}, 50);
  EXPECT_THAT(OffloadRepair(problem).repaired(250, {0}), ElementsAre(0, 1));
  EXPECT_THAT(OffloadRepair(problem).repaired(250, {0, 1}, 2), ElementsAre(2));
  EXPECT_THAT(OffloadRepair(problem).repaired(250, {2}, -1, 2), ElementsAre(0, 1));
}

TEST(SearchOffloads, TakesWhatIsIdleFirstWhereTheLinkIsSlow) {
  // Either covers step 5. The copy of the second would only begin just before it.
  const SwapProblem problem = problem_of({{0, 9, 100, 4}, {4, 8, 100, 3.5}}, 0, CopyCarrier::threads);
  EXPECT_THAT(search_offloads(problem, {100, kEnough}, 0).offloaded, ElementsAre(0));
}

TEST(SearchOffloads, PrefersAnExactCoverToALargerOne) {
  const SwapProblem problem = problem_of({{0, 9, 200, 2}, {0, 9, 100, 1}, {0, 9, 100, 1}}, 0, CopyCarrier::threads);
  EXPECT_EQ(search_offloads(problem, {300, kEnough}, 0).offloaded.size(), 1U);
  EXPECT_NE(search_offloads(problem, {300, kEnough}, 0).offloaded.at(0), 0);
}

/// Nested stretches, as those of a forward and a backward pass, and some others; sizes of three kinds.
SwapProblem random_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return static_cast<int>(random() % bound); };
  std::vector<Idle> idle;
  const double slowness = 0.2 + 0.2 * below(8);
  for (int i = 0; i < 4; ++i) {
    const int size = 1 << below(3);
    idle.push_back({i, 9 - i, static_cast<std::size_t>(100 * size), slowness * size});
  }
  for (int i = 0; i < 3; ++i) {
    const int after = below(6);
    idle.push_back({after, after + 2 + below(static_cast<std::uint64_t>(8 - after)), 100, slowness});
  }
  return problem_of(idle, static_cast<std::size_t>(below(100)),
                    below(3) == 0 ? CopyCarrier::team : CopyCarrier::threads);
}

TEST(SearchOffloads, RandomProblemsAreNeverSimulatedFasterThanTheirBoundNorSearchedForNothing) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    const SwapProblem problem = random_problem(seed);
    const std::size_t most = *std::max_element(problem.device.begin(), problem.device.end());
    const std::size_t least = least_device_bytes(problem);
    double bound_below = 1e9;
    for (int i = 0; i <= 4; ++i) {
      const TierCapacity capacity{.device = least + (most - least) / 4 * static_cast<std::size_t>(i), .host = kEnough};
      const OffloadPlan plan = search_offloads(problem, capacity, (most - least) / 16);
      const OffloadPlan greedy = plan_offloads(problem, capacity, choose_offloads(problem, capacity.device));
      const double bound = least_seconds(problem, capacity.device);
      EXPECT_GE(plan.simulation.seconds, bound * (1 - 1e-9));
      EXPECT_LE(plan.simulation.seconds, greedy.simulation.seconds + 0.011 * 2 * 4 * 10)
          << "no slower, but for cheaper copies";
      EXPECT_LE(bound, bound_below) << "more memory, a lower bound";
      bound_below = bound;
      std::vector<std::size_t> load = problem.device;
      for (int number : plan.offloaded) {
        const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(number)];
        for (StepIndex step = candidate.stretch.after + 1; step < candidate.stretch.before; ++step) {
          load[static_cast<std::size_t>(step)] -= candidate.bytes;
        }
      }
      EXPECT_LE(*std::max_element(load.begin(), load.end()), capacity.device);
      EXPECT_EQ(simulate_relaxed(problem, plan.decisions, capacity.device).seconds, plan.simulation.seconds);
      EXPECT_LE(simulate_relaxed(problem, plan.decisions).seconds, plan.simulation.seconds) << "without a limit";
    }
  }
}

TEST(SearchOffloads, AHostWithoutADiskIsFilledNoMoreThanItMust) {
  // Only the large one frees enough at once for little; two small ones take less of the host.
  const SwapProblem problem = problem_of({{0, 9, 300, 1}, {0, 9, 100, 1}, {0, 9, 100, 1}}, 0);
  SwapProblem without = problem;
  without.has_disk = false;
  EXPECT_THAT(search_offloads(without, {300, kEnough}, 0).offloaded, ElementsAre(0));
  EXPECT_THAT(search_offloads(without, {300, 250}, 0).offloaded, ElementsAre(1, 2));
}

}  // namespace
}  // namespace sectionflow::testing
