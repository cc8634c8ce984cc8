#include "schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "schedule/build_schedule.h"
#include "schedule/prepare_kernels.h"

namespace sectionflow {
namespace {

/// x -> a -> b, of 4 numbers each.
struct ThreeValues {
  Graph graph;
  Value x = placeholder(graph, "x", {2, 2});
  Value a = relu(x), b = a + x;
  Signature signature{.shapes = {{x.node().id(), Shape{2, 2}}}, .booleans = {}};
  ConcreteGraph concrete{graph, signature};
  InstructionList list{.passes = {Pass{}}, .instructions = {}, .entries = {}, .half = 0};

  /// To be called when nodes have been added.
  void renew() { concrete = ConcreteGraph(graph, signature); }
  void feed(Value value) { list.instructions.push_back({.kind = StepKind::feed, .node = value.node().id()}); }
  void compute(Value value) { list.instructions.push_back({.kind = StepKind::compute, .node = value.node().id()}); }
  void fetch(Value value, int slot = 0) {
    list.instructions.push_back({.kind = StepKind::fetch, .fetched = value, .fetch_slot = slot});
  }
  void hold(Value value) { list.instructions.push_back({.kind = StepKind::hold, .fetched = value}); }
  Schedule lower(std::size_t num_fetches = 0) { return lower_instructions(list, concrete, num_fetches); }
};

TEST(LowerInstructions, ABufferLivesFromItsWriterToItsLastReader) {
  ThreeValues f;
  f.feed(f.x), f.compute(f.a), f.compute(f.b), f.fetch(f.b);
  const Schedule schedule = f.lower(1);
  ASSERT_EQ(schedule.buffers.size(), 3u);
  EXPECT_EQ(schedule.buffers[0].life, (Life{0, 2})) << "x";
  EXPECT_EQ(schedule.buffers[1].life, (Life{1, 2})) << "a";
  EXPECT_EQ(schedule.buffers[2].life, (Life{2, 3})) << "b";
  for (const Buffer& buffer : schedule.buffers) EXPECT_EQ(buffer.bytes, 16u);
  EXPECT_EQ(schedule.feeds, std::vector<NodeId>{f.x.node().id()});
  EXPECT_EQ(schedule.fetches[0].value, f.b);
  EXPECT_EQ(schedule.fetches[0].bytes, 16u);
}

TEST(LowerInstructions, EveryWriteBeginsANewBuffer) {
  ThreeValues f;
  f.feed(f.x), f.compute(f.a), f.fetch(f.a, 0);
  f.feed(f.x), f.compute(f.a), f.fetch(f.a, 1);
  const Schedule schedule = f.lower(2);
  ASSERT_EQ(schedule.buffers.size(), 4u);
  EXPECT_EQ(schedule.buffers[0].life, (Life{0, 1}));
  EXPECT_EQ(schedule.buffers[1].life, (Life{1, 2}));
  EXPECT_EQ(schedule.buffers[2].life, (Life{3, 4}));
  EXPECT_EQ(schedule.buffers[3].life, (Life{4, 5}));
  EXPECT_EQ(schedule.steps[5].inputs[0].index, 3) << "a reader reads what was written last";
  EXPECT_EQ(schedule.feeds.size(), 1u) << "fed once, copied in twice";
}

TEST(LowerInstructions, AValueThatNobodyReadsLivesForItsOwnStep) {
  ThreeValues f;
  f.feed(f.x), f.compute(f.a);
  EXPECT_EQ(f.lower().buffers[1].life, (Life{1, 1}));
}

TEST(LowerInstructions, AHeldValueLivesUpToItsInstruction) {
  ThreeValues f;
  f.feed(f.x), f.compute(f.a), f.compute(f.b), f.hold(f.a);
  EXPECT_EQ(f.lower().buffers[1].life, (Life{1, 3}));
}

TEST(LowerInstructions, EntriesBeginBeforeTheFirstStepAtTheirPlace) {
  ThreeValues f;
  f.list.entries = {{f.x, 512}};
  f.compute(f.a), f.compute(f.b);
  const Schedule schedule = f.lower();
  EXPECT_EQ(schedule.buffers[0].fixed_offset, std::optional<std::size_t>(512));
  EXPECT_EQ(schedule.buffers[0].life, (Life{0, 1}));
  EXPECT_TRUE(schedule.feeds.empty());
}

TEST(LowerInstructions, AnIdentityIsAnotherNameOfTheBufferThatItsReadersKeepAlive) {
  ThreeValues f;
  const Value flat = reshape(f.a, {4});
  const Value c = relu(flat);
  f.renew();
  f.feed(f.x), f.compute(f.a), f.compute(flat), f.compute(f.b), f.compute(c);
  const Schedule schedule = f.lower();
  ASSERT_EQ(schedule.steps.size(), 4u) << "the reshape is no step";
  ASSERT_EQ(schedule.buffers.size(), 4u);
  EXPECT_EQ(schedule.buffers[1].value, f.a);
  EXPECT_EQ(schedule.buffers[1].other_names, std::vector<Value>{flat});
  EXPECT_EQ(schedule.buffers[1].life, (Life{1, 3}));
  EXPECT_EQ(schedule.steps[3].inputs[0], (Operand{Operand::Kind::buffer, 1}));
}

TEST(LowerInstructions, WhatChangesNothingUnderItsTypesAndBooleansIsAnIdentity) {
  ThreeValues f;
  const Value same = broadcast_to(f.a, {2, 2}), repeated = broadcast_to(f.a, {3, 2, 2});
  const Value no = constant(f.graph, HostTensor::scalar(false)), yes = constant(f.graph, HostTensor::scalar(true));
  const Value evaluated = dropout(same, no), trained = dropout(evaluated, yes);
  f.renew();
  EXPECT_FALSE(f.concrete.is_identity(repeated.node().id()));
  EXPECT_FALSE(f.concrete.is_identity(trained.node().id()));
  f.feed(f.x), f.compute(f.a), f.compute(same), f.compute(evaluated), f.compute(trained);
  const Schedule schedule = f.lower();
  ASSERT_EQ(schedule.steps.size(), 3u);
  EXPECT_EQ(schedule.buffers[1].other_names, (std::vector<Value>{same, evaluated}));
}

TEST(LowerInstructions, AnIdentityOfAVariableIsCopiedSinceAnUpdateMayComeBeforeItsReaders) {
  ThreeValues f;
  const Value w = variable("w", fill(f.graph, {2, 2}, 1));
  const Value flat = reshape(w, {4});
  f.renew();
  f.compute(flat);
  const Schedule schedule = f.lower();
  ASSERT_EQ(schedule.steps.size(), 1u);
  EXPECT_EQ(schedule.steps[0].inputs[0].kind, Operand::Kind::variable);
}

TEST(LowerInstructions, TheHalfIsCountedInStepsNotInInstructions) {
  ThreeValues f;
  const Value flat = reshape(f.a, {4});
  f.renew();
  f.feed(f.x), f.compute(f.a), f.compute(flat);
  f.list.half = 3;
  f.compute(f.b);
  EXPECT_EQ(f.lower().half, 2);
  f.list.half = 4;
  EXPECT_EQ(f.lower().half, 3);
}

TEST(LowerInstructions, AnEntryBringsItsOtherNames) {
  ThreeValues f;
  const Value flat = reshape(f.a, {4});
  const Value c = relu(flat);
  f.renew();
  f.list.entries = {{f.a, 256, {flat}}};
  f.compute(c);
  const Schedule schedule = f.lower();
  EXPECT_EQ(schedule.steps[0].inputs[0], (Operand{Operand::Kind::buffer, 0}));
  EXPECT_EQ(schedule.buffers[0].other_names, std::vector<Value>{flat});
}

TEST(LowerInstructions, ReadingWhatNobodyHasWrittenIsRefused) {
  ThreeValues f;
  f.compute(f.a);
  EXPECT_THAT([&] { f.lower(); }, testing::ThrowsMessage<InternalError>(testing::HasSubstr("reads 'x'")));
}

TEST(LowerInstructions, VariablesAreReadAndUpdatedInTheirOwnPlace) {
  ThreeValues f;
  const Value w = variable("w", fill(f.graph, {2, 2}, 1));
  const Value sum = f.x + w;
  const Operation update = assign_add(w, sum);
  f.renew();
  f.feed(f.x), f.compute(sum), f.list.instructions.push_back({.node = update.node().id()});
  const Schedule schedule = f.lower();
  const Operand variable{Operand::Kind::variable, w.node().id()};
  EXPECT_EQ(schedule.steps[1].inputs[1], variable);
  EXPECT_EQ(schedule.steps[2].updated, std::vector<Operand>{variable});
  EXPECT_EQ(schedule.buffers.size(), 2u) << "a variable is no buffer";
}

TEST(LowerInstructions, AReplayReadsItsKeptOutputs) {
  ThreeValues f;
  const Value flag = constant(f.graph, HostTensor::scalar(true));
  const auto fill2 = [&](double value) { return fill(f.graph, {2}, value); };
  const Value scale = fill2(1), shift = fill2(0);
  const BatchNormResult norm = batch_norm(f.x, scale, shift, fill2(0), fill2(1), flag);
  f.renew();
  f.feed(f.x), f.compute(scale), f.compute(shift);
  f.compute(norm.y);
  f.list.instructions.push_back({.node = norm.y.node().id(), .replay = true});
  f.fetch(norm.y);
  const Schedule schedule = f.lower(1);
  const Step &first = schedule.steps[3], &again = schedule.steps[4];
  EXPECT_NE(first.outputs[0], again.outputs[0]) << "y is written into a new buffer";
  EXPECT_EQ(first.outputs[1], again.outputs[1]) << "mean";
  EXPECT_EQ(first.outputs[2], again.outputs[2]) << "variance";
  EXPECT_EQ(schedule.buffers[static_cast<std::size_t>(first.outputs[1].index)].life, (Life{3, 4}));
}

TEST(PrepareKernels, ScratchIsBookedForOneStepOnly) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 16});
  const Value y = relu(conv2d(x, {.features = 16}));
  const Signature signature{.shapes = {{x.node().id(), x.shape()}}, .booleans = {}};
  const ConcreteGraph concrete(graph, signature);
  Schedule schedule = lower_instructions(build_schedule(concrete, {{y}, {}}), concrete, 1);
  const std::size_t num_values = schedule.buffers.size();
  const auto device = make_device(cpu(), 1);
  KernelCache cache(concrete, *device);
  cache.prepare(schedule);
  const auto& kernels = cache.kernels();
  std::size_t booked = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    const std::size_t wanted = kernels[static_cast<std::size_t>(step.slot)]->workspace_bytes();
    EXPECT_EQ(step.workspace.kind == Operand::Kind::buffer, wanted > 0);
    if (wanted == 0) continue;
    ++booked;
    const Buffer& scratch = schedule.buffers[static_cast<std::size_t>(step.workspace.index)];
    EXPECT_FALSE(scratch.value.valid());
    EXPECT_EQ(scratch.life, (Life{static_cast<StepIndex>(i), static_cast<StepIndex>(i)}));
    EXPECT_GE(scratch.bytes, wanted + kScratchGuardBytes);
  }
  EXPECT_EQ(schedule.buffers.size(), num_values + booked);
}

TEST(Pass, TextNamesKindAndSection) {
  EXPECT_EQ((Pass{Pass::Kind::whole, kNoGroup}).text(), "whole graph");
  EXPECT_EQ((Pass{Pass::Kind::forward, 0}).text(), "forward 0");
  EXPECT_EQ((Pass{Pass::Kind::recompute, 2}).text(), "forward 2 (again)");
  EXPECT_EQ((Pass{Pass::Kind::backward, 1}).text(), "backward 1");
}

}  // namespace
}  // namespace sectionflow
