#include "swap/planned_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/bytes.h"
#include "fit/insert_swaps.h"
#include "runtime/engine.h"
#include "swap/measure_profile.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;

struct PlannedCase {
  explicit PlannedCase(bool with_offloads,
                       SessionOptions options = {.device_memory = 4_MiB, .disk = 4_MiB, .threads = 1})
      : session(trainable.graph, options) {
    if (with_offloads) {
      engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
        return offload_at_random(list, tools, 5, 0.7, true);
      });
    }
  }
  ProgramReport plan() {
    return session.plan({trainable.model.loss}, types_of(batch.feeds(trainable.model)), trainable.training);
  }
  void run() { session.run(trainable.model.loss, batch.feeds(trainable.model), trainable.training); }

  TrainableRandomModel trainable{{.seed = 3}};
  RandomBatch batch = random_batch(trainable.model, 2, 0);
  Session session;
};

auto without_times(const Trace::Event& event) {
  return std::tuple(event.step, event.node, event.pass.text(), event.replay, event.cycle, event.live_bytes, event.kind,
                    event.lane, event.offload, event.bytes, event.program, event.variable_bytes, event.host_bytes,
                    event.disk_bytes, event.output_bytes, event.workspace_bytes);
}

TEST(PlannedTrace, IsTheMeasuredOneButForTheTimes) {
  for (const bool with_offloads : {false, true}) {
    PlannedCase planned(with_offloads);
    planned.session.initialize();
    planned.plan();
    const Trace expected = planned_trace(planned.session);
    Trace measured;
    planned.session.set_trace(&measured);
    planned.run();
    const auto by_step = [](const Trace& trace) {
      std::map<int, decltype(without_times(Trace::Event{}))> steps;
      for (const Trace::Event& event : trace.events()) steps.emplace(event.step, without_times(event));
      return steps;
    };
    EXPECT_EQ(by_step(expected), by_step(measured));
    EXPECT_EQ(expected.events().size(), measured.events().size());
    EXPECT_EQ(expected.machine().device, measured.machine().device);
    EXPECT_EQ(expected.machine().device_memory, 4_MiB);
  }
}

TEST(PlannedTrace, StepsOfALaneFollowEachOtherAndAllComeByTheirEnds) {
  PlannedCase planned(true, {.device_memory = 4_MiB, .disk = 4_MiB, .copy_threads = true, .threads = 1});
  planned.plan();
  const Trace trace = planned_trace(planned.session);
  std::array<double, kNumLanes> ends{};
  double last_end = 0;
  for (const Trace::Event& event : trace.events()) {
    double& lane_end = ends[static_cast<std::size_t>(event.lane)];
    EXPECT_GE(event.start_us, lane_end - 1e-6);
    lane_end = event.start_us + event.duration_us;
    EXPECT_GE(lane_end, last_end);
    last_end = lane_end;
    EXPECT_GE(event.duration_us, 0);
  }
  EXPECT_GT(std::count_if(ends.begin(), ends.end(), [](double end) { return end > 0; }), 3);
}

TEST(PlannedTrace, LastsAsLongAsThePlannerPredicts) {
  PlannedCase planned(false, {.device_memory = 4_MiB, .threads = 1});
  insert_swaps(planned.session);
  const ProgramReport report = planned.plan();
  const Trace trace = planned_trace(planned.session);
  const Trace::Event& last = trace.events().back();
  EXPECT_NEAR(last.start_us + last.duration_us, 1e6 * report.predicted_seconds, 1e-3);
}

TEST(PlannedTrace, GoesByTheProfile) {
  PlannedCase planned(false);
  planned.plan();
  Profile slow = Profile::nominal();
  slow.launch_seconds = 1;
  const Trace trace = planned_trace(planned.session, slow);
  for (const Trace::Event& event : trace.events()) {
    if (event.kind != StepKind::compute) continue;
    EXPECT_GE(event.duration_us, 1e6 - 1);
  }
}

TEST(PlannedTrace, IsDrawnAsAMeasuredOne) {
  PlannedCase planned(true);
  planned.plan();
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "plan.json").string();
  planned_trace(planned.session).write(path, planned.trainable.graph);
  const auto written = nlohmann::json::parse(bytes_of_file(path));
  std::size_t slices = 0;
  for (const auto& event : written.at("traceEvents")) slices += event.at("ph") == "X" && event.at("cat") != "pass";
  EXPECT_EQ(slices, planned_trace(planned.session).events().size());
}

TEST(PlannedTrace, OfASessionThatHasPlannedNothingIsRefused) {
  Graph graph;
  const Session session(graph);
  EXPECT_THAT(error_text<ArgumentError>([&] { (void)planned_trace(session); }), HasSubstr("plan()"));
}

}  // namespace
}  // namespace sectionflow
