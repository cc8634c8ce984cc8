#include "runtime/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/support/random_graph.h"
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
    Program& program = whole_graph_program(session_, {trainable_.model.loss}, feeds_, trainable_.training);
    steps_ = program.schedule.steps;
    session_.set_trace(&trace_);
    for (int step = 0; step < 2; ++step) session_.play(program, feeds_);
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

TEST_F(TraceFile, TheCounterOfLiveBytesStaysBelowThePeak) {
  const std::size_t peak = session_.statistics().planned_peak_bytes;
  std::size_t highest = 0, counters = 0;
  for (const json& event : events_) {
    if (event.at("ph") != "C") continue;
    ++counters;
    highest = std::max(highest, event.at("args").at("bytes").get<std::size_t>());
  }
  EXPECT_EQ(counters, 2 * steps_.size());
  EXPECT_GT(highest, 0u);
  EXPECT_LE(highest, peak);
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
  EXPECT_THROW(Trace().write("/no/such/folder/trace.json", graph), DataError);
}

}  // namespace
}  // namespace sectionflow
