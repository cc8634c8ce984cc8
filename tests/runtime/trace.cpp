#include "runtime/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "runtime/step_events.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"
#include "tests/support/schedule_editing.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using nlohmann::json;

/// Two traced training steps of a random model, as read back from the file.
class TraceFile : public testing::Test {
 protected:
  TraceFile() {
    session_.initialize();
    Executable& program = whole_graph_program(session_, {trainable_.model.loss}, feeds_, trainable_.training);
    steps_ = program.schedule.steps;
    session_.set_trace(&trace_);
    for (int step = 0; step < 2; ++step) engine(session_).execute(program, feeds_);
    session_.set_trace(nullptr);
    const std::string path = (folder_.path() / "trace.json").string();
    trace_.write(path, trainable_.graph);
    std::ifstream file(path);
    events_ = json::parse(file).at("traceEvents");
  }

  /// Complete slices of the lane of that name, in the order of the file.
  std::vector<json> lane(const std::string& name) const {
    int id = -1;
    for (const json& event : events_) {
      if (event.at("ph") == "M" && event.at("name") == "thread_name" && event.at("args").at("name") == name)
        id = event.at("tid");
    }
    EXPECT_NE(id, -1) << "no lane " << name;
    std::vector<json> slices;
    for (const json& event : events_) {
      if (event.at("ph") == "X" && event.at("tid") == id) slices.push_back(event);
    }
    return slices;
  }
  static double end(const json& slice) { return slice.at("ts").get<double>() + slice.at("dur").get<double>(); }

  TemporaryFolder folder_;
  TrainableRandomModel trainable_{{.seed = 3}};
  RandomBatch batch_ = random_batch(trainable_.model, 2, 0);
  Feeds feeds_ = batch_.feeds(trainable_.model);
  Session session_{trainable_.graph, {.device_memory = 4_MiB, .threads = 1}};
  Trace trace_;
  std::vector<Step> steps_;
  json events_;
};

TEST_F(TraceFile, HasOneSliceForEachStepInOrder) {
  const std::vector<json> slices = lane("compute");
  ASSERT_EQ(slices.size(), 2 * steps_.size());
  ASSERT_EQ(trace_.events().size(), slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Node& node = trainable_.graph.node(steps_[i % steps_.size()].node);
    ASSERT_EQ(slices[i].at("name"), node.name()) << "event " << i;
    ASSERT_EQ(slices[i].at("args").at("op"), node.op().name);
    ASSERT_EQ(slices[i].at("args").at("cycle"), i / steps_.size());
    ASSERT_EQ(slices[i].at("args").at("pass"), "whole graph");
  }
}

TEST_F(TraceFile, SlicesOfALaneDoNotOverlapAndPassesCoverTheirSteps) {
  const std::vector<json> steps = lane("compute"), passes = lane("passes");
  for (const std::vector<json>& slices : {steps, passes}) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      ASSERT_GE(slices[i].at("dur").get<double>(), 0);
      if (i == 0) continue;
      ASSERT_GE(slices[i].at("ts").get<double>(), end(slices[i - 1])) << "slice " << i;
    }
  }
  ASSERT_EQ(passes.size(), 2u) << "one a cycle";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const json& pass = passes[i / steps_.size()];
    ASSERT_GE(steps[i].at("ts").get<double>(), pass.at("ts").get<double>());
    ASSERT_LE(end(steps[i]), end(pass) + 1e-3);
  }
}

TEST_F(TraceFile, TheCounterOfBytesInUseStaysBelowThePeakAndThePeakBelowTheBudget) {
  const std::size_t peak = session_.statistics().planned_peak_bytes;
  std::size_t highest = 0, counters = 0, budgets = 0;
  for (const json& event : events_) {
    if (event.at("ph") != "C") continue;
    const json& args = event.at("args");
    if (event.at("name") == "device_memory") {
      EXPECT_EQ(args.at("budget").get<std::size_t>(), 4_MiB);
      ++budgets;
      continue;
    }
    ASSERT_EQ(event.at("name"), "bytes_in_use") << "nothing is offloaded";
    ++counters;
    highest = std::max(highest, args.at("variables").get<std::size_t>() + args.at("tensors").get<std::size_t>());
  }
  EXPECT_EQ(budgets, 2U) << "from end to end";
  EXPECT_EQ(counters, 2 * steps_.size());
  EXPECT_GT(highest, 0u);
  EXPECT_LE(highest, peak);
}

TEST_F(TraceFile, TheProcessIsTheDevice) {
  std::vector<std::string> names;
  for (const json& event : events_) {
    if (event.at("name") == "process_name") names.push_back(event.at("args").at("name"));
  }
  EXPECT_EQ(names, std::vector<std::string>{session_.device_name()});
  EXPECT_EQ(trace_.machine().device, session_.device_name());
  EXPECT_EQ(trace_.machine().device_memory, 4_MiB);
}

TEST_F(TraceFile, EventsSayWhichStepOfWhichProgramTheyAre) {
  const auto last = trace_.last_execution();
  ASSERT_EQ(last.size(), steps_.size());
  std::set<int> seen;
  for (const Trace::Event& event : last) {
    EXPECT_EQ(event.cycle, 1U);
    EXPECT_EQ(event.node, steps_.at(static_cast<std::size_t>(event.step)).node);
    EXPECT_EQ(event.program, last.front().program);
    EXPECT_GT(event.variable_bytes, 0U);
    seen.insert(event.step);
  }
  EXPECT_EQ(seen.size(), steps_.size());
}

TEST(Trace, NamesThatAreNoUtf8AreWrittenAllTheSame) {
  Graph graph;
  const Value x = placeholder(graph, "odd\xff\"name", Shape{2});
  Session session(graph, {.threads = 1});
  session.initialize();
  Trace trace;
  session.set_trace(&trace);
  session.run(relu(x), {{x, HostTensor::of<float>({2}, {1, 2})}});
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "trace.json").string();
  trace.write(path, graph);
  EXPECT_TRUE(json::accept(bytes_of_file(path)));
}

TEST(Trace, WithoutAnyExecutionHasNoLastOne) {
  const Trace trace;
  EXPECT_TRUE(trace.last_execution().empty());
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "trace.json").string();
  trace.write(path, Graph());
  EXPECT_TRUE(json::accept(bytes_of_file(path)));
}

/// A step with offloads to host memory and disk, traced, and its file as read back.
struct OffloadedRun {
  explicit OffloadedRun(bool copy_threads)
      : session(trainable.graph, {.device_memory = 4_MiB, .disk = 4_MiB, .copy_threads = copy_threads, .threads = 1}) {
    engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 5, 0.7, true);
    });
    session.initialize();
    session.set_trace(&trace);
    const RandomBatch batch = random_batch(trainable.model, 2, 0);
    session.run(trainable.model.loss, batch.feeds(trainable.model), trainable.training);
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "trace.json").string();
    trace.write(path, trainable.graph);
    std::ifstream file(path);
    written = json::parse(file);
  }

  TrainableRandomModel trainable{{.seed = 3}};
  Session session;
  Trace trace;
  json written;
};

TEST(Trace, LanesOfCopiesAndArrowsFromSwapOutToSwapInAreShown) {
  OffloadedRun run(true);
  std::set<std::string> lanes;
  std::map<int, std::pair<int, int>> arrows;  // starts and ends by id
  std::size_t copies_in = 0, bytes_out = 0;
  for (const json& event : run.written.at("traceEvents")) {
    if (event.at("name") == "thread_name") lanes.insert(event.at("args").at("name").get<std::string>());
    if (event.at("ph") == "s") ++arrows[event.at("id")].first;
    if (event.at("ph") == "f") ++arrows[event.at("id")].second;
  }
  for (const Trace::Event& event : run.trace.events()) {
    copies_in += event.kind == StepKind::copy_in ? 1 : 0;
    if (event.kind == StepKind::copy_out) bytes_out += event.bytes;
  }
  EXPECT_EQ(lanes, (std::set<std::string>{"compute", "copy in", "copy out", "disk in", "disk out", "passes"}));
  EXPECT_EQ(arrows.size(), copies_in);
  EXPECT_GT(copies_in, 10U);
  for (const auto& [id, ends] : arrows) EXPECT_EQ(ends, std::pair(1, 1)) << id;
  EXPECT_EQ(bytes_out, run.session.statistics().bytes_reclaimed);
  std::size_t most_on_host = 0, most_on_disk = 0;
  for (const json& event : run.written.at("traceEvents")) {
    if (event.at("name") != "bytes_offloaded") continue;
    most_on_host = std::max(most_on_host, event.at("args").at("host").get<std::size_t>());
    most_on_disk = std::max(most_on_disk, event.at("args").at("disk").get<std::size_t>());
  }
  EXPECT_GT(most_on_host, 0U);
  EXPECT_GT(most_on_disk, 0U);
  EXPECT_LE(most_on_host, run.session.statistics().planned_host_peak_bytes);
  EXPECT_LE(most_on_disk, run.session.statistics().planned_disk_peak_bytes);
}

TEST(Trace, CopiesOfTheComputeLaneAreToldApartFromWhatTheyCopy) {
  OffloadedRun run(false);
  std::map<std::string, std::size_t> wanted, written;  // copies by name
  const std::map<StepKind, std::string> verbs = {{StepKind::copy_out, "copy out "},
                                                 {StepKind::disk_write, "disk out "},
                                                 {StepKind::disk_read, "disk in "},
                                                 {StepKind::copy_in, "copy in "}};
  for (const Trace::Event& event : run.trace.events()) {
    const auto verb = verbs.find(event.kind);
    if (verb != verbs.end()) ++wanted[verb->second + run.trainable.graph.node(event.node).name()];
  }
  for (const json& event : run.written.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") == "swap") ++written[event.at("name")];
  }
  EXPECT_FALSE(wanted.empty());
  EXPECT_EQ(written, wanted);
}

TEST(Trace, EventsTellTheBytesOfTheStoragesThatAreAliveInEachTier) {
  TrainableRandomModel trainable({.seed = 3});
  const RandomBatch batch = random_batch(trainable.model, 2, 0);
  Session session(trainable.graph, {.device_memory = 4_MiB, .disk = 4_MiB, .threads = 1});
  engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
    return offload_at_random(list, tools, 5, 0.7, true);
  });
  session.initialize();
  const Program& program =
      whole_graph_program(session, {trainable.model.loss}, batch.feeds(trainable.model), trainable.training);
  const StepEvents events(program);
  std::array<std::size_t, kNumTiers> most{};
  for (std::size_t i = 0; i < program.schedule.steps.size(); ++i) {
    const auto index = static_cast<StepIndex>(i);
    std::array<std::size_t, kNumTiers> alive{};
    for (const Storage& storage : program.storage.storages) {
      if (storage.life.first <= index && index <= storage.life.last)
        alive[static_cast<std::size_t>(storage.tier)] += storage.bytes;
    }
    const Trace::Event event = events.event(index);
    ASSERT_EQ((std::array{event.live_bytes, event.host_bytes, event.disk_bytes}), alive) << "step " << i;
    for (std::size_t tier = 0; tier < alive.size(); ++tier) most[tier] = std::max(most[tier], alive[tier]);
  }
  for (const std::size_t bytes : most) EXPECT_GT(bytes, 0U);
}

TEST(Trace, NothingIsTracedUnlessAsked) {
  TrainableRandomModel trainable({.seed = 3});
  const RandomBatch batch = random_batch(trainable.model, 2, 0);
  Session session(trainable.graph, {.device_memory = 4_MiB, .threads = 1});
  Trace trace;
  session.set_trace(&trace);
  session.set_trace(nullptr);
  session.initialize();
  session.run(trainable.model.loss, batch.feeds(trainable.model), trainable.training);
  EXPECT_TRUE(trace.events().empty());
}

TEST(Trace, AFileThatCannotBeWrittenIsADataError) {
  const Graph graph;
  try {
    Trace().write("/dev/null/trace.json", graph);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_EQ(error.fact("where"), text_of("trace.cpp:", __LINE__ - 3));
  }
}

TEST(Trace, MakesTheFolderOfItsFile) {
  const TemporaryFolder folder;
  Trace().write((folder.path() / "a/b/trace.json").string(), Graph());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "a/b/trace.json"));
}

}  // namespace
}  // namespace sectionflow
