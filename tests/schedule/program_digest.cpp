#include "schedule/program_digest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"
#include "tests/support/schedule_editing.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// The steps for which `test` holds, found by looking at each.
std::vector<StepIndex> steps_that(const Schedule& schedule, const StepTest& test) {
  std::vector<StepIndex> steps;
  for (StepIndex i = find_step(schedule, test); i >= 0; i = find_step(schedule, test, i + 1)) steps.push_back(i);
  return steps;
}

/// Random training steps whose tensors are offloaded to host memory and to disk, with a half at a step of the middle.
struct Digested {
  explicit Digested(std::uint64_t seed, bool copy_threads) : trainable({.seed = seed, .min_layers = 5}) {
    session = std::make_unique<Session>(
        trainable.graph,
        SessionOptions{.device_memory = 8_MiB, .disk = 8_MiB, .copy_threads = copy_threads, .threads = 1});
    engine(*session).set_instruction_editor("random offloads", [seed](InstructionList list, PlanningTools& tools) {
      InstructionList offloaded = offload_at_random(list, tools, seed, 0.5, true);
      offloaded.half = static_cast<int>(offloaded.instructions.size() / 2);
      return offloaded;
    });
    session->initialize();
    const RandomBatch batch = random_batch(trainable.model, 3, 1);
    program = &whole_graph_program(*session, {trainable.model.loss}, batch.feeds(trainable.model), trainable.training);
  }

  TrainableRandomModel trainable;
  std::unique_ptr<Session> session;
  const Program* program = nullptr;
};

TEST(ProgramDigest, SaysWhatALookAtEveryStepSays) {
  std::size_t num_beside = 0, num_kept = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Digested d(seed, seed % 2 == 0);
    SCOPED_TRACE(d.trainable.model.text);
    const Schedule& schedule = d.program->schedule;
    const ProgramDigest& digest = d.program->digest;
    const auto by_kind = [&](StepKind kind) {
      return steps_that(schedule, [&](const Step& step) { return step.kind == kind; });
    };
    EXPECT_EQ(digest.feeds, by_kind(StepKind::feed));
    EXPECT_EQ(digest.fetches, by_kind(StepKind::fetch));
    EXPECT_EQ(digest.beside, steps_that(schedule, [](const Step& step) { return step.lane != Lane::compute; }));
    EXPECT_EQ(digest.pass_begins, (std::vector<StepIndex>{0})) << "a whole graph is one pass";
    EXPECT_EQ(digest.first_unplaced, -1);
    EXPECT_TRUE(digest.newest.is_in(d.trainable.graph));
    ForwardHalfFigures figures;
    std::size_t largest = 0;
    for (std::size_t i = 0; i < d.program->storage.storages.size(); ++i) {
      const Storage& storage = d.program->storage.storages[i];
      const bool on_device = storage.tier == Tier::device;
      if (on_device) largest = std::max(largest, storage.bytes);
      if (storage.life.first >= schedule.half) continue;
      std::size_t& end = figures.ends[static_cast<std::size_t>(storage.tier)];
      if (storage.bytes > 0) end = std::max(end, d.program->plan.offsets[i] + storage.bytes);
      if (on_device) figures.largest_device_bytes = std::max(figures.largest_device_bytes, storage.bytes);
      if (storage.life.last < schedule.half) ++figures.num_ended;
      if (storage.life.last >= schedule.half && on_device) figures.waiting_device_bytes += storage.bytes;
    }
    for (StepIndex i : by_kind(StepKind::copy_out)) {
      if (i < schedule.half) {
        figures.bytes_out += carried_buffer(schedule.steps[static_cast<std::size_t>(i)], schedule).bytes;
      }
    }
    EXPECT_EQ(digest.largest_device_bytes, largest);
    EXPECT_EQ(digest.forward.ends, figures.ends);
    EXPECT_EQ(digest.forward.largest_device_bytes, figures.largest_device_bytes);
    EXPECT_EQ(digest.forward.waiting_device_bytes, figures.waiting_device_bytes);
    EXPECT_EQ(digest.forward.bytes_out, figures.bytes_out);
    EXPECT_EQ(digest.forward.num_ended, figures.num_ended);
    num_beside += digest.beside.size();
    num_kept += figures.waiting_device_bytes > 0 && figures.bytes_out > 0 ? 1 : 0;
  }
  EXPECT_GT(num_beside, 20U);
  EXPECT_GT(num_kept, 5U) << "halves that leave something behind and send something away";
}

TEST(ProgramDigest, NamesTheFirstVariableWithoutAPlaceAndTheNewestNode) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value early = variable("early", fill(graph, {2}, 1));
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  const Value late = variable("late", fill(graph, {2}, 1)), later = variable("later", fill(graph, {2}, 1));
  const Value y = x * early, z = y * later * late;
  EXPECT_EQ(engine(session).whole_program({y}, {{x, Shape{2}}}).digest.first_unplaced, -1);
  EXPECT_EQ(engine(session).whole_program({y}, {{x, Shape{2}}}).digest.newest.id, y.node().id());
  EXPECT_EQ(engine(session).whole_program({z}, {{x, Shape{2}}}).digest.first_unplaced, later.node().id());
  EXPECT_EQ(engine(session).whole_program({z}, {{x, Shape{2}}}).digest.newest.id, z.node().id());
  EXPECT_EQ(engine(session).whole_program({late}).digest.first_unplaced, late.node().id())
      << "fetched, and nothing else";
}

TEST(ProgramDigest, StepsBetweenAreThoseOfTheRangeWithoutItsEnd) {
  const std::vector<StepIndex> steps = {2, 3, 7};
  const auto between = [&](StepIndex first, StepIndex last) {
    const auto found = steps_between(steps, first, last);
    return std::vector<StepIndex>(found.begin(), found.end());
  };
  EXPECT_EQ(between(0, 8), steps);
  EXPECT_EQ(between(3, 7), (std::vector<StepIndex>{3}));
  EXPECT_EQ(between(4, 7), (std::vector<StepIndex>{}));
  EXPECT_EQ(between(7, 7), (std::vector<StepIndex>{}));
  EXPECT_EQ(between(8, 9), (std::vector<StepIndex>{}));
  EXPECT_TRUE(steps_between({}, 0, 9).empty());
}

}  // namespace
}  // namespace sectionflow
