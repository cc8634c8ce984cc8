// Where the readers of what communicates stand.

#include "schedule/put_off_readers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/ops/matmul.h"
#include "runtime/check_feeds.h"
#include "runtime/engine.h"
#include "schedule/build_schedule.h"
#include "schedule/node_parts.h"
#include "sectionflow.h"
#include "tests/support/ranked_training.h"

namespace sectionflow::put_off_tests {
namespace {

using ::testing::ElementsAre;

/// Of so many products, each in a section or all in none, the steps of a training cycle that concern other ranks:
/// "reduce 2" where the gradient of product 2 is reduced, "gradient 1" where it is made, "update 0".
std::vector<std::string> steps(int products, bool in_sections, TrainingOptions options = {.ranks = 2}) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {3, 2});
  Value y = x, loss;
  for (int i = 0; i < products; ++i) {
    const auto section = manager.new_section();
    y = matmul(y, variable(text_of("w", i), fill(graph, {2, 2}, 0.5F)));
  }
  {
    const auto section = manager.new_section();
    loss = mean(square(y));
  }
  const std::vector<GradientAndVariable> pairs = compute_gradients(loss);
  manager.add_training_ops(Sgd{}, pairs, options);
  manager.prepare_training();
  Session session(graph, {.threads = 1, .check_schedules = true});
  if (in_sections) {
    (void)manager.plan(session, {}, {{x, Shape{3, 2}}});
  } else {
    (void)session.plan({}, {{x, Shape{3, 2}}}, {.targets = manager.training_operations()});
  }
  std::vector<std::string> found;
  for (const Step& step : engine(session).latest_program()->schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const Node& node = graph.node(step.node);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (&node == &pairs[i].gradient.node()) found.push_back(text_of("gradient ", i));
      if (node.op().communicates && node.inputs()[0] == pairs[i].gradient) found.push_back(text_of("reduce ", i));
      if (node.op().is_update() && node.inputs()[0] == pairs[i].variable) found.push_back(text_of("update ", i));
    }
  }
  return found;
}

TEST(PutOffReaders, UpdatesOfASectionStandBehindTheBackwardRunOfTheNext) {
  EXPECT_THAT(steps(4, true), ElementsAre("gradient 3", "reduce 3", "gradient 2", "reduce 2", "update 3", "gradient 1",
                                          "reduce 1", "update 2", "gradient 0", "reduce 0", "update 1", "update 0"));
}

TEST(PutOffReaders, WithoutSectionsUpdatesStandBehindTheNextCommunications) {
  EXPECT_THAT(steps(6, false), ElementsAre("gradient 5", "reduce 5", "gradient 4", "reduce 4", "gradient 3", "reduce 3",
                                           "gradient 2", "reduce 2", "gradient 1", "update 5", "update 4", "reduce 1",
                                           "gradient 0", "reduce 0", "update 3", "update 2", "update 1", "update 0"));
}

TEST(PutOffReaders, WithOneRankUpdatesStandBehindTheirGradients) {
  EXPECT_THAT(steps(2, true, {}), ElementsAre("gradient 1", "update 1", "gradient 0", "update 0"));
}

TEST(PutOffReaders, WhatNeedsAllGradientsComesLast) {
  EXPECT_THAT(steps(2, true, {.clip_norm = 1.0F, .ranks = 2}),
              ElementsAre("gradient 1", "reduce 1", "gradient 0", "reduce 0", "update 1", "update 0"));
}

TEST(PutOffReaders, GradientsOfTwoSectionsAreThereAtATime) {
  // Parameters of 40 KB a section beside next to nothing else.
  const auto peak = [](int sections, int ranks) {
    Graph graph;
    GraphSectionManager manager(graph);
    const Value x = placeholder(graph, "x", {1, 100});
    Value y = x;
    for (int i = 0; i < sections; ++i) {
      const auto section = manager.new_section();
      y = dense(y, {.features = 100, .bias = false});
      if (i + 1 == sections) y = mean(square(y));
    }
    manager.add_training_ops(Sgd{}, y, {.ranks = ranks});
    manager.prepare_training();
    Session session(graph, {.threads = 1});
    return manager.plan(session, {}, {{x, Shape{1, 100}}}).transient_bytes;
  };
  constexpr std::size_t kGradient = 40'000, kLittle = 16'000;
  EXPECT_LE(peak(5, 2), 2 * kGradient + kLittle + Communicator::reduce_workspace(kGradient / 4, 2));
  EXPECT_LT(peak(9, 2), peak(5, 2) + kLittle);
}

bool share(const std::vector<Operand>& some, const std::vector<Operand>& others) {
  return std::any_of(some.begin(), some.end(), [&](const Operand& each) {
    return each.kind != Operand::Kind::none && std::find(others.begin(), others.end(), each) != others.end();
  });
}

/// In the training cycle of a net of several layers, each a section.
void expect_waits_of_readers_alone(TrainingOptions options) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4, 200});
  Value y = x;
  for (int i = 0; i < 5; ++i) {
    const auto section = manager.new_section();
    y = relu(dense(y, {.features = 200}));
    if (i == 4) y = mean(square(y));
  }
  manager.add_training_ops(Adam{}, y, options);
  manager.prepare_training();
  Session session(graph, {.threads = 1, .check_schedules = true});
  (void)manager.plan(session, {}, {{x, Shape{4, 200}}});
  const Schedule& schedule = engine(session).latest_program()->schedule;
  std::set<int> scratch;
  for (const Step& step : schedule.steps) {
    if (step.lane == Lane::communicate) scratch.insert(step.workspace.index);
    if (step.lane == Lane::communicate) continue;
    for (const StepIndex wait : step.waits) {
      const Step& sum = schedule.steps[static_cast<std::size_t>(wait)];
      // A counter of micro-batches that the sum reads is changed behind it.
      EXPECT_TRUE(share(sum.outputs, step.inputs) || share(sum.inputs, step.updated))
          << label_of(step, graph) << " waits for a sum that it does not read";
    }
  }
  EXPECT_EQ(scratch.size(), 1U);
}

TEST(PutOffReaders, WhatIsComputedWaitsForNoSumThatItDoesNotRead) {
  expect_waits_of_readers_alone({.ranks = 2});
  expect_waits_of_readers_alone({.micro_batches = 2, .ranks = 2});
}

TEST(PutOffReaders, CommunicationsAreOfALaneOfTheirOwn) {
  const auto thrown = testing::on_ranks(2, [](std::shared_ptr<Communicator> communicator) {
    Graph graph;
    const Value x = placeholder(graph, "x", {2}), w = variable("w", fill(graph, {2}, 1.0F));
    const Updates updates = training_updates(Sgd{}, mean(w * x), {.ranks = 2});
    Session session(graph, {.threads = 1, .communicator = std::move(communicator), .check_schedules = true});
    session.initialize();
    Trace trace;
    session.set_trace(&trace);
    session.run({{x, HostTensor(Dtype::f32, {2})}}, {.targets = updates.operations});
    int communications = 0;
    for (const Trace::Event& event : trace.events()) communications += event.lane == Lane::communicate ? 1 : 0;
    EXPECT_EQ(communications, 1);
  });
  EXPECT_THAT(thrown, ::testing::Each(""));
}

}  // namespace
}  // namespace sectionflow::put_off_tests
