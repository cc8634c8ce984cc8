#include "train/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "data/png_writer.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "swap/planned_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"
#include "train/event_file.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

/// A writer in a folder of its own, with a clock that stands still.
struct EventFolder {
  TemporaryFolder folder;
  EventWriter writer{(folder.path() / "run").string(), {.now_seconds = [] { return 1.7e9; }}};

  std::vector<LoggedEvent> events() const { return read_events(writer.path()); }
  /// The only event behind the first.
  LoggedEvent only() const {
    std::vector<LoggedEvent> all = events();
    EXPECT_EQ(all.size(), 2U);
    return std::move(all.at(1));
  }
};

std::string hexadecimal(const std::string& bytes) {
  static const char* const digits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += digits[static_cast<std::uint8_t>(byte) >> 4];
    text += digits[static_cast<std::uint8_t>(byte) & 15];
  }
  return text;
}

TEST(EventWriter, AStartIsASessionLogOfItsStepByteForByte) {
  EventFolder folder;
  folder.writer.start(25);
  const LoggedEvent event = folder.only();
  EXPECT_TRUE(event.is_start);
  EXPECT_EQ(event.step, 25);
  // Field 2, the step, is 25; field 7 has two bytes: status, field 1, is 1.
  EXPECT_THAT(hexadecimal(bytes_of_file(folder.writer.path())), HasSubstr("10193a020801"));
}

TEST(EventWriter, AFileBeginsWithTheVersionByteForByte) {
  const EventFolder events;
  EXPECT_EQ(hexadecimal(bytes_of_file(events.writer.path())),
            "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
}

TEST(EventWriter, NamesFilesAsTensorBoardLooksForThem) {
  const EventFolder events;
  const std::filesystem::path path = events.writer.path();
  EXPECT_EQ(path.parent_path(), events.folder.path() / "run");
  EXPECT_THAT(path.filename().string(), MatchesRegex("events\\.out\\.tfevents\\.1700000000\\..+\\.[0-9]+\\.[0-9]+"));
  const EventWriter named(events.folder.path().string(),
                          {.name = "validation", .suffix = ".v2", .now_seconds = [] { return 7.5; }});
  EXPECT_THAT(std::filesystem::path(named.path()).filename().string(),
              MatchesRegex("validation\\.out\\.tfevents\\.0000000007\\..+\\.v2"));
}

TEST(EventWriter, WritersOfOneFolderAndSecondHaveFilesOfTheirOwn) {
  const TemporaryFolder folder;
  std::set<std::string> paths;
  for (int i = 0; i < 5; ++i)
    paths.insert(EventWriter(folder.path().string(), {.now_seconds = [] { return 5.0; }}).path());
  EXPECT_EQ(paths.size(), 5U);
  EXPECT_EQ(folder.num_files(), 5U);
}

TEST(EventWriter, AnEventIsInTheFileWhenItsCallReturns) {
  EventFolder events;
  for (int step = 0; step < 3; ++step) {
    events.writer.scalar("loss", step, step);
    EXPECT_EQ(events.events().size(), static_cast<std::size_t>(step) + 2);
  }
  events.writer.flush();
}

TEST(EventWriter, ScalarsComeBackWhateverTheyAre) {
  EventFolder events;
  const std::vector<double> values = {0.5, -0.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e300, 1e-300};
  const std::vector<std::int64_t> steps = {0, 7, -3, std::numeric_limits<std::int64_t>::max(), 2, 2};
  for (std::size_t i = 0; i < values.size(); ++i) events.writer.scalar("a/b \xc3\xa9", values[i], steps[i]);
  const std::vector<LoggedEvent> logged = events.events();
  ASSERT_EQ(logged.size(), values.size() + 1);
  EXPECT_EQ(logged[0].file_version, "brain.Event:2");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const LoggedEvent& event = logged[i + 1];
    EXPECT_EQ(event.wall_time, 1.7e9);
    EXPECT_EQ(event.step, steps[i]);
    ASSERT_EQ(event.scalars.size(), 1U);
    EXPECT_EQ(event.scalars[0].tag, "a/b \xc3\xa9");
    const auto wanted = static_cast<float>(values[i]);
    EXPECT_TRUE(event.scalars[0].value == wanted || (std::isnan(wanted) && std::isnan(event.scalars[0].value)));
    EXPECT_EQ(std::signbit(event.scalars[0].value), std::signbit(wanted));
  }
}

TEST(EventWriter, HistogramsComeBackAndWhatIsNotFiniteIsCountedBeside) {
  EventFolder events;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const Histogram histogram = histogram_of(std::vector<float>{-2, 0, 0.5F, 3, nan, nan, -infinity});
  events.writer.histogram("weights", histogram, 4);
  const LoggedEvent event = events.only();
  ASSERT_EQ(event.histograms.size(), 1U);
  EXPECT_EQ(event.histograms[0].tag, "weights");
  const Histogram& read = event.histograms[0].histogram;
  EXPECT_EQ(read.bucket_limits, histogram.bucket_limits);
  EXPECT_EQ(read.bucket_counts, histogram.bucket_counts);
  EXPECT_EQ(read.num, 4);
  EXPECT_EQ(read.min, -2);
  EXPECT_EQ(read.max, 3);
  EXPECT_EQ(read.sum, 1.5);
  EXPECT_EQ(read.sum_squares, 13.25);
  ASSERT_EQ(event.scalars.size(), 2U);
  EXPECT_EQ(event.scalars[0].tag, "weights/nan");
  EXPECT_EQ(event.scalars[0].value, 2);
  EXPECT_EQ(event.scalars[1].tag, "weights/infinite");
  EXPECT_EQ(event.scalars[1].value, 1);
}

TEST(EventWriter, AHistogramOfNothingHasABucket) {
  EventFolder events;
  events.writer.histogram("made", histogram_of({}), 0);
  events.writer.histogram("default", Histogram{}, 0);
  for (std::size_t i : {1U, 2U}) {
    const Histogram read = events.events().at(i).histograms.at(0).histogram;
    EXPECT_THAT(read.bucket_limits, ElementsAre(std::numeric_limits<double>::max()));
    EXPECT_THAT(read.bucket_counts, ElementsAre(0.0));
    EXPECT_EQ(read.num, 0);
  }
}

TEST(EventWriter, ImagesArePngsOfTheirPixels) {
  EventFolder events;
  HostTensor image(Dtype::u8, {2, 3, 3});
  image.values<std::uint8_t>()[4] = 200;
  events.writer.image("input", image, 9);
  const LoggedEvent event = events.only();
  ASSERT_EQ(event.images.size(), 1U);
  EXPECT_EQ(event.images[0].tag, "input");
  EXPECT_EQ(event.images[0].height, 2);
  EXPECT_EQ(event.images[0].width, 3);
  EXPECT_EQ(event.images[0].channels, 3);
  EXPECT_EQ(event.images[0].encoded, png_of(image, "test"));
}

TEST(EventWriter, WhatAFileCannotHoldIsRefusedAndNothingIsWritten) {
  EventFolder events;
  EventWriter& writer = events.writer;
  const std::string before = bytes_of_file(writer.path());
  const HostTensor image(Dtype::u8, {2, 2, 1}), numbers(Dtype::f32, {2, 2, 1});
  const Graph graph;
  const Trace trace;
  const auto refused = [](auto&& call) { return whole_error_text<ArgumentError>(call); };
  for (const std::string tag : {"", "\xff", "loss\xc3"}) {
    EXPECT_THAT(refused([&] { writer.scalar(tag, 1, 1); }), AllOf(HasSubstr("SF-E431"), HasSubstr("the tag '")));
    EXPECT_THAT(refused([&] { writer.histogram(tag, {}, 1); }), HasSubstr("SF-E431"));
    EXPECT_THAT(refused([&] { writer.image(tag, image, 1); }), HasSubstr("SF-E431"));
    EXPECT_THAT(refused([&] { writer.run_metadata(tag, trace, graph, 1); }), HasSubstr("SF-E431"));
  }
  EXPECT_THAT(refused([&] { writer.image("x", numbers, 1); }), HasSubstr("EventWriter::image 'x': got f32[2,2,1]"));
  EXPECT_THAT(refused([&] { writer.histogram("x", {.bucket_limits = {1}, .bucket_counts = {}}, 1); }),
              HasSubstr("1 limits and 0 counts"));
  EXPECT_THAT(refused([&] {
                writer.histogram("x", {.bucket_limits = {2, 1}, .bucket_counts = {1, 1}}, 1);
              }),
              HasSubstr("rising limits"));
  EXPECT_THAT(refused([&] { writer.scalar("", 1, 1); }), HasSubstr("event_writer.cpp"));
  EXPECT_EQ(bytes_of_file(writer.path()), before);
  EXPECT_THAT(refused([&] { EventWriter("x", {.name = "a/b"}); }), HasSubstr("SF-E431"));
}

TEST(EventWriter, AFolderThatCannotBeIsADataError) {
  const TemporaryFolder folder;
  const std::string file = folder.file("file", "").string();
  EXPECT_THAT(whole_error_text<DataError>([&] { EventWriter writer(file + "/run"); }), HasSubstr("SF-E432"));
  EXPECT_THROW(EventWriter(""), DataError);
  EXPECT_THAT(
      whole_error_text<DataError>([&] { EventWriter(folder.path().string(), {.name = std::string(300, 'a')}); }),
      HasSubstr("SF-E432"));
}

TEST(EventWriter, AFullDiskIsAnErrorAndLaterEventsFollowTheLastWholeOne) {
  EventFolder events;
  events.writer.scalar("loss", 1, 1);
  struct rlimit usual {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {bytes_of_file(events.writer.path()).size() + 10, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string text;
  try {
    events.writer.scalar("loss", 2, 2);
  } catch (const DataError& error) {
    text = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, AllOf(HasSubstr("SF-E432"), HasSubstr("EventWriter: '"), HasSubstr("event_writer.cpp")));
  events.writer.scalar("loss", 3, 3);
  const std::vector<LoggedEvent> logged = events.events();
  ASSERT_EQ(logged.size(), 3U);
  EXPECT_EQ(logged[1].step, 1);
  EXPECT_EQ(logged[2].step, 3);
}

TEST(EventWriter, ThreadsMayWriteAtOnce) {
  EventFolder events;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int step = 0; step < 50; ++step) events.writer.scalar(text_of("thread/", t), step, step);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, std::vector<std::int64_t>> steps;
  for (const LoggedEvent& event : events.events()) {
    for (const LoggedScalar& scalar : event.scalars) steps[scalar.tag].push_back(event.step);
  }
  ASSERT_EQ(steps.size(), 4U);
  for (const auto& [tag, of_thread] : steps) {
    EXPECT_EQ(of_thread.size(), 50U);
    EXPECT_TRUE(std::is_sorted(of_thread.begin(), of_thread.end())) << tag;
  }
}

TEST(EventWriter, MayBeMovedAndGoesOnWithItsFile) {
  EventFolder events;
  events.writer.scalar("loss", 1, 1);
  EventWriter moved = std::move(events.writer);
  moved.scalar("loss", 2, 2);
  EXPECT_EQ(read_events(moved.path()).size(), 3U);
}

}  // namespace
}  // namespace sectionflow
