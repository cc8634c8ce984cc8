#include "schedule/check_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/support/random_graph.h"
#include "tests/support/schedule_editing.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CheckSchedule, AcceptsEveryCompiledProgramOfRandomGraphs) {
  int num_convolutions = 0, num_norms = 0, num_dense = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    TrainableRandomModel trainable({.seed = seed});
    const RandomModel& model = trainable.model;
    SCOPED_TRACE(model.text);
    // A checked program that is wrong throws.
    Session session(trainable.graph,
                    {.device_memory = 8_MiB, .threads = 1, .poison = seed % 3 == 0, .check_schedules = true});
    const RandomBatch batch = random_batch(model, 2 + static_cast<std::int64_t>(seed % 3), seed);
    ASSERT_NO_THROW(session.plan({model.loss}, batch.types(model), trainable.training));
    ASSERT_NO_THROW(session.plan({model.loss, model.activations.front(), model.images}, batch.types(model, false)));
    ASSERT_NO_THROW(session.plan(trainable.graph.values(kVariables), batch.types(model), trainable.training));
    num_convolutions += model.text.find("conv") != std::string::npos;
    num_norms += model.text.find("norm") != std::string::npos;
    num_dense += model.text.find("dense") != std::string::npos;
  }
  EXPECT_GT(std::min({num_convolutions, num_norms, num_dense}), 40) << "the graphs cover what matters";
}

/// A training program of a random graph, whole and checked, to plant faults in.
class PlantedFault : public testing::Test {
 protected:
  PlantedFault() { check(); }

  void check() const {
    check_schedule(program_.schedule, program_.kernels, program_.storage, program_.plan, trainable_.graph, 0);
  }
  auto checking() const {
    return [this] { check(); };
  }
  /// Plans again after an edit.
  void plan_again() {
    program_.storage = assign_storages(program_.schedule, program_.kernels, 0);
    program_.plan = plan_memory(program_.storage.storages);
  }
  const Storage& storage_of(int buffer) const {
    return program_.storage
        .storages[static_cast<std::size_t>(program_.storage.storage_of_buffer[static_cast<std::size_t>(buffer)])];
  }

  TrainableRandomModel trainable_{{.seed = 11, .min_layers = 6}};
  RandomBatch batch_ = random_batch(trainable_.model, 3, 1);
  Session session_{trainable_.graph, {.device_memory = 8_MiB, .threads = 1}};
  Executable& program_ =
      whole_graph_program(session_, {trainable_.model.loss}, batch_.feeds(trainable_.model), trainable_.training);
};

TEST_F(PlantedFault, TwoLiveBuffersThatOverlapAreFound) {
  // Every pair of storages of overlapping lives, put at one place, must be refused.
  const auto& storages = program_.storage.storages;
  const std::vector<std::size_t> sound = program_.plan.offsets;
  int planted = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    for (std::size_t j = i + 1; j < storages.size() && j < i + 6; ++j) {
      if (!storages[i].life.overlaps(storages[j].life) || storages[i].bytes == 0 || storages[j].bytes == 0) continue;
      program_.plan.offsets[j] = sound[i];
      ASSERT_THROW(check(), InternalError) << "storages " << i << " and " << j;
      program_.plan.offsets[j] = sound[j];
      ++planted;
    }
  }
  EXPECT_GT(planted, 50);
  EXPECT_NO_THROW(check());
}

TEST_F(PlantedFault, AnOverlapOfTheLastBytesIsFound) {
  const auto& storages = program_.storage.storages;
  const std::vector<std::size_t> sound = program_.plan.offsets;
  int planted = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].bytes <= kBufferAlignment) continue;
    for (std::size_t j = 0; j < storages.size(); ++j) {
      if (j == i || !storages[i].life.overlaps(storages[j].life) || storages[j].bytes == 0) continue;
      program_.plan.offsets[j] = sound[i] + round_up(storages[i].bytes) - kBufferAlignment;
      ASSERT_THROW(check(), InternalError) << "storage " << j << " over the end of " << i;
      program_.plan.offsets[j] = sound[j];
      ++planted;
    }
  }
  EXPECT_GT(planted, 50);
}

TEST_F(PlantedFault, AShortenedLifeIsFoundWhereItsBytesAreReused) {
  int found = 0, candidates = 0;
  const Schedule sound = program_.schedule;
  for (std::size_t i = 0; i < sound.buffers.size(); ++i) {
    Buffer& buffer = program_.schedule.buffers[i];
    if (buffer.life.last - buffer.life.first < 8 || buffer.bytes < 256) continue;
    ++candidates;
    buffer.life.last = buffer.life.first + 1;
    plan_again();
    try {
      check();
    } catch (const InternalError&) {
      ++found;
    }
    program_.schedule = sound;
  }
  // Where the planner happens to leave the bytes alone, nothing is wrong.
  EXPECT_GT(candidates, 3);
  EXPECT_GT(found, candidates / 2);
  plan_again();
  EXPECT_NO_THROW(check());
}

TEST_F(PlantedFault, AWrongPeakIsFound) {
  ++program_.plan.peak_bytes;
  EXPECT_THAT(checking(), ThrowsMessage<InternalError>(HasSubstr("the plan says")));
  program_.plan.peak_bytes -= 2;
  EXPECT_THAT(checking(), ThrowsMessage<InternalError>(HasSubstr("the plan says")));
}

TEST_F(PlantedFault, AMisalignedBufferIsFound) {
  std::size_t top = 0;
  for (std::size_t i = 1; i < program_.plan.offsets.size(); ++i) {
    if (program_.plan.offsets[i] > program_.plan.offsets[top]) top = i;
  }
  // The topmost storage has free bytes behind it.
  program_.plan.offsets[top] += 64;
  program_.plan.peak_bytes += 64;
  EXPECT_THAT(checking(), ThrowsMessage<InternalError>(HasSubstr("not aligned")));
}

TEST_F(PlantedFault, AVariableThatIsReadAfterItsUpdateIsFound) {
  const auto& steps = program_.schedule.steps;
  int planted = 0;
  for (StepIndex update = 0; update < static_cast<StepIndex>(steps.size()); ++update) {
    if (steps[static_cast<std::size_t>(update)].updated.empty()) continue;
    const Operand variable = steps[static_cast<std::size_t>(update)].updated[0];
    // A later step that reads something of the kind gets the updated variable instead.
    const StepIndex reader =
        find_step(program_.schedule, computes(trainable_.graph, "conv2d_backward_input"), update + 1);
    if (reader < 0) continue;
    Step& victim = program_.schedule.steps[static_cast<std::size_t>(reader)];
    const std::vector<Operand> sound = victim.inputs;
    victim.inputs[1] = variable;
    EXPECT_THAT(checking(), ThrowsMessage<InternalError>(HasSubstr("after its update")));
    victim.inputs = sound;
    ++planted;
  }
  EXPECT_GT(planted, 0);
}

TEST_F(PlantedFault, StepsInTheWrongOrderAreFound) {
  auto& steps = program_.schedule.steps;
  int planted = 0;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    // A step before the one that writes what it reads.
    const bool reads_next =
        std::any_of(steps[i + 1].inputs.begin(), steps[i + 1].inputs.end(), [&](const Operand& input) {
          return std::find(steps[i].outputs.begin(), steps[i].outputs.end(), input) != steps[i].outputs.end();
        });
    if (!reads_next) continue;
    std::swap(steps[i], steps[i + 1]);
    ASSERT_THROW(check(), InternalError) << "step " << i;
    std::swap(steps[i], steps[i + 1]);
    ++planted;
  }
  EXPECT_GT(planted, 10);
}

TEST_F(PlantedFault, ScratchOverAnInputIsFound) {
  const auto scratch =
      std::find_if(program_.schedule.steps.begin(), program_.schedule.steps.end(), [](const Step& step) {
        return step.workspace.kind == Operand::Kind::buffer && !step.inputs.empty() &&
               step.inputs[0].kind == Operand::Kind::buffer;
      });
  ASSERT_NE(scratch, program_.schedule.steps.end());
  const auto& place = program_.storage.storage_of_buffer;
  const int input = place[static_cast<std::size_t>(scratch->inputs[0].index)];
  const int workspace = place[static_cast<std::size_t>(scratch->workspace.index)];
  program_.plan.offsets[static_cast<std::size_t>(workspace)] = program_.plan.offsets[static_cast<std::size_t>(input)];
  EXPECT_THROW(check(), InternalError);
}

/// c = a - b of equal sizes, as a plan by hand.
struct Subtraction {
  Graph graph;
  Value a = placeholder(graph, "a", {64}), b = placeholder(graph, "b", {64});
  Value c = a - b;
  Session session{graph, {.device_memory = 1_MiB, .threads = 1}};
  HostTensor data{Dtype::f32, {64}};
  Executable& program = whole_graph_program(session, {c}, {{a, data}, {b, data}});

  /// Puts the buffers of a, b and c where they are told.
  void place(std::size_t of_a, std::size_t of_b, std::size_t of_c) {
    program.storage.storages.clear();
    program.plan.offsets.clear();
    for (std::size_t i = 0; i < program.schedule.buffers.size(); ++i) {
      const Buffer& buffer = program.schedule.buffers[i];
      program.storage.storage_of_buffer[i] = static_cast<int>(i);
      program.storage.storages.push_back({buffer.bytes, buffer.life, std::nullopt});
      program.plan.offsets.push_back(buffer.value == a ? of_a : buffer.value == b ? of_b : of_c);
    }
    program.plan.peak_bytes = std::max({of_a, of_b, of_c}) + data.num_bytes();
  }
  void forbid_in_place() {
    struct Out : Kernel {
      void launch(const KernelArguments&) override {}
    };
    for (auto& kernel : program.kernels) kernel = std::make_unique<Out>();
  }
  void check() { check_schedule(program.schedule, program.kernels, program.storage, program.plan, graph, 0); }
};

TEST(CheckSchedule, AnOutputMayLieOverAnInputWhereTheKernelAllows) {
  Subtraction s;
  s.place(0, 256, 0);
  EXPECT_NO_THROW(s.check());
  s.forbid_in_place();
  EXPECT_THAT([&] { s.check(); }, ThrowsMessage<InternalError>(HasSubstr("over its input 0")));
  s.place(0, 256, 512);
  EXPECT_NO_THROW(s.check());
}

TEST(CheckSchedule, NamesTheStep) {
  Subtraction s;
  s.place(0, 0, 256);
  EXPECT_THAT([&] { s.check(); }, ThrowsMessage<InternalError>(HasSubstr(s.c.node().label())));
}

}  // namespace
}  // namespace sectionflow
