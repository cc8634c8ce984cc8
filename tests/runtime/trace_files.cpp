// The timeline of a long run, in files of a bounded size.

#include "runtime/trace_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/session.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A session whose every run adds some events to a trace.
class TraceFilesTest : public testing::Test {
 protected:
  TraceFilesTest() {
    session_.initialize();
    session_.set_trace(&trace_);
  }
  /// Adds a run to the files; returns how many steps it had.
  std::size_t add_run(TraceFiles& files) {
    session_.run(y_, {{x_, HostTensor::of<float>({2}, {1, 2})}});
    files.add(trace_);
    const std::size_t steps = trace_.events().size();
    trace_.clear();
    return steps;
  }
  /// The events of a file, which a reader of the format ends for itself.
  static json events_of(const std::string& path) {
    std::string text = bytes_of_file(path);
    EXPECT_TRUE(text.starts_with("[\n") && text.ends_with(",\n")) << path;
    text.resize(text.size() - 2);
    return json::parse(text + "]");
  }
  static std::size_t steps_in(const std::string& path) {
    std::size_t steps = 0;
    for (const json& event : events_of(path)) steps += event.at("ph") == "X" && event.at("cat") != "pass" ? 1 : 0;
    return steps;
  }
  std::string at() const { return (folder_.path() / "timeline").string(); }

  TemporaryFolder folder_;
  Graph graph_;
  Value x_ = placeholder(graph_, "x", Shape{2});
  Value y_ = relu(relu(x_));
  Session session_{graph_, {.threads = 1}};
  Trace trace_;
};

TEST_F(TraceFilesTest, HoldEveryStepOnceInFilesThatStayBelowTheirBound) {
  TraceFiles files(at(), graph_, {.max_file_bytes = 3000, .keep = 0});
  EXPECT_FALSE(fs::exists(at())) << "nothing is made before the first events";
  std::size_t steps = 0, found = 0;
  for (int run = 0; run < 20; ++run) steps += add_run(files);
  ASSERT_GT(files.files().size(), 3U);
  for (const std::string& path : files.files()) {
    EXPECT_LE(fs::file_size(path), 3000U) << path;
    const json events = events_of(path);
    EXPECT_EQ(events.at(0).at("name"), "process_name") << "each file can be looked at by itself";
    found += steps_in(path);
  }
  EXPECT_EQ(found, steps);
  EXPECT_EQ(fs::path(files.files().at(1)).filename(), "trace-00001.json");
}

TEST_F(TraceFilesTest, OfWhichTheLastOnesStay) {
  TraceFiles files(at(), graph_, {.max_file_bytes = 2000, .keep = 3});
  for (int run = 0; run < 30; ++run) {
    add_run(files);
    const auto num_there = std::distance(fs::directory_iterator(at()), fs::directory_iterator());
    ASSERT_LE(num_there, 3);
    ASSERT_EQ(static_cast<std::size_t>(num_there), files.files().size());
  }
  EXPECT_EQ(files.files().size(), 3U);
  EXPECT_FALSE(fs::exists(at() + "/trace-00000.json"));
  for (const std::string& path : files.files()) EXPECT_GT(steps_in(path), 0U) << path;
}

TEST_F(TraceFilesTest, GoOnBehindThoseOfAnEarlierRunAndTouchNothingElse) {
  fs::create_directory(at());
  for (const char* name : {"trace-00007.json", "trace-x.json", "trace-.json", "notes.txt"}) {
    folder_.file(std::string("timeline/") + name, "of somebody");
  }
  TraceFiles files(at(), graph_, {.keep = 1});
  add_run(files);
  ASSERT_EQ(files.files().size(), 1U);
  EXPECT_EQ(fs::path(files.files().front()).filename(), "trace-00008.json");
  EXPECT_FALSE(fs::exists(at() + "/trace-00007.json"));
  for (const char* name : {"trace-x.json", "trace-.json", "notes.txt"}) EXPECT_TRUE(fs::exists(at() + "/" + name));
}

TEST_F(TraceFilesTest, OfTwoWritersNeitherDeletesWhatTheOtherIsWriting) {
  TraceFiles slow(at(), graph_, {.keep = 2}), fast(at(), graph_, {.max_file_bytes = 2000, .keep = 2});
  std::size_t steps = add_run(slow);
  for (int run = 0; run < 20; ++run) add_run(fast);
  steps += add_run(slow);
  ASSERT_EQ(slow.files().size(), 1U);
  EXPECT_EQ(steps_in(slow.files().front()), steps);
  EXPECT_LE(std::distance(fs::directory_iterator(at()), fs::directory_iterator()), 3);
}

TEST_F(TraceFilesTest, OfManyWritersAtOnceEachHasFilesOfItsOwn) {
  session_.run(y_, {{x_, HostTensor::of<float>({2}, {1, 2})}});
  constexpr int kWriters = 4, kRuns = 6;
  std::vector<std::thread> writers;
  std::atomic<int> failures = 0;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&] {
      try {
        TraceFiles files(at(), graph_, {.max_file_bytes = 1, .keep = 0});
        for (int run = 0; run < kRuns; ++run) files.add(trace_);
      } catch (const std::exception& error) {
        ++failures;
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(at())) found += steps_in(entry.path().string());
  EXPECT_EQ(found, kWriters * kRuns * trace_.events().size());
}

TEST_F(TraceFilesTest, AFileTakesOneEventHoweverSmallTheBound) {
  TraceFiles files(at(), graph_, {.max_file_bytes = 1, .keep = 0});
  const std::size_t steps = add_run(files);
  std::size_t found = 0;
  for (const std::string& path : files.files()) found += steps_in(path);
  EXPECT_EQ(found, steps);
}

/// No file grows beyond so many bytes while this lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &usual_), 0);
    const struct rlimit small = {bytes, usual_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &usual_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  struct rlimit usual_ {};
  void (*handler_)(int);
};

TEST_F(TraceFilesTest, AFullDiskLeavesNoFileThatIsNoTraceAndWhatComesLaterIsWhole) {
  TraceFiles files(at(), graph_, {.keep = 2});
  {
    const FileLimit full(5);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(add_run(files), DataError);
  }
  EXPECT_TRUE(files.files().empty());
  trace_.clear();
  add_run(files);
  ASSERT_EQ(files.files().size(), 1U);
  const std::size_t steps = steps_in(files.files()[0]);
  {
    const FileLimit full(fs::file_size(files.files()[0]) + 5);
    EXPECT_THROW(add_run(files), DataError);
  }
  trace_.clear();
  add_run(files);
  ASSERT_EQ(files.files().size(), 2U);
  for (const std::string& file : files.files()) EXPECT_EQ(steps_in(file), steps);
  EXPECT_EQ(std::distance(fs::directory_iterator(at()), {}), 2);
}

TEST_F(TraceFilesTest, NumbersThatNobodyHasCountedToAreOfOtherFiles) {
  fs::create_directory(at());
  std::ofstream(fs::path(at()) / "trace-9223372036854775807.json") << "theirs";
  TraceFiles files(at(), graph_);
  add_run(files);
  EXPECT_EQ(files.files(), std::vector<std::string>{(fs::path(at()) / "trace-00000.json").string()});
}

TEST_F(TraceFilesTest, OptionsThatMeanNothingAndFoldersThatCannotBeAreRefused) {
  EXPECT_THROW(TraceFiles(at(), graph_, {.max_file_bytes = 0}), ArgumentError);
  EXPECT_THROW(TraceFiles(at(), graph_, {.keep = -1}), ArgumentError);
  EXPECT_THROW(TraceFiles("", graph_), DataError);
  folder_.file("timeline", "no folder");
  TraceFiles files(at(), graph_);
  session_.run(y_, {{x_, HostTensor::of<float>({2}, {1, 2})}});
  EXPECT_THROW(files.add(trace_), DataError);
}

}  // namespace
}  // namespace sectionflow
