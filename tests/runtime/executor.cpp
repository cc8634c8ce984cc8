#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "tests/runtime/variables.h"
#include "tests/support/random_graph.h"
#include "tests/support/schedule_editing.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A random model in a session, and the program of its training step, to exchange kernels in.
struct Planted {
  explicit Planted(const SessionOptions& options, std::uint64_t seed = 11)
      : trainable({.seed = seed, .min_layers = 6}),
        batch(random_batch(trainable.model, 3, 1)),
        session(trainable.graph, options) {
    session.initialize();
  }
  Feeds feeds() const { return batch.feeds(trainable.model); }
  Executable& program() { return whole_graph_program(session, {trainable.model.loss}, feeds(), trainable.training); }
  StepIndex first_update() {
    return find_step(program().schedule, [](const Step& step) { return !step.updated.empty(); });
  }
  HostTensor train() { return session.run(trainable.model.loss, feeds(), trainable.training); }

  TrainableRandomModel trainable;
  RandomBatch batch;
  Session session;
};

TEST(Poison, TrainingGivesTheSameBytes) {
  for (std::uint64_t seed = 40; seed < 52; ++seed) {
    TrainableRandomModel t({.seed = seed});
    SCOPED_TRACE(t.model.text);
    Session plain(t.graph, {.device_memory = 4_MiB, .threads = 2, .seed = seed});
    Session poisoned(t.graph,
                     {.device_memory = 4_MiB, .threads = 2, .seed = seed, .poison = true, .check_schedules = true});
    plain.initialize();
    poisoned.initialize();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const RandomBatch batch = random_batch(t.model, 3, step);
      const HostTensor a = plain.run(t.model.loss, batch.feeds(t.model), t.training);
      const HostTensor b = poisoned.run(t.model.loss, batch.feeds(t.model), t.training);
      ASSERT_TRUE(bitwise_equal(a, b)) << "step " << step;
      ASSERT_TRUE(std::isfinite(a.item<float>()));
    }
    ASSERT_TRUE(differing(variables_of(plain), variables_of(poisoned)).empty());
    for (const auto& [name, variable] : variables_of(poisoned)) {
      if (variable.dtype() != Dtype::f32) continue;
      for (const float element : variable.values<float>()) ASSERT_TRUE(std::isfinite(element)) << "poison has leaked";
    }
  }
}

TEST(Poison, AWriteBehindAnOutputIsFound) {
  Planted p({.device_memory = 8_MiB, .threads = 1, .poison = true});
  Executable& program = p.program();
  const StepIndex step = find_step(program.schedule, computes(p.trainable.graph, "relu"));
  ASSERT_GE(step, 0);
  const auto output = static_cast<std::size_t>(program.schedule.steps[static_cast<std::size_t>(step)].outputs[0].index);
  const std::size_t bytes = program.schedule.buffers[output].bytes;
  wrap_kernel(program, step, {}, [bytes](const KernelArguments& arguments) {
    static_cast<std::byte*>(arguments.outputs[0])[bytes] = std::byte{1};
  });
  EXPECT_THAT(([&] { engine(p.session).execute(program, p.feeds()); }),
              ThrowsMessage<InternalError>(HasSubstr("bytes behind a buffer were written")));
}

TEST(Poison, AnOutputThatIsNotWrittenIsNaN) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4});
  const Value y = reduce_sum(x);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1, .poison = true});
  session.initialize();
  const HostTensor data(Dtype::f32, {4});
  Executable& program = whole_graph_program(session, {y}, {{x, data}});
  struct Idle : Kernel {
    void launch(const KernelArguments&) override {}
  };
  program.kernels[0] = std::make_unique<Idle>();
  EXPECT_TRUE(std::isnan(engine(session).execute(program, {{x, data}})[0].item<float>()));
}

TEST(Poison, AReadAfterTheEndOfALifeGivesNaN) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4});
  const Value a = relu(x), b = reduce_sum(a), y = add(b, reduce_sum(a * a));
  Session session(graph, {.device_memory = 1_MiB, .threads = 1, .poison = true});
  engine(session).set_schedule_editor([&](Schedule& schedule) {
    for (Buffer& buffer : schedule.buffers) {
      if (buffer.value == b) buffer.life.last = buffer.life.first;
    }
  });
  session.initialize();
  EXPECT_TRUE(std::isnan(session.run(y, {{x, HostTensor::of<float>({4}, {1, 2, 3, 4})}}).item<float>()));
  engine(session).set_schedule_editor({});
  session.initialize();
  EXPECT_EQ(session.run(y, {{x, HostTensor::of<float>({4}, {1, 2, 3, 4})}}).item<float>(), 40);
}

TEST(Executor, AKernelThatWritesPastItsScratchIsFoundInEveryMode) {
  for (const bool poison : {false, true}) {
    Planted p({.device_memory = 8_MiB, .threads = 1, .poison = poison});
    Executable& program = p.program();
    const StepIndex step =
        find_step(program.schedule, [](const Step& s) { return s.workspace.kind == Operand::Kind::buffer; });
    ASSERT_GE(step, 0);
    const auto slot = static_cast<std::size_t>(program.schedule.steps[static_cast<std::size_t>(step)].slot);
    const std::size_t scratch = program.kernels[slot]->workspace_bytes();
    wrap_kernel(program, step, {}, [scratch](const KernelArguments& arguments) {
      static_cast<std::byte*>(arguments.workspace)[scratch] = std::byte{0};
    });
    const NodeId node = program.schedule.steps[static_cast<std::size_t>(step)].node;
    EXPECT_THAT(([&] { engine(p.session).execute(program, p.feeds()); }),
                ThrowsMessage<InternalError>(
                    AllOf(HasSubstr("wrote past its scratch"), HasSubstr(p.trainable.graph.node(node).label()))));
  }
}

TEST(Executor, AFailureBeforeAnyUpdateLeavesTheSessionUsable) {
  Planted p({.device_memory = 8_MiB, .threads = 1});
  Planted reference({.device_memory = 8_MiB, .threads = 1});
  const auto before = variables_of(p.session);
  const StepIndex step = find_step(p.program().schedule, [](const Step& s) { return s.kind == StepKind::compute; });
  ASSERT_GE(step, 0);
  ASSERT_LT(step, p.first_update());
  wrap_kernel(p.program(), step, [](const KernelArguments&) { throw std::runtime_error("planted"); });
  EXPECT_THAT(([&] { engine(p.session).execute(p.program(), p.feeds()); }),
              ThrowsMessage<std::runtime_error>(HasSubstr("planted")));
  EXPECT_TRUE(differing(before, variables_of(p.session)).empty());
  EXPECT_EQ(p.session.completed_cycles(), 0u);
  EXPECT_TRUE(bitwise_equal(p.train(), reference.train())) << "as if nothing had happened";
  EXPECT_TRUE(differing(variables_of(p.session), variables_of(reference.session)).empty());
  EXPECT_EQ(p.session.completed_cycles(), 1u);
}

TEST(Executor, AFailureAfterAnUpdateMarksTheSessionTorn) {
  Planted p({.device_memory = 8_MiB, .threads = 1});
  const auto initial = variables_of(p.session);
  const StepIndex update = p.first_update();
  const StepIndex step = find_step(
      p.program().schedule, [](const Step& s) { return s.kind == StepKind::compute; }, update + 1);
  ASSERT_GT(step, update);
  wrap_kernel(p.program(), step, [](const KernelArguments&) { throw std::runtime_error("planted"); });
  EXPECT_THROW(engine(p.session).execute(p.program(), p.feeds()), std::runtime_error);
  EXPECT_EQ(p.session.completed_cycles(), 0u);
  const auto complains = ThrowsMessage<ArgumentError>(
      AllOf(HasSubstr("SF-E323 ArgumentError: "), HasSubstr("half updated"), HasSubstr("call session.initialize()")));
  EXPECT_THAT([&] { p.train(); }, complains);
  EXPECT_THAT([&] { (void)variables_of(p.session); }, complains) << "half of an update is nobody's to save";
  EXPECT_THAT([&] { p.session.run(p.trainable.model.logits, p.batch.feeds(p.trainable.model, false)); }, complains);
  p.session.initialize();
  EXPECT_TRUE(differing(initial, variables_of(p.session)).empty());
  EXPECT_NO_THROW(p.train());
}

TEST(Executor, AFailureInsideTheFirstUpdateMarksTheSessionTorn) {
  Planted p({.device_memory = 8_MiB, .threads = 1});
  wrap_kernel(p.program(), p.first_update(), {}, [](const KernelArguments&) { throw std::runtime_error("planted"); });
  EXPECT_THROW(engine(p.session).execute(p.program(), p.feeds()), std::runtime_error);
  EXPECT_THROW(p.train(), ArgumentError);
}

constexpr unsigned kFlushModes = 0x8040;  // flush to zero, denormals are zero

/// The calling thread's modes: without the low bits, which tell what has happened.
unsigned control_modes() {
  return _mm_getcsr() & ~0x3FU;
}

/// What the threads of a team see.
struct TeamState {
  int size = 0;
  bool all_flush = true;
};
TeamState look_at_team() {
  TeamState state;
  std::atomic<int> size = 0, flushing = 0;
#pragma omp parallel
  {
    ++size;
    if ((_mm_getcsr() & kFlushModes) == kFlushModes) ++flushing;
  }
  state.size = size;
  state.all_flush = size == flushing;
  return state;
}

TEST(Executor, DenormalsAreFlushedOnEveryThreadOfTheTeamAndRestoredAfterwards) {
  Graph graph;
  const Value x = placeholder(graph, "x", {100000});
  const Value y = x * 1.0F;
  HostTensor data(Dtype::f32, {100000});
  std::fill(data.values<float>().begin(), data.values<float>().end(), 1e-40F);
  // A team that exists already, in the usual mode.
  omp_set_num_threads(3);
  EXPECT_FALSE(look_at_team().all_flush);
  const unsigned control = control_modes();
  for (const int threads : {1, 2, 4}) {
    Session session(graph, {.device_memory = 4_MiB, .threads = threads});
    session.initialize();
    Executable& program = whole_graph_program(session, {y}, {{x, data}});
    const StepIndex step = find_step(program.schedule, computes(graph, "mul"));
    TeamState seen;
    wrap_kernel(program, step, [&](const KernelArguments&) { seen = look_at_team(); });
    const HostTensor result = std::move(engine(session).execute(program, {{x, data}})[0]);
    EXPECT_TRUE(seen.all_flush) << threads << " threads";
    const int wanted = std::min(threads, omp_get_thread_limit());
    EXPECT_EQ(seen.size, wanted) << "the option is respected, within OpenMP's limit";
    EXPECT_EQ(session.threads(), wanted);
    const auto values = result.values<float>();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0; })) << threads << " threads";
    EXPECT_EQ(control_modes(), control) << "the caller's mode is restored";
    EXPECT_EQ(omp_get_max_threads(), 3) << "and its number of threads";
  }
}

TEST(Executor, TheCallersModeIsRestoredAfterAFailureToo) {
  omp_set_num_threads(2);
  const unsigned control = control_modes();
  Planted p({.device_memory = 8_MiB, .threads = 1});
  wrap_kernel(p.program(), p.first_update(), [](const KernelArguments&) { throw std::runtime_error("planted"); });
  EXPECT_THROW(engine(p.session).execute(p.program(), p.feeds()), std::runtime_error);
  EXPECT_EQ(control_modes(), control);
  EXPECT_EQ(omp_get_max_threads(), 2);
}

}  // namespace
}  // namespace sectionflow
