#include "compare/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "compare/contender.h"
#include "runtime/engine.h"
#include "tests/support/random_offloads.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A contender that has trained a step under a trace.
struct Traced {
  Contender contender;
  Trace trace;

  Traced(const Strategy& strategy, const SessionOptions& options) : contender(strategy, options, 6) {
    Session& session = contender.session();
    session.initialize();
    session.set_trace(&trace);
    contender.step(tiny_batch(0));
  }
  const Program& program() { return *engine(contender.session()).latest_program(); }
  MemoryTimeline timeline(bool timed) { return timeline_of(contender.session(), timed ? &trace : nullptr); }
};

Strategy swapping(int num_sections) {
  Strategy strategy = tiny_strategy("swapping", num_sections);
  strategy.edit_session = [](Session& session) {
    engine(session).set_instruction_editor("test", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 3, 0.7, true);
    });
  };
  return strategy;
}

std::size_t fullest(const std::vector<MemoryTimeline::Sample>& samples) {
  std::size_t most = 0;
  for (const auto& sample : samples) most = std::max(most, sample.device_bytes());
  return most;
}

/// Bytes alive at a step of the list, from the plan itself.
std::size_t alive_at(const Program& program, StepIndex step, Tier tier) {
  std::size_t bytes = tier == Tier::device ? program.report.persistent_bytes : 0;
  for (const Storage& storage : program.storage.storages) {
    if (storage.tier == tier && storage.life.overlaps({step, step})) bytes += storage.bytes;
  }
  return bytes;
}

TEST(MemoryTimeline, VariablesThatComeFromTheirHomeTierHaveBarsOfTheirBytes) {
  Traced traced(tiny_strategy("whole", 0), {.device_memory = 8_MiB, .swap_variables = true});
  const MemoryTimeline timeline = traced.timeline(true);
  std::size_t arrived = 0;
  for (const auto& bar : timeline.bars) {
    EXPECT_FALSE(bar.name.empty());
    if (bar.kind == StepKind::copy_in) arrived += bar.bytes;
  }
  EXPECT_EQ(arrived, traced.program().report.bytes_in);
  EXPECT_GT(arrived, 0U);
}

TEST(MemoryTimeline, AsPlannedEachStepHasTheBytesOfThePlan) {
  Traced traced(swapping(3), {.disk = 4_MiB, .threads = 1});
  const MemoryTimeline timeline = traced.timeline(false);
  const auto num_steps = static_cast<StepIndex>(traced.program().schedule.steps.size());
  EXPECT_FALSE(timeline.timed);
  EXPECT_EQ(timeline.end, num_steps);
  std::vector<std::string> layers;
  for (const auto& layer : timeline.layers) layers.push_back(layer.name);
  EXPECT_EQ(layers,
            (std::vector<std::string>{"variables", "outside of sections", "section 0", "section 1", "section 2"}));
  const auto columns = columns_of(timeline, num_steps);
  ASSERT_EQ(columns.size(), static_cast<std::size_t>(num_steps));
  for (StepIndex step = 0; step < num_steps; ++step) {
    const auto& column = columns[static_cast<std::size_t>(step)];
    EXPECT_EQ(column.device_bytes(), alive_at(traced.program(), step, Tier::device)) << "step " << step;
    EXPECT_EQ(column.host, alive_at(traced.program(), step, Tier::host)) << "step " << step;
    EXPECT_EQ(column.disk, alive_at(traced.program(), step, Tier::disk)) << "step " << step;
    EXPECT_EQ(column.device[0], traced.program().report.persistent_bytes);
  }
}

TEST(MemoryTimeline, TimesAreThoseOfTheTrace) {
  for (const bool copy_threads : {false, true}) {
    Traced traced(swapping(3), {.disk = 4_MiB, .copy_threads = copy_threads, .threads = 1});
    const MemoryTimeline timeline = traced.timeline(true);
    EXPECT_TRUE(timeline.timed);
    EXPECT_TRUE(std::is_sorted(timeline.samples.begin(), timeline.samples.end(),
                               [](const auto& a, const auto& b) { return a.at < b.at; }));
    EXPECT_LE(fullest(timeline.samples), timeline.device_peak_bytes) << "bytes alive at once have places of their own";
    EXPECT_GT(fullest(timeline.samples), timeline.device_peak_bytes / 2);
    EXPECT_EQ(timeline.samples.back().device_bytes(), traced.program().report.persistent_bytes);
    EXPECT_EQ(timeline.samples.back().host + timeline.samples.back().disk, 0u);
    double end = 0;
    for (const Trace::Event& event : traced.trace.events()) end = std::max(end, event.start_us + event.duration_us);
    EXPECT_NEAR(timeline.end, (end - traced.trace.events().front().start_us) / 1e3, 1e-3);
  }
}

TEST(MemoryTimeline, BarsAreAllCopiesAndThePasses) {
  Traced traced(swapping(2), {.disk = 4_MiB, .threads = 1});
  const MemoryTimeline timeline = traced.timeline(true);
  std::size_t out = 0, in = 0, to_disk = 0, from_disk = 0;
  std::vector<std::string> passes;
  for (const MemoryTimeline::Bar& bar : timeline.bars) {
    EXPECT_LE(bar.start, bar.end);
    EXPECT_LE(bar.end, timeline.end);
    EXPECT_FALSE(bar.name.empty());
    if (bar.kind == StepKind::copy_out) out += bar.bytes;
    if (bar.kind == StepKind::copy_in) in += bar.bytes;
    if (bar.kind == StepKind::disk_write) to_disk += bar.bytes;
    if (bar.kind == StepKind::disk_read) from_disk += bar.bytes;
    if (bar.kind == StepKind::compute && (passes.empty() || passes.back() != bar.name)) passes.push_back(bar.name);
  }
  const ProgramReport& report = traced.program().report;
  EXPECT_EQ(out, report.bytes_out);
  EXPECT_EQ(in, report.bytes_in);
  EXPECT_EQ(to_disk, report.disk_bytes_out);
  EXPECT_EQ(from_disk, report.disk_bytes_in);
  EXPECT_GT(to_disk, 0u);
  EXPECT_EQ(passes,
            (std::vector<std::string>{"forward 0", "forward 1", "backward 1", "forward 0 (again)", "backward 0"}));
}

TEST(MemoryTimeline, ATraceOfSomethingElseIsRefused) {
  Traced traced(tiny_strategy("whole", 0), {.threads = 1});
  Traced other(tiny_strategy("sections:3", 3), {.threads = 1});
  EXPECT_THAT([&] { timeline_of(traced.contender.session(), &other.trace); },
              ThrowsMessage<ArgumentError>(HasSubstr("SF-E433")));
  const Trace empty;
  EXPECT_THROW(timeline_of(traced.contender.session(), &empty), ArgumentError);
}

TEST(MemoryTimeline, OfSeveralTracedCyclesTheLastIsShown) {
  Traced traced(tiny_strategy("whole", 0), {.threads = 1});
  traced.contender.step(tiny_batch(1));
  const auto num_steps = traced.program().schedule.steps.size();
  ASSERT_EQ(traced.trace.events().size(), 2 * num_steps);
  const auto last = traced.trace.last_execution();
  ASSERT_EQ(last.size(), num_steps);
  for (const Trace::Event& event : last) EXPECT_EQ(event.cycle, 1U);
  const double start = last.front().start_us, end = last.back().start_us + last.back().duration_us;
  EXPECT_NEAR(traced.timeline(true).end, (end - start) / 1e3, 1e-6);
}

TEST(MemoryTimeline, ASessionThatHasPlannedNothingIsRefused) {
  Graph graph;
  const Session session(graph);
  EXPECT_THROW(timeline_of(session), ArgumentError);
}

MemoryTimeline spikes() {
  MemoryTimeline timeline{.timed = true, .end = 100};
  timeline.layers = {{.name = "variables"}};
  const auto sample = [&](double at, std::size_t device, std::size_t host) {
    timeline.samples.push_back({.at = at, .device = {device}, .host = host});
  };
  sample(0, 1, 0);
  sample(50, 9, 2);  // a spike between two others
  sample(50.1, 1, 7);
  sample(50.2, 3, 0);
  sample(100, 0, 0);
  return timeline;
}

TEST(Columns, KeepPeaks) {
  for (const int count : {1, 2, 3, 7, 100, 388}) {
    const auto columns = columns_of(spikes(), count);
    ASSERT_EQ(columns.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(fullest(columns), 9u) << count;
    std::size_t host = 0;
    for (const auto& column : columns) host = std::max(host, column.host);
    EXPECT_EQ(host, 7u) << count;
    EXPECT_EQ(columns.back().device_bytes(), count == 1 ? 9u : count == 2 ? 9u : 3u) << "not what holds after the end";
  }
  EXPECT_THROW(columns_of(spikes(), 0), ArgumentError);
}

TEST(Columns, BeginWhereTheyAre) {
  const auto columns = columns_of(spikes(), 4);
  EXPECT_EQ(columns[0].at, 0);
  EXPECT_EQ(columns[3].at, 75);
  EXPECT_EQ(columns[0].device_bytes(), 1u);
  EXPECT_EQ(columns[1].device_bytes(), 1u) << "what begins at 50 is of the third column";
  EXPECT_EQ(columns[2].device_bytes(), 9u);
  EXPECT_EQ(columns[3].device_bytes(), 3u);
}

}  // namespace
}  // namespace sectionflow
