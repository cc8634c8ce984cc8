// Programs on a device with queues: an emulated GPU that puts work off for as long as nobody waits, and does it in any
// order that the events allow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "examples/models/mnist_resnet.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "runtime/queue_program.h"
#include "runtime/swap_engine.h"
#include "tests/support/emulated_device.h"
#include "tests/support/log_lines.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Training of a random model whose idle tensors are offloaded.
struct Training {
  explicit Training(SessionOptions options, bool disk = false) : session(t.graph, options) {
    engine(session).set_instruction_editor("random offloads", [disk](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 3, 0.8, disk);
    });
    session.initialize();
  }
  HostTensor step(std::uint64_t number) {
    const RandomBatch batch = random_batch(t.model, 4, number);
    return session.run(t.model.loss, batch.feeds(t.model), t.training);
  }
  Executable& program() {
    return engine(session).whole_program({t.model.loss}, random_batch(t.model, 4, 0).types(t.model), t.training);
  }
  TrainingState state() { return {read_variables(session), {}}; }

  TrainableRandomModel t{{.seed = 5, .min_layers = 5, .batch_norm = false}};
  Session session;
};

SessionOptions on_gpu() {
  return {.device = cuda(), .device_memory = 8_MiB, .disk = 8_MiB, .check_schedules = true};
}

EmulatedOptions with_seed(std::uint64_t seed, EmulatedKernels kernels = EmulatedKernels::cpu) {
  return {.kernels = kernels, .seed = seed};
}

/// What `steps` steps leave behind, as one thread of the CPU computes it.
TrainingState reference(int steps) {
  Training training({.device_memory = 8_MiB, .disk = 8_MiB, .threads = 1});
  for (int step = 0; step < steps; ++step) (void)training.step(static_cast<std::uint64_t>(step));
  return training.state();
}

TEST(Queues, EveryOrderThatTheEventsAllowGivesTheSameBytes) {
  const TrainingState wanted = reference(4);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    const EmulatedCuda gpu(with_seed(seed));
    for (const bool disk : {false, true}) {
      Training training(on_gpu(), disk);
      for (std::uint64_t step = 0; step < 4; ++step) (void)training.step(step);
      EXPECT_EQ(first_difference(wanted, training.state()), "") << (disk ? "disk" : "host");
    }
  }
}

/// Whether the program still gives `wanted` when its steps wait for those of `lane` no more: always, for 40 orders.
bool waits_are_idle(Lane lane, const TrainingState& wanted) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const EmulatedCuda gpu(with_seed(seed));
    SessionOptions options = on_gpu();
    options.record_cycles = seed % 2 == 1;
    Training training(options);
    Executable& program = training.program();
    for (Step& step : program.schedule.steps) {
      std::erase_if(step.waits, [&](StepIndex earlier) {
        return program.schedule.steps[static_cast<std::size_t>(earlier)].lane == lane;
      });
    }
    for (std::uint64_t step = 0; step < 3; ++step) (void)training.step(step);
    if (!first_difference(wanted, training.state()).empty()) return false;
  }
  return true;
}

TEST(Queues, AMissingWaitShowsInTheBytes) {
  const TrainingState wanted = reference(3);
  EXPECT_FALSE(waits_are_idle(Lane::compute, wanted)) << "copies that do not wait for kernels";
  EXPECT_FALSE(waits_are_idle(Lane::copy_in, wanted)) << "kernels that do not wait for what comes in";
  EXPECT_FALSE(waits_are_idle(Lane::copy_out, wanted)) << "copies in that do not wait for copies out";
}

TEST(Queues, RecordingsAreLaunchedFromTheThirdStepOnAndChangeNoByte) {
  const TrainingState wanted = reference(6);
  const EmulatedCuda gpu(with_seed(3));
  SessionOptions options = on_gpu();
  for (const bool records : {false, true}) {
    options.record_cycles = records;
    Training training(options);
    Executable& program = training.program();
    const auto last = static_cast<StepIndex>(program.schedule.steps.size());
    for (std::uint64_t step = 0; step < 6; ++step) {
      (void)training.step(step);
      EXPECT_EQ(program.queue->recording(0, last) != nullptr, records && step >= 1) << step;
      EXPECT_EQ(training.session.executions(training.t.model.loss.node()), static_cast<std::int64_t>(step) + 1);
    }
    EXPECT_EQ(first_difference(wanted, training.state()), "");
  }
}

TEST(Queues, WhatTheMachineDoesNotRecordIsExecutedStepByStep) {
  const TrainingState wanted = reference(4);
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = 8, .refuses_recordings = true});
  const testing_support::LogLines log;
  Training training(on_gpu());
  for (std::uint64_t step = 0; step < 4; ++step) {
    (void)training.step(step);
    EXPECT_EQ(training.session.executions(training.t.model.loss.node()), static_cast<std::int64_t>(step) + 1);
  }
  EXPECT_EQ(first_difference(wanted, training.state()), "");
  Executable& program = training.program();
  EXPECT_EQ(program.queue->recording(0, static_cast<StepIndex>(program.schedule.steps.size())), nullptr);
  EXPECT_THAT(log.lines, testing::ElementsAre(HasSubstr("cannot be recorded"))) << "it is tried once";
}

TEST(Queues, AnEventOfARecordingIsWaitedForOutsideOnlyWhereItIsForAll) {
  const auto device = make_emulated_device();
  DeviceQueues& queues = *device->queues();
  const auto inner = queues.make_event(), outer = queues.make_event();
  const auto memory = device->allocate(16);
  queues.begin_recording();
  queues.fill(Queue::compute, memory->data(), 7, 8);
  queues.record(*inner, Queue::compute);
  queues.record_for_all(*outer, Queue::compute);
  EXPECT_THAT([&] { queues.wait(Queue::copy_in, *outer); }, ThrowsMessage<InternalError>(HasSubstr("from before")));
  const auto recording = queues.end_recording();
  EXPECT_THAT([&] { queues.wait(Queue::copy_in, *inner); }, ThrowsMessage<InternalError>(HasSubstr("from outside")));
  for (const int byte : {1, 2}) {
    queues.fill(Queue::compute, memory->data(), byte, 16);
    queues.launch(*recording);
    queues.wait(Queue::copy_in, *outer);
    queues.copy(Queue::copy_in, memory->data() + 8, memory->data(), 4);
    queues.synchronize();
    EXPECT_EQ(memory->data()[8], std::byte{7}) << "behind the recording's own work";
  }
}

TEST(Queues, RecordedCyclesLogTheirPassesToo) {
  const EmulatedCuda gpu(with_seed(9));
  Graph graph;
  GraphSectionManager manager(graph);
  const MnistResnet net = build_mnist_resnet(graph, manager, {.verbose = true});
  Session session(graph, {.device = cuda()});
  session.initialize();
  const Feeds feeds{{net.images, HostTensor(Dtype::f32, {2, 28, 28, 1})},
                    {net.labels, HostTensor(net.labels.dtype(), {2})},
                    {net.is_training, true}};
  std::vector<std::string> first;
  for (int cycle = 0; cycle < 3; ++cycle) {
    const testing_support::LogLines log;
    (void)manager.run_full_cycle(session, {net.loss}, feeds);
    if (cycle == 0) first = log.lines;
    EXPECT_EQ(log.lines, first) << cycle;
  }
  EXPECT_EQ(first.size(), 11U);
}

TEST(Queues, AProgramThatUsesTheDiskIsNotRecorded) {
  const EmulatedCuda gpu(with_seed(4));
  Training training(on_gpu(), true);
  for (std::uint64_t step = 0; step < 3; ++step) (void)training.step(step);
  Executable& program = training.program();
  EXPECT_EQ(program.queue->recording(0, static_cast<StepIndex>(program.schedule.steps.size())), nullptr);
  EXPECT_GT(program.report.disk_peak_bytes, 0U);
}

TEST(Queues, EveryTierMeasuresWhatWasPlanned) {
  const EmulatedCuda gpu(with_seed(5));
  Training training(on_gpu(), true);
  training.session.set_measuring(true);
  for (std::uint64_t step = 0; step < 2; ++step) {
    (void)training.step(step);
    const Statistics& statistics = training.session.statistics();
    EXPECT_EQ(statistics.measured_peak_bytes, statistics.planned_peak_bytes);
    EXPECT_EQ(statistics.measured_host_peak_bytes, statistics.planned_host_peak_bytes);
    EXPECT_EQ(statistics.measured_disk_peak_bytes, statistics.planned_disk_peak_bytes);
    EXPECT_GT(statistics.measured_host_peak_bytes, 0U);
  }
}

TEST(Queues, MeasuringGivesNoPinnedPageBack) {
  Graph graph;
  const auto device = make_emulated_device();
  SwapEngine swaps(graph, {.host_memory = 32_MiB, .swap_directory = "", .queues = device->queues()});
  Program large, small;
  large.report.host_peak_bytes = 16_MiB;
  small.report.host_peak_bytes = small.plan.host.peak_bytes = 4_KiB;
  swaps.prepare(large);
  swaps.prepare(small);
  swaps.host_base()[16_MiB - 1] = std::byte{1};
  swaps.begin_measurement(small);
  EXPECT_NE(swaps.host_base()[16_MiB - 1], std::byte{0}) << "a new page lies there";
  EXPECT_EQ(swaps.measured_host_peak(small), 0U) << "pages that are pinned are not written";
}

TEST(Queues, AMeasurementThatIsExtendedCoversWhatIsPinnedForIt) {
  Graph graph;
  const auto device = make_emulated_device();
  SwapEngine swaps(graph, {.host_memory = 32_MiB, .swap_directory = "", .queues = device->queues()});
  Program small, large;
  small.report.host_peak_bytes = small.plan.host.peak_bytes = 4_KiB;
  large.report.host_peak_bytes = large.plan.host.peak_bytes = 16_MiB;
  swaps.prepare(small);
  swaps.begin_measurement(small);
  swaps.host_base()[100] = std::byte{1};
  swaps.extend_measurement(large);
  EXPECT_EQ(swaps.host_base()[100], std::byte{1});
  EXPECT_EQ(swaps.measured_host_peak(large), 101U);
  swaps.host_base()[12_MiB] = std::byte{1};
  EXPECT_EQ(swaps.measured_host_peak(large), 12_MiB + 1);
}

TEST(Queues, ABackwardHalfWithFetchesOfItsOwnMeasuresWhatWasPlanned) {
  const EmulatedCuda gpu(with_seed(8));
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4, 16});
  Value y = x, first, loss;
  for (int k = 0; k < 3; ++k) {
    auto section = manager.new_section();
    y = relu(dense(y, {.features = 16}));
    if (k == 0) first = y;
    if (k == 2) loss = mean(y * y);
  }
  manager.add_training_ops(Sgd{}, loss, {.sections = {.borders = BorderPolicy::host, .prefetch = 0}});
  manager.prepare_training();
  Session session(graph, {.device = cuda()});
  session.initialize();
  session.set_measuring(true);
  const HostTensor data(Dtype::f32, {4, 16});
  for (int cycle = 0; cycle < 2; ++cycle) {
    (void)manager.run_forward(session, std::vector<Value>{}, {{x, data}});
    (void)manager.run_backward(session, std::vector<std::vector<Value>>{{}, {}, {reshape(first, {64})}});
    const Statistics& statistics = session.statistics();
    EXPECT_EQ(statistics.measured_peak_bytes, statistics.planned_peak_bytes);
    EXPECT_EQ(statistics.measured_host_peak_bytes, statistics.planned_host_peak_bytes);
    EXPECT_GT(statistics.measured_host_peak_bytes, 0U);
  }
}

TEST(Queues, TheHomeTierOfVariablesMayBePinnedMemory) {
  const TrainingState wanted = reference(4);
  const EmulatedCuda gpu(with_seed(6));
  SessionOptions options = on_gpu();
  options.swap_variables = true;
  Training training(options);
  for (std::uint64_t step = 0; step < 4; ++step) (void)training.step(step);
  EXPECT_EQ(first_difference(wanted, training.state()), "");
}

TEST(Queues, ATraceHasEveryStepOfEveryLaneInItsOrder) {
  const EmulatedCuda gpu(with_seed(7));
  Training training(on_gpu());
  Trace trace;
  training.session.set_trace(&trace);
  for (std::uint64_t step = 0; step < 3; ++step) (void)training.step(step);
  const Program& program = training.program();
  ASSERT_EQ(trace.events().size(), 3 * program.schedule.steps.size());
  std::array<double, kNumLanes> ends{};
  for (const Trace::Event& event : trace.events()) {
    EXPECT_GT(event.duration_us, 0);
    double& end = ends[static_cast<std::size_t>(event.lane)];
    EXPECT_GE(event.start_us + event.duration_us, end) << "lanes keep their order";
    end = event.start_us + event.duration_us;
  }
  EXPECT_GT(ends[static_cast<std::size_t>(Lane::copy_in)], 0);
}

TEST(Queues, ABusThatCannotBeSlowedDownIsRefused) {
  const EmulatedCuda gpu;
  Graph graph;
  EXPECT_THAT([&] { Session session(graph, {.device = cuda(), .link_bandwidth = 1e9}); },
              ThrowsMessage<ArgumentError>(HasSubstr("link_bandwidth")));
}

TEST(Queues, AGpuThatIsNotThereIsRefusedByItsNumber) {
  const EmulatedCuda gpu;
  Graph graph;
  EXPECT_THAT([&] { Session session(graph, {.device = cuda(1)}); },
              ThrowsMessage<DeviceError>(HasSubstr("there is no GPU 1")));
}

}  // namespace
}  // namespace sectionflow
