// Nodes that run in several equal parts, one instruction each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "schedule/check_schedule.h"
#include "schedule/planning_tools.h"
#include "schedule/schedule.h"

namespace sectionflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// x[4, 2] -> a -> b, and what tests add.
struct Parts : testing::Test {
  Graph graph;
  Value x = placeholder(graph, "x", {4, 2});
  Value a = relu(x), b = tanh(a);
  Signature signature{.shapes = {{x.node().id(), Shape{4, 2}}}, .booleans = {}};
  InstructionList list{.passes = {Pass{}}, .instructions = {}, .entries = {}};

  void feed() { list.instructions.push_back({.kind = StepKind::feed, .node = x.node().id()}); }
  void compute(Value value, int part = 0, int parts = 1) {
    list.instructions.push_back({.node = value.node().id(), .part = part, .parts = parts});
  }
  void fetch(Value value) { list.instructions.push_back({.kind = StepKind::fetch, .fetched = value}); }
  Schedule lower() {
    list.half = static_cast<int>(list.instructions.size());
    const ConcreteGraph concrete(graph, signature);
    return lower_instructions(list, concrete, 1);
  }
  void chain(Value first, Value second, int parts) {
    for (int part = 0; part < parts; ++part) compute(first, part, parts), compute(second, part, parts);
  }
};

TEST_F(Parts, WhatOnlyTheSamePartReadsIsABufferAPartAndWhatOthersReadOneOfAll) {
  feed(), chain(a, b, 2), fetch(b);
  const Schedule schedule = lower();
  ASSERT_EQ(schedule.buffers.size(), 4U) << "x, a part of a, b, the other part of a";
  EXPECT_EQ(schedule.buffers[0].life, (Life{0, 3}));
  EXPECT_EQ(schedule.buffers[1].life, (Life{1, 2}));
  EXPECT_EQ(schedule.buffers[2].life, (Life{2, 5}));
  EXPECT_EQ(schedule.buffers[3].life, (Life{3, 4}));
  EXPECT_EQ(schedule.buffers[1].bytes, 16U);
  EXPECT_EQ(schedule.buffers[1].parts, 2);
  EXPECT_EQ(schedule.buffers[2].bytes, 32U);
  const auto place = [](const Operand& operand) { return std::pair(operand.offset, operand.bytes); };
  EXPECT_EQ(place(schedule.steps[1].inputs[0]), std::pair(std::size_t{0}, std::size_t{16}));
  EXPECT_EQ(place(schedule.steps[3].inputs[0]), std::pair(std::size_t{16}, std::size_t{16}));
  EXPECT_EQ(place(schedule.steps[2].inputs[0]), std::pair(std::size_t{0}, std::size_t{0})) << "all of its buffer";
  EXPECT_EQ(place(schedule.steps[4].outputs[0]), std::pair(std::size_t{16}, std::size_t{16}));
}

TEST_F(Parts, AValueThatSomebodyReadsAsAWholeIsWhole) {
  const Value sum = reduce_sum(a);
  feed(), chain(a, b, 2), compute(sum), fetch(sum);
  const Schedule schedule = lower();
  EXPECT_EQ(schedule.buffers[1].bytes, 32U);
  EXPECT_EQ(schedule.buffers[1].life, (Life{1, 5}));
}

TEST_F(Parts, AnotherNameOfAPartIsItsBuffersToo) {
  const Value flat = reshape(a, {2, 4}), c = tanh(flat);
  feed();
  for (int part = 0; part < 2; ++part) compute(a, part, 2), compute(flat, part, 2), compute(c, part, 2);
  fetch(c);
  const Schedule schedule = lower();
  ASSERT_EQ(schedule.buffers.size(), 4U);
  EXPECT_THAT(schedule.buffers[1].other_names, ElementsAre(flat));
  EXPECT_EQ(schedule.buffers[1].bytes, 16U);
}

TEST_F(Parts, WhatIsNotWrittenYetIsNotRead) {
  feed(), compute(a, 0, 2), compute(b), fetch(b);
  EXPECT_THROW(lower(), InternalError);
  list.instructions.clear();
  feed(), compute(a, 0, 2), compute(b, 1, 2), fetch(a);
  EXPECT_THROW(lower(), InternalError);
  list.instructions.clear();
  feed(), compute(a, 1, 2), fetch(a);
  EXPECT_THROW(lower(), InternalError) << "the second part without the first";
}

TEST_F(Parts, NothingRunsInPartsIntoWhichItsRowsDoNotGo) {
  feed(), compute(a, 0, 3), fetch(a);
  EXPECT_THROW(lower(), InternalError);
  list.instructions.clear();
  const Value sum = reduce_sum(x);
  feed(), compute(sum, 0, 2), fetch(sum);
  EXPECT_THROW(lower(), InternalError);
}

TEST_F(Parts, TheCheckFindsAnOutputThatLiesOverAnotherPartsInput) {
  feed(), chain(a, b, 2), fetch(b);
  list.half = static_cast<int>(list.instructions.size());
  const ConcreteGraph concrete(graph, signature);
  const std::unique_ptr<Device> device = make_device(cpu(), 1);
  const VariableLayout variables;
  PlanningTools tools(concrete, 1, variables, *device, {}, CopyCarrier::team, 0, 0);
  Draft draft = tools.draft(list);
  const auto check = [&] { check_schedule(draft.schedule, tools.kernels(), draft.storage, draft.plan, graph, 0); };
  EXPECT_NO_THROW(check());
  // b over x, of which the second part is still to be read.
  draft.plan.offsets[static_cast<std::size_t>(draft.storage.storage_of_buffer[2])] =
      draft.plan.offsets[static_cast<std::size_t>(draft.storage.storage_of_buffer[0])];
  EXPECT_THROW(check(), InternalError);
}

}  // namespace
}  // namespace sectionflow
