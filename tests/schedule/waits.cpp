#include "schedule/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "runtime/engine.h"
#include "schedule/check_schedule.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"
#include "tests/support/schedule_editing.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::ContainsRegex;
using testing::ThrowsMessage;

/// A training program of a random graph whose idle tensors are offloaded by threads, also to the disk.
class SwappedProgram : public testing::Test {
 protected:
  Executable& program() {
    engine(session_).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 11, 0.7, true);
    });
    return whole_graph_program(session_, {trainable_.model.loss}, batch_.feeds(trainable_.model), trainable_.training);
  }
  void check(const Program& program) const {
    check_schedule(program.schedule, program.kernels, program.storage, program.plan, trainable_.graph, 0);
  }

  TrainableRandomModel trainable_{{.seed = 4}};
  RandomBatch batch_ = random_batch(trainable_.model, 2, 0);
  Session session_{
      trainable_.graph,
      {.device_memory = 8_MiB, .disk = 8_MiB, .copy_threads = true, .threads = 1, .check_schedules = true}};
};

TEST_F(SwappedProgram, WaitsOnlyForEarlierStepsOfOtherLanesAndForEachOnce) {
  const Schedule& schedule = program().schedule;
  int waits = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    std::set<Lane> lanes;
    for (StepIndex wait : schedule.steps[i].waits) {
      ASSERT_LT(wait, static_cast<StepIndex>(i));
      const Lane lane = schedule.steps[static_cast<std::size_t>(wait)].lane;
      EXPECT_NE(lane, schedule.steps[i].lane);
      EXPECT_TRUE(lanes.insert(lane).second) << "one wait a lane is enough";
      ++waits;
    }
  }
  EXPECT_GT(waits, 50);
}

TEST_F(SwappedProgram, EveryWaitOfTheComputeLaneIsNeeded) {
  Executable& program = this->program();
  int tried = 0;
  for (Step& step : program.schedule.steps) {
    if (step.lane != Lane::compute) continue;
    for (std::size_t k = 0; k < step.waits.size(); ++k) {
      const auto sound = step.waits;
      step.waits.erase(step.waits.begin() + static_cast<std::ptrdiff_t>(k));
      EXPECT_THAT([&] { check(program); },
                  ThrowsMessage<InternalError>(ContainsRegex("same bytes of .* in any order")));
      step.waits = sound;
      ++tried;
    }
  }
  EXPECT_GT(tried, 10);
  EXPECT_NO_THROW(check(program));
}

TEST_F(SwappedProgram, ACopyIsIssuedBehindTheComputeStepThatStandsBeforeIt) {
  const Schedule& schedule = program().schedule;
  // What is over when a step is over, lane by lane, by the waits alone.
  std::vector<std::vector<StepIndex>> over(schedule.steps.size(), std::vector<StepIndex>(kNumLanes, -1));
  std::vector<StepIndex> last(kNumLanes, -1);
  const auto learn = [&](std::vector<StepIndex>& clock, StepIndex from) {
    if (from < 0) return;
    for (int lane = 0; lane < kNumLanes; ++lane) clock[lane] = std::max(clock[lane], over[from][lane]);
  };
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const int lane = static_cast<int>(step.lane);
    learn(over[i], last[lane]);
    for (StepIndex wait : step.waits) learn(over[i], wait);
    if (step.lane != Lane::compute) {
      EXPECT_GE(over[i][0], last[0]) << "step " << i;
    }
    over[i][lane] = last[lane] = static_cast<StepIndex>(i);
  }
}

TEST(Waits, AProgramOfOneLaneHasNone) {
  TrainableRandomModel trainable({.seed = 4});
  const RandomBatch batch = random_batch(trainable.model, 2, 0);
  Session session(trainable.graph, {.device_memory = 8_MiB, .threads = 1});
  engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
    return offload_at_random(list, tools, 11, 0.7, false);
  });
  const Program& program =
      whole_graph_program(session, {trainable.model.loss}, batch.feeds(trainable.model), trainable.training);
  EXPECT_GT(program.report.bytes_out, 0U);
  for (const Step& step : program.schedule.steps) EXPECT_TRUE(step.waits.empty());
}

}  // namespace
}  // namespace sectionflow
