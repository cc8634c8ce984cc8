// The budget at its edges, and the measured against the planned peak.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/runtime/variables.h"
#include "tests/support/random_graph.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;

constexpr std::size_t kRoomy = 16_MiB;

TEST(Budget, TrainingRunsAtThePlannedPeakAndGivesTheSameBits) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    TrainableRandomModel t({.seed = seed});
    SCOPED_TRACE(t.model.text);
    const RandomBatch batch = random_batch(t.model, 4, seed);
    Session roomy(t.graph, {.device_memory = kRoomy, .threads = 1});
    const ProgramReport report = roomy.plan({t.model.loss}, batch.types(t.model), t.training);
    Session tight(t.graph, {.device_memory = report.planned_peak_bytes, .threads = 1});
    roomy.initialize();
    tight.initialize();
    for (int step = 0; step < 2; ++step) {
      const HostTensor a = roomy.run(t.model.loss, batch.feeds(t.model), t.training);
      const HostTensor b = tight.run(t.model.loss, batch.feeds(t.model), t.training);
      ASSERT_TRUE(bitwise_equal(a, b));
    }
    ASSERT_TRUE(differing(variables_of(roomy), variables_of(tight)).empty());
  }
}

TEST(Budget, OneByteLessIsRefusedBeforeAnythingRuns) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    TrainableRandomModel t({.seed = seed});
    SCOPED_TRACE(t.model.text);
    const RandomBatch batch = random_batch(t.model, 4, seed);
    const ProgramReport report = Session(t.graph, {.device_memory = kRoomy, .threads = 1})
                                     .plan({t.model.loss}, batch.types(t.model), t.training);
    Session session(t.graph, {.device_memory = report.planned_peak_bytes - 1, .threads = 1});
    session.initialize();
    const auto before = variables_of(session);
    try {
      session.run(t.model.loss, batch.feeds(t.model), t.training);
      FAIL() << "no error with a byte too little";
    } catch (const BudgetError& error) {
      EXPECT_EQ(error.minimum_bytes, report.planned_peak_bytes);
      EXPECT_EQ(error.budget_bytes, report.planned_peak_bytes - 1);
      const std::string text = error.what();
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
      EXPECT_THAT(text, HasSubstr("SF-E101"));
      EXPECT_THAT(text, HasSubstr("fullest at: " + report.fullest_step));
      EXPECT_THAT(text, HasSubstr(report.largest_live.at(0).name));
      EXPECT_THAT(text, HasSubstr(report.largest_live.at(0).type));
      EXPECT_THAT(text, HasSubstr(text_of("device_memory of ", report.planned_peak_bytes, " bytes")));
      EXPECT_THAT(text, HasSubstr("hint:"));
    }
    EXPECT_TRUE(differing(before, variables_of(session)).empty());
    EXPECT_EQ(session.completed_cycles(), 0u);
    EXPECT_EQ(session.executions(t.model.loss.node()), 0);
    // What fits still runs.
    EXPECT_NO_THROW(session.run(t.graph.values(kVariables).front()));
  }
}

TEST(Budget, VariablesThatDoNotFitAreRefusedByInitialize) {
  Graph graph;
  const Value w = variable("w", fill(graph, {1000}, 1));
  Session session(graph, {.device_memory = 3999, .threads = 1});
  EXPECT_THROW(session.initialize(), BudgetError);
  EXPECT_THROW(session.read(w), ArgumentError) << "and stay without a value";
}

TEST(Budget, TheFullestStepIsNamedWithItsOperationAndLargestTensors) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 100});
  const Value small = dense(x, {.features = 2, .name = "small"});
  const Value large = dense(small, {.features = 5000, .bias = false, .name = "large"});
  Session session(graph, {.device_memory = kRoomy, .threads = 1});
  const ProgramReport report = session.plan({large}, {{x, Shape{10, 100}}});
  EXPECT_THAT(report.fullest_step, HasSubstr("matmul 'large/matmul'"));
  EXPECT_THAT(report.fullest_step, HasSubstr("whole graph"));
  ASSERT_FALSE(report.largest_live.empty());
  EXPECT_EQ(report.largest_live[0].name, "large/matmul");
  EXPECT_EQ(report.largest_live[0].type, "f32[10,5000]") << "the concrete type";
  EXPECT_EQ(report.largest_live[0].bytes, 200000u);
  EXPECT_TRUE(std::is_sorted(report.largest_live.begin(), report.largest_live.end(),
                             [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; }));
}

TEST(Budget, TheMeasuredPeakIsThePlannedPeakToTheByte) {
  for (std::uint64_t seed = 100; seed < 160; ++seed) {
    TrainableRandomModel t({.seed = seed});
    SCOPED_TRACE(t.model.text);
    Session session(t.graph,
                    {.device_memory = 4_MiB, .threads = 1 + static_cast<int>(seed % 2), .poison = seed % 5 == 0});
    session.initialize();
    session.set_measuring(true);
    const RandomBatch batch = random_batch(t.model, 1 + static_cast<std::int64_t>(seed % 7), seed);
    session.run(t.model.loss, batch.feeds(t.model), t.training);
    ASSERT_EQ(session.statistics().measured_peak_bytes, session.statistics().planned_peak_bytes) << "training";
    session.run(std::pair{t.model.logits, t.model.activations}, batch.feeds(t.model, false));
    ASSERT_EQ(session.statistics().measured_peak_bytes, session.statistics().planned_peak_bytes) << "evaluation";
    session.set_measuring(false);
    session.run(t.model.logits, batch.feeds(t.model, false));
    ASSERT_EQ(session.statistics().measured_peak_bytes, 0u);
  }
}

TEST(Budget, AProgramWithoutBuffersNeedsItsVariablesOnly) {
  Graph graph;
  const Value w = variable("w", fill(graph, {100}, 2));
  const Value v = variable("v", fill(graph, {3}, 2));
  Session session(graph, {.device_memory = kRoomy, .threads = 1});
  session.initialize();
  session.set_measuring(true);
  const auto [a, b] = session.run({w, v});
  EXPECT_EQ(a.values<float>()[99], 2);
  EXPECT_EQ(b.values<float>()[2], 2);
  const Statistics& statistics = session.statistics();
  EXPECT_EQ(statistics.planned_peak_bytes, 512u + 12u) << "400 bytes, rounded up, and 12";
  EXPECT_EQ(statistics.measured_peak_bytes, statistics.planned_peak_bytes);
}

TEST(Budget, InitialValuesNeedRoomBesideTheirVariables) {
  Graph graph;
  const Value w = variable("w", fill(graph, {100}, 3));
  Session tight(graph, {.device_memory = 400, .threads = 1});
  EXPECT_TRUE(tight.plan({w}).fits);
  EXPECT_EQ(tight.plan({w}).planned_peak_bytes, 400u);
  try {
    tight.initialize();
    FAIL() << "no error";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.minimum_bytes, 512u + 400u) << "the initial value lies behind the variable";
  }
  Session enough(graph, {.device_memory = 912, .threads = 1});
  EXPECT_NO_THROW(enough.initialize());
}

TEST(Budget, AnEmptyProgramRuns) {
  Graph graph;
  Session session(graph, {.device_memory = 256, .threads = 1});
  session.initialize();
  session.set_measuring(true);
  EXPECT_TRUE(session.run(std::vector<Value>{}).empty());
  EXPECT_EQ(session.statistics().planned_peak_bytes, 0u);
  EXPECT_EQ(session.statistics().measured_peak_bytes, 0u);
}

}  // namespace
}  // namespace sectionflow
