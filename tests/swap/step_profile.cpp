// What a step whose operations were timed tells of a machine.

#include "swap/step_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "runtime/engine.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// A program with copies to host memory and disk.
struct TimedStep {
  explicit TimedStep(CopyCarrier carrier = CopyCarrier::team, double link_bandwidth = 0)
      : session(trainable.graph, {.device_memory = 4_MiB, .disk = 4_MiB, .threads = 1}) {
    engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 5, 0.7, true);
    });
    const FeedTypes types = types_of(batch.feeds(trainable.model));
    program = &engine(session).whole_program({trainable.model.loss}, types, trainable.training);
    graph.emplace(trainable.graph, program->signature);
    executed.emplace(ExecutedSchedule{program->schedule, *graph, program->kernels, carrier, link_bandwidth});
  }
  /// What each step takes on the machine of the profile.
  std::vector<double> times(const Profile& profile) const {
    return StepTimes(*graph, program->kernels, executed->carrier, executed->link_bandwidth, profile)
        .of(program->schedule);
  }
  double seconds_of(const std::vector<double>& times, StepKind kind) const {
    double sum = 0;
    for (std::size_t i = 0; i < times.size(); ++i)
      if (program->schedule.steps[i].kind == kind) sum += times[i];
    return sum;
  }

  TrainableRandomModel trainable{{.seed = 3}};
  RandomBatch batch = random_batch(trainable.model, 2, 0);
  Session session;
  Executable* program = nullptr;
  std::optional<ConcreteGraph> graph;
  std::optional<ExecutedSchedule> executed;
};

Profile other_machine() {
  return {.flops = 3e9, .memory_bandwidth = 7e8, .link_out = 2e8, .link_in = 3e8, .disk_out = 4e7, .disk_in = 5e7};
}

void expect_near(double a, double b) {
  EXPECT_NEAR(a, b, 1e-6 * b);
}

TEST(StepProfile, IsThatOfTheMachineWhichExecutedTheStep) {
  const TimedStep step;
  const std::vector<double> times = step.times(other_machine());
  for (const StepKind kind : {StepKind::copy_out, StepKind::copy_in, StepKind::disk_write, StepKind::disk_read})
    ASSERT_GT(step.seconds_of(times, kind), 0);
  const Profile corrected = corrected_profile(*step.executed, times, Profile::nominal());
  expect_near(corrected.link_out, other_machine().link_out);
  expect_near(corrected.link_in, other_machine().link_in);
  expect_near(corrected.disk_out, other_machine().disk_out);
  expect_near(corrected.disk_in, other_machine().disk_in);
  EXPECT_EQ(measured_share(*step.executed, Profile::nominal()), 0);
  EXPECT_EQ(measured_share(*step.executed, corrected), 1);
  const std::vector<double> again = step.times(corrected);
  expect_near(step.seconds_of(again, StepKind::compute), step.seconds_of(times, StepKind::compute));
  expect_near(step.seconds_of(again, StepKind::copy_in), step.seconds_of(times, StepKind::copy_in));
}

TEST(StepProfile, TakesWhatTheStepDoesNotShowToHaveChangedAsWhatItShows) {
  const TimedStep step;
  Profile before = other_machine();
  before.kernel_seconds["of another program"] = 0.25;
  std::vector<double> times = step.times(before);
  for (double& seconds : times) seconds *= 4;
  const Profile corrected = corrected_profile(*step.executed, times, before);
  expect_near(corrected.flops, before.flops / 4);
  expect_near(corrected.memory_bandwidth, before.memory_bandwidth / 4);
  EXPECT_EQ(corrected.launch_seconds, before.launch_seconds);
  expect_near(corrected.kernel_seconds.at("of another program"), 1);
}

TEST(StepProfile, CountsTheFirstExecutionOfAKernelForItsReplays) {
  const TimedStep step;
  Profile corrected = corrected_profile(*step.executed, step.times(other_machine()), other_machine());
  const auto largest =
      std::ranges::max_element(corrected.kernel_seconds, {}, [](const auto& each) { return each.second; });
  const double seconds = largest->second;
  corrected.kernel_seconds.erase(largest);
  EXPECT_LT(measured_share(*step.executed, corrected), 1);
  EXPECT_GT(measured_share(*step.executed, corrected), 0);
  EXPECT_GT(seconds, 0);
}

TEST(StepProfile, OfTheLinkIsWithoutTheThrottle) {
  const double throttle = 1e8;
  const TimedStep team(CopyCarrier::team, throttle);
  const Profile by_team = corrected_profile(*team.executed, team.times(other_machine()), Profile::nominal());
  // The team's copy comes before the wait, whatever that takes.
  EXPECT_NEAR(by_team.link_out, other_machine().link_out, 0.1 * other_machine().link_out);
  // A thread's copy is hidden by the wait: how fast it is, is not known any better.
  const TimedStep threads(CopyCarrier::threads, throttle);
  const std::vector<double> times = threads.times(other_machine());
  const Profile same = corrected_profile(*threads.executed, times, other_machine());
  expect_near(same.link_out, other_machine().link_out);
  expect_near(same.link_in, other_machine().link_in);
}

TEST(StepProfile, OfKernelsIsWithoutWhatCopiesBesideThemAdded) {
  const TimedStep step(CopyCarrier::threads, 0);
  Profile before = other_machine();
  const std::vector<double> alone = step.times(before);
  const StepTimes times(*step.graph, step.program->kernels, CopyCarrier::threads, 0, before);
  before.copy_drag = 1e-10;
  const std::vector<double> drags = times.drags_of(step.program->schedule);
  const double drag = std::accumulate(drags.begin(), drags.end(), 0.0);
  const double kernels = step.seconds_of(alone, StepKind::compute);
  ASSERT_GT(drag, 0.001 * kernels);
  ASSERT_LT(drag, 0.4 * kernels);
  // The kernels of this step took longer by all of it.
  std::vector<double> beside = alone;
  for (std::size_t i = 0; i < beside.size(); ++i) {
    if (step.program->schedule.steps[i].kind == StepKind::compute) beside[i] *= 1 + drag / kernels;
  }
  const Profile corrected = corrected_profile(*step.executed, beside, before);
  EXPECT_EQ(corrected.copy_drag, before.copy_drag);
  expect_near(step.seconds_of(step.times(corrected), StepKind::compute), kernels);
  expect_near(corrected.flops, before.flops);
}

TEST(StepProfile, OfTimesThatNoClockGivesIsAProfileAllTheSame) {
  const TimedStep step;
  const std::size_t num_steps = step.program->schedule.steps.size();
  for (const double seconds : {0.0, 1e-30, 1e12}) {
    const Profile corrected =
        corrected_profile(*step.executed, std::vector<double>(num_steps, seconds), Profile::nominal());
    EXPECT_EQ(Profile::from_json(corrected.json(), "").kernel_seconds.size(), corrected.kernel_seconds.size());
  }
}

}  // namespace
}  // namespace sectionflow
