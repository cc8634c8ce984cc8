#include "runtime/memory_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "swap/planned_trace.h"
#include "tests/support/python.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"
#include "tests/support/read_pickle.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using nlohmann::json;
using testing::HasSubstr;

/// A random model of which a training step has been traced, with offloads or without.
struct Traced {
  explicit Traced(bool with_offloads, std::size_t budget = 4_MiB)
      : session(trainable.graph, {.device_memory = budget, .disk = 4_MiB, .copy_threads = true, .threads = 1}) {
    if (with_offloads) {
      engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
        return offload_at_random(list, tools, 5, 0.7, true);
      });
    }
    session.initialize();
    session.set_trace(&trace);
    session.run(trainable.model.loss, batch.feeds(trainable.model), trainable.training);
  }
  json snapshot(const Trace& of) const {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "snapshot.pickle").string();
    write_memory_snapshot(path, session, of);
    return read_pickle(bytes_of_file(path));
  }

  TrainableRandomModel trainable{{.seed = 3}};
  RandomBatch batch = random_batch(trainable.model, 2, 0);
  Session session;
  Trace trace;
};

/// Goes through the events of a snapshot as an allocator would; gives the highest end of anything and what is left.
struct Replay {
  std::int64_t most_bytes = 0, highest_end = 0;
  std::map<std::int64_t, std::int64_t> live;  // size by address
  std::set<std::string> categories;

  explicit Replay(const json& events) {
    std::int64_t bytes = 0, time = 0;
    for (const json& event : events) {
      const std::string action = event.at("action");
      const std::int64_t address = event.at("addr"), size = event.at("size");
      categories.insert(event.at("category"));
      EXPECT_GE(event.at("time_us").get<std::int64_t>(), time) << "events come by time";
      time = event.at("time_us");
      if (action == "alloc") {
        const auto next = live.lower_bound(address);
        EXPECT_TRUE(next == live.end() || address + size <= next->first) << event;
        EXPECT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= address) << event;
        EXPECT_GT(size, 0);
        EXPECT_FALSE(event.at("frames").empty());
        live[address] = size;
        bytes += size;
        most_bytes = std::max(most_bytes, bytes);
        highest_end = std::max(highest_end, address + size);
      } else if (action == "free_completed") {
        EXPECT_EQ(live.count(address), 1U) << event;
        EXPECT_EQ(live[address], size);
        live.erase(address);
        bytes -= size;
      } else if (action == "free_requested") {
        EXPECT_EQ(live.count(address), 1U) << event;
      } else {
        EXPECT_EQ(action, "snapshot");
      }
    }
  }
};

void expect_sound(const json& snapshot, const Traced& traced) {
  const json& segment = snapshot.at("segments").at(0);
  ASSERT_EQ(snapshot.at("segments").size(), 1U);
  ASSERT_EQ(snapshot.at("device_traces").size(), 1U);
  const Replay replay(snapshot.at("device_traces").at(0));
  const std::int64_t base = segment.at("address");
  EXPECT_EQ(replay.highest_end - base, static_cast<std::int64_t>(traced.session.statistics().planned_peak_bytes));
  EXPECT_TRUE(replay.categories.contains("unknown")) << "the page cannot do without";
  EXPECT_TRUE(replay.categories.contains("variables"));
  // What is left are the variables, which the segment's blocks have, too.
  std::map<std::int64_t, std::int64_t> active;
  std::int64_t address = base;
  for (const json& block : segment.at("blocks")) {
    EXPECT_EQ(block.at("address"), address) << "blocks cover the segment";
    if (block.at("state") == "active_allocated") active[address] = block.at("size");
    address += block.at("size").get<std::int64_t>();
  }
  EXPECT_EQ(address, base + segment.at("total_size").get<std::int64_t>());
  EXPECT_EQ(active, replay.live);
  EXPECT_EQ(active.size(), traced.trainable.graph.values(kVariables).size());
}

TEST(MemorySnapshot, HasEveryTensorInItsPlaceForItsTimeAndTheBudgetAsSegment) {
  for (const bool with_offloads : {false, true}) {
    const Traced traced(with_offloads);
    const json snapshot = traced.snapshot(traced.trace);
    expect_sound(snapshot, traced);
    EXPECT_EQ(snapshot.at("segments").at(0).at("total_size"), 4_MiB);
  }
}

/// Which bytes are somebody's how often, whatever the order.
std::map<std::vector<std::string>, int> allocations_of(const json& snapshot) {
  std::map<std::vector<std::string>, int> allocations;
  for (const json& event : snapshot.at("device_traces").at(0)) {
    ++allocations[{event.at("action").dump(), event.at("addr").dump(), event.at("size").dump(),
                   event.at("category").dump(), event.at("frames").dump()}];
  }
  return allocations;
}

TEST(MemorySnapshot, AsPlannedHasTheSameTensorsInTheSamePlacesAsMeasured) {
  for (const bool with_offloads : {false, true}) {
    const Traced traced(with_offloads);
    const json planned = traced.snapshot(planned_trace(traced.session));
    expect_sound(planned, traced);
    EXPECT_EQ(allocations_of(planned), allocations_of(traced.snapshot(traced.trace)));
  }
}

TEST(MemorySnapshot, WithoutABudgetTheSegmentEndsAtThePeak) {
  const Traced traced(false, 0);
  EXPECT_EQ(traced.snapshot(traced.trace).at("segments").at(0).at("total_size"),
            traced.session.statistics().planned_peak_bytes);
}

TEST(MemorySnapshot, OfAPlanThatDoesNotFitShowsHowFarItReaches) {
  TrainableRandomModel trainable({.seed = 3});
  Session session(trainable.graph, {.device_memory = 4096, .threads = 1});
  const RandomBatch batch = random_batch(trainable.model, 2, 0);
  const ProgramReport report =
      session.plan({trainable.model.loss}, types_of(batch.feeds(trainable.model)), trainable.training);
  ASSERT_FALSE(report.fits);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "snapshot.pickle").string();
  write_memory_snapshot(path, session, planned_trace(session));
  EXPECT_EQ(read_pickle(bytes_of_file(path)).at("segments").at(0).at("total_size"), report.planned_peak_bytes);
}

TEST(MemorySnapshot, ATraceOfSomethingElseIsRefusedAndNothingIsWritten) {
  Traced traced(false);
  const Traced other(true);
  const TemporaryFolder folder;
  const std::string path = folder.file("snapshot.pickle", "old").string();
  const Trace empty;
  for (const Trace* trace : {&other.trace, &empty}) {
    EXPECT_THAT(whole_error_text<ArgumentError>([&] { write_memory_snapshot(path, traced.session, *trace); }),
                HasSubstr("SF-E433"));
  }
  Graph graph;
  const Session unused(graph);
  EXPECT_THAT(error_text<ArgumentError>([&] { write_memory_snapshot(path, unused, empty); }), HasSubstr("plan()"));
  EXPECT_EQ(bytes_of_file(path), "old");
  const std::string nowhere = (folder.path() / "no" / "snapshot.pickle").string();
  EXPECT_THROW(write_memory_snapshot(nowhere, traced.session, traced.trace), DataError);
}

TEST(MemorySnapshot, PythonReadsTheSameValues) {
  const auto python = python_with("pickle");
  if (!python) GTEST_SKIP() << "no python3";
  const Traced traced(true);
  const TemporaryFolder folder;
  const auto path = folder.path() / "snapshot.pickle";
  write_memory_snapshot(path.string(), traced.session, traced.trace);
  const auto script = folder.file("read.py",
                                  "import json, pickle, sys\n"
                                  "print(json.dumps(pickle.load(open(sys.argv[1], 'rb'))))\n");
  EXPECT_EQ(json::parse(run_python(*python, script, path)), read_pickle(bytes_of_file(path)));
}

}  // namespace
}  // namespace sectionflow
