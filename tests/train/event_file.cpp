// Event files that nobody vouches for.

#include "train/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/tfrecord.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "train/event_writer.h"

namespace sectionflow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// A file with an event of every kind.
struct FullFile {
  FullFile() {
    EventWriter writer(folder.path().string(), {.now_seconds = [] { return 1.7e9; }});
    writer.scalar("loss", 0.5, 1);
    writer.scalar("loss", std::nan(""), 2);
    writer.histogram("weights/a", histogram_of(std::vector<float>{1, 2, 2, -3}), 1);
    writer.histogram("weights/none", histogram_of({}), 1);
    HostTensor image(Dtype::u8, {2, 4, 3});
    image.values<std::uint8_t>()[5] = 77;
    writer.image("input", image, 3);
    Graph graph;
    const Value x = placeholder(graph, "x \"odd\"", {kDynamic, 3});
    dense(x, {.features = 2});
    writer.graph(graph);
    Trace trace({.device = "cpu (2 threads)"},
                {{.node = x.node().id(), .pass = {}, .duration_us = 3, .output_bytes = 24}});
    writer.run_metadata("step 4", trace, graph, 4);
    path = writer.path();
  }
  TemporaryFolder folder;
  std::string path;
};

std::string record_of(const std::string& bytes) {
  std::string file;
  RecordWriter writer([&](const char* data, std::size_t size) { file.append(data, size); });
  writer.write(bytes);
  return file;
}

/// Fields of protobuf by hand.
std::string field(int number, const std::string& bytes) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  std::size_t length = bytes.size();
  for (; length > 127; length >>= 7) text += static_cast<char>((length & 127) | 128);
  return text + static_cast<char>(length) + bytes;
}

const std::string kFirst = record_of(
    "\x1a\x0d"
    "brain.Event:2");

TEST(ReadEvents, EveryCutOfTheFileGivesTheEventsBeforeIt) {
  const FullFile full;
  const std::string bytes = bytes_of_file(full.path);
  const std::size_t all = read_events(full.path).size();
  ASSERT_EQ(all, 8U);
  std::size_t last = 0;
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto path = full.folder.file("cut", bytes.substr(0, length));
    const std::size_t count = read_events(path.string()).size();
    EXPECT_GE(count, last) << length;
    EXPECT_LE(count, all);
    last = count;
  }
  EXPECT_EQ(last, all);
}

TEST(ReadEvents, AFlippedBitIsFoundWhereverItIs) {
  const FullFile full;
  const std::string bytes = bytes_of_file(full.path);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    const auto path = full.folder.file("damaged", damaged);
    EXPECT_THROW(read_events(path.string()), DataError) << at;
  }
}

TEST(ReadEvents, FilesOfAnotherKindAreRefused) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    const auto path = folder.file("file", bytes).string();
    return whole_error_text<DataError>([&] { read_events(path); });
  };
  EXPECT_THAT(refusal(record_of("some record")), AllOf(HasSubstr("SF-E430"), HasSubstr("tfevents")));
  EXPECT_THAT(refusal(record_of("")), AllOf(HasSubstr("SF-E430"), HasSubstr("record 0")));
  EXPECT_THAT(refusal(kFirst + record_of("\xff\xff")),
              AllOf(HasSubstr("SF-E430"), HasSubstr(text_of("record 1, at byte ", kFirst.size(), ","))));
  // A graph, a run and a summary that are none.
  for (const int number : {4, 5, 8}) {
    EXPECT_THAT(refusal(kFirst + record_of(field(number, number == 8 ? field(2, "\x0f") : "\x0f"))),
                HasSubstr("SF-E430"));
  }
  EXPECT_THAT(refusal("a text that is no file of records, and long enough to be one"), HasSubstr("SF-E4"));
  EXPECT_THAT(whole_error_text<DataError>([&] { read_events((folder.path() / "none").string()); }),
              HasSubstr("event_file.cpp"));
  EXPECT_THROW(read_events(folder.path().string()), DataError);
}

TEST(ReadEvents, WhatIsOddButSoundIsRead) {
  const TemporaryFolder folder;
  const std::string tag = field(1, "t");
  // A tensor in place of a number, as newer writers have it, and a value of nothing.
  const std::string tensor = kFirst + record_of(field(5, field(1, tag + field(8, "")) + field(1, tag)));
  EXPECT_TRUE(read_events(folder.file("tensor", tensor).string()).at(1).scalars.empty());
  // A shape of more dimensions than ours, and one with a dimension of -2.
  const std::string many = [&] {
    std::string dims;
    for (int i = 0; i < 40; ++i) dims += field(2, "");
    return dims;
  }();
  const std::string minus_two = field(2, std::string("\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
  for (const std::string& shape : {many, minus_two}) {
    const std::string attribute = field(1, "_output_shapes") + field(2, field(1, field(7, shape)));
    const std::string graph = field(1, field(1, "n") + field(5, attribute));
    const auto events = read_events(folder.file("graph", kFirst + record_of(field(4, graph))).string());
    ASSERT_EQ(events.at(1).graph->size(), 1U);
    EXPECT_TRUE(events[1].graph->at(0).output_shapes.empty());
  }
  EXPECT_TRUE(read_events(folder.file("empty", "").string()).empty());
}

TEST(ReadEvents, AHistogramOfUnequalLengthsIsRefused) {
  const TemporaryFolder folder;
  const std::string histogram = field(6, std::string(16, '\0')) + field(7, std::string(8, '\0'));
  const std::string file = kFirst + record_of(field(5, field(1, field(1, "t") + field(5, histogram))));
  EXPECT_THAT(whole_error_text<DataError>([&] { read_events(folder.file("file", file).string()); }),
              AllOf(HasSubstr("SF-E430"), HasSubstr("as many limits as counts")));
}

TEST(ReadEvents, RandomRecordsAreReadOrRefused) {
  const std::uint64_t seed = 20;
  std::mt19937_64 random(seed);
  const FullFile full;
  RecordReader reader(full.path);
  std::vector<std::string> records;
  while (const auto record = reader.next()) records.emplace_back(*record);
  int refused = 0, read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string record = records[random() % records.size()];
    for (std::size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % record.size();
      if (random() % 4 == 0) {
        record.erase(at, 1 + random() % 8);
        if (record.empty()) record = "x";
      } else {
        record[at] = static_cast<char>(random());
      }
    }
    // Sound as records, whatever is in them.
    const auto path = full.folder.file("random", kFirst + record_of(record)).string();
    try {
      read += static_cast<int>(read_events(path).size() == 2);
    } catch (const DataError& error) {
      EXPECT_EQ(error.code(), ErrorCode::event_file) << "seed " << seed << ", " << i;
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

TEST(ReadEvents, PypisTensorBoardReadsTheSame) {
  const auto python = python_with("tensorboard");
  if (!python) GTEST_SKIP() << "no Python with tensorboard: SECTIONFLOW_PYTHON names one";
  const FullFile full;
  const auto script = full.folder.file("read.py", R"(import json, os, sys
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.compat.proto import graph_pb2, config_pb2
path = sys.argv[1]
events = event_accumulator.EventAccumulator(path, size_guidance={key: 0 for key in ('scalars', 'histograms', 'images')})
events.Reload()
scalars = [[e.step, str(e.value)] for e in events.Scalars('loss')]
bars = {tag: [e.histogram_value.num for e in events.Histograms(tag)] for tag in ('weights/a', 'weights/none')}
limits = list(events.Histograms('weights/a')[0].histogram_value.bucket_limit)
image = events.Images('input')[0]
graph = events.Graph()
run = events.RunMetadata('step 4').step_stats
loaded = list(event_file_loader.EventFileLoader(path).Load())
print(json.dumps({
    'scalars': scalars, 'bars': bars, 'limits': len(limits), 'image': [image.width, image.height, image.step],
    'png': image.encoded_image_string[:8].hex(),
    'nodes': [[n.name, n.op, list(n.input), [[d.size for d in s.dim] for s in n.attr['_output_shapes'].list.shape]]
              for n in graph.node],
    'run': [[d.device, [[n.node_name, n.all_end_rel_micros, n.memory[0].total_bytes] for n in d.node_stats]]
            for d in run.dev_stats],
    'version': loaded[0].file_version}))
)");
  const json read = json::parse(run_python(*python, script, full.path));
  EXPECT_EQ(read.at("version"), "brain.Event:2");
  EXPECT_EQ(read.at("scalars"), json::parse(R"([[1, "0.5"], [2, "nan"]])"));
  EXPECT_EQ(read.at("bars"), json::parse(R"({"weights/a": [4.0], "weights/none": [0.0]})"));
  EXPECT_EQ(read.at("image"), json::parse("[4, 2, 3]"));
  EXPECT_EQ(read.at("png"), "89504e470d0a1a0a");
  EXPECT_EQ(read.at("run"), json::parse(R"([["/device:CPU:0", [["x__odd_", 3, 24]]]])"));
  const std::vector<LoggedEvent> ours = read_events(full.path);
  const std::vector<LoggedNode>& nodes = *ours.at(6).graph;
  ASSERT_EQ(read.at("nodes").size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    json shapes = json::array();
    for (const Shape& shape : nodes[i].output_shapes) shapes.push_back(shape.dims());
    EXPECT_EQ(read.at("nodes")[i], json::array({nodes[i].name, nodes[i].op, nodes[i].inputs, shapes}));
  }
}

}  // namespace
}  // namespace sectionflow
