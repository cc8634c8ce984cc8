// `sectionflow inspect`: files of every kind, whole and damaged.

#include <fstream>

#include "data/npy.h"
#include "data/safetensors.h"
#include "data/tfrecord_source.h"
#include "examples/models/zoo.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "swap/profile.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"
#include "train/checkpoints.h"
#include "train/event_writer.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

void expect_refused_file(const fs::path& path, const testing::Matcher<std::string>& text) {
  expect_refused("inspect '" + path.string() + "'", text);
}

/// The file with one byte in its middle changed, beside it under another name.
fs::path damaged(const TemporaryFolder& folder, const fs::path& path, std::size_t from_end) {
  std::string bytes = bytes_of_file(path);
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 0x10);
  return folder.file("damaged-" + path.filename().string(), bytes);
}

fs::path tensors_in(const TemporaryFolder& folder) {
  std::vector<NamedTensor> tensors;
  tensors.push_back({"a/w", HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  tensors.push_back({"n", HostTensor::scalar<std::int64_t>(7)});
  const fs::path path = folder.path() / "tensors";  // a name that says nothing
  write_safetensors(path, views_of(tensors), {{"note", "of a test"}});
  return path;
}

TEST(Inspect, SafetensorsAreToldByTheirContent) {
  const TemporaryFolder folder;
  const fs::path path = tensors_in(folder);
  const auto json = inspected(path);
  EXPECT_EQ(json.at("kind"), "safetensors");
  EXPECT_EQ(json.at("tensors").size(), 2U);
  EXPECT_EQ(json.at("tensor_bytes"), 32);
  EXPECT_EQ(json.at("metadata").at("note"), "of a test");
  EXPECT_THAT(run_tool("inspect " + path.string()).text, AllOf(HasSubstr("f32[2,3]"), HasSubstr("2 tensors, 32 B")));
  expect_refused_file(damaged(folder, path, 2), HasSubstr("SF-E4"));
}

TEST(Inspect, AModelFileWhoseGraphIsForeignShowsItsTensors) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model";
  const HostTensor w(Dtype::f32, {2, 3});
  write_safetensors(path, {{"w", w.view()}}, {{"sectionflow_graph", "{}"}});
  EXPECT_EQ(json_of_tool("inspect " + path, 2).at("tensors").size(), 1U);
  expect_refused("inspect " + path, AllOf(HasSubstr("f32[2,3]"), HasSubstr("its graph cannot be read: ")));
}

TEST(Inspect, ATruncatedFileIsDamagedRatherThanUnknown) {
  const TemporaryFolder folder;
  const std::string bytes = bytes_of_file(tensors_in(folder));
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{20}, bytes.size() - 1}) {
    expect_refused_file(folder.file("cut.safetensors", bytes.substr(0, length)), HasSubstr("DataError"));
  }
}

TEST(Inspect, RecordsAreCountedAndCheckedAndTheFirstIsShown) {
  const TemporaryFolder folder;
  for (const Compression compression : {Compression::none, Compression::gzip, Compression::zlib}) {
    TfrecordWriter writer(folder.path(), "data", {.compression = compression, .overwrite = true});
    for (int i = 0; i < 3; ++i) {
      Example example;
      example.emplace("label", HostTensor::scalar<std::int64_t>(40 + i));
      example.emplace("x", HostTensor::of<float>({2}, {0.5F, 1.5F}));
      writer.write(example);
    }
    const fs::path path = writer.finish().front();
    const auto json = inspected(path);
    EXPECT_EQ(json.at("kind"), "tfrecord");
    EXPECT_EQ(json.at("records"), 3);
    EXPECT_EQ(json.at("features").at("label"), "int64 [1]: 40");
    EXPECT_EQ(json.at("features").at("x"), "float [2]: 0.5, 1.5");
    if (compression == Compression::none) expect_refused_file(damaged(folder, path, 6), HasSubstr("SF-E407"));
  }
}

TEST(Inspect, RecordsOfOtherThingsAreNoExamples) {
  const TemporaryFolder folder;
  std::string bytes;
  RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); });
  writer.write("\xff\xff\xff not an example");
  const auto json = inspected(folder.file("records", bytes));
  EXPECT_EQ(json.at("records"), 1);
  EXPECT_TRUE(json.at("features").empty());
}

TEST(Inspect, EventFilesShowTheLastPointOfEachCurve) {
  const TemporaryFolder folder;
  EventWriter writer((folder.path() / "board").string());
  for (int step = 1; step <= 3; ++step) writer.scalar("train/loss", 1.0 / step, step);
  writer.scalar("train/accuracy", 0.5, 2);
  writer.flush();
  const auto json = inspected(writer.path());
  EXPECT_EQ(json.at("kind"), "events");
  ASSERT_EQ(json.at("scalars").size(), 2U);
  EXPECT_EQ(json.at("scalars").at(1).at("tag"), "train/loss");
  EXPECT_EQ(json.at("scalars").at(1).at("points"), 3);
  EXPECT_EQ(json.at("scalars").at(1).at("last_step"), 3);
  EXPECT_FLOAT_EQ(json.at("scalars").at(1).at("last").get<float>(), 1.0F / 3);
}

TEST(Inspect, AFolderOfEventFilesListsThem) {
  const TemporaryFolder folder;
  for (const char* name : {"first", "second"}) {
    EventWriter writer((folder.path() / "board" / name).string());
    writer.scalar("train/loss", 0.5, 7);
    writer.flush();
  }
  const auto json = inspected(folder.path() / "board");
  EXPECT_EQ(json.at("kind"), "event_files");
  ASSERT_EQ(json.at("event_files").size(), 2U);
  EXPECT_THAT(json.at("event_files").at(1).at("file").get<std::string>(), testing::StartsWith("second/"));
  EXPECT_EQ(json.at("event_files").at(1).at("last_step"), 7);
  EXPECT_EQ(json.at("event_files").at(1).at("scalars").size(), 1U);
}

TEST(Inspect, AFolderOfRecordsIsSummedUp) {
  const TemporaryFolder folder;
  const fs::path records = folder.path() / "records";
  std::int64_t label = 0;
  for (const char* part : {"test", "train"}) {
    TfrecordWriter writer(records, part);
    for (int i = 0; i < 2; ++i) {
      Example example;
      example.emplace("image/class/label", HostTensor::scalar<std::int64_t>(label++ / 3));
      writer.write(example);
    }
    writer.finish();
  }
  std::ofstream(records / "labels.txt") << "0:cat\n1:dog\n";
  const auto json = inspected(records);
  EXPECT_EQ(json.at("kind"), "tfrecord_files");
  EXPECT_EQ(json.at("records"), 4);
  ASSERT_EQ(json.at("files").size(), 2U);
  EXPECT_EQ(json.at("files").at(1).at("file"), "train-00000.tfrecord");
  EXPECT_EQ(json.at("files").at(1).at("records"), 2);
  EXPECT_EQ(json.at("classes").at(0).at("records"), 3);
  EXPECT_EQ(json.at("classes").at(1).at("name"), "dog");
  EXPECT_THAT(run_tool("inspect " + records.string()).text,
              AllOf(HasSubstr("train-00000.tfrecord"), HasSubstr("4 records"), HasSubstr("  0 cat: 3 records\n")));
}

TEST(Inspect, CheckpointsAndTheirFolder) {
  const TemporaryFolder folder;
  Graph graph;
  GraphSectionManager manager(graph);
  zoo_model("mnist_cnn", {.width = 2}).build(graph, manager);
  Session session(graph, {.threads = 1});
  session.initialize();
  const fs::path run = folder.path() / "run";
  Checkpoints checkpoints(run.string());
  ASSERT_TRUE(
      checkpoints.save(session, {.step = 3, .metrics = {{"loss", 1.5}, {"rate", 3.6e-05}}, .strategy = "whole"}));
  ASSERT_TRUE(checkpoints.save(session, {.step = 9}));
  const auto all = inspected(run);
  EXPECT_EQ(all.at("kind"), "checkpoints");
  EXPECT_EQ(all.at("checkpoints").size(), 2U);
  EXPECT_EQ(all.at("latest"), 9);
  EXPECT_FALSE(all.contains("num_event_files"));
  {
    EventWriter writer(run.string());
    writer.scalar("train/loss", 0.5, 7);
    writer.flush();
  }
  EXPECT_THAT(run_tool("inspect " + run.string()).text,
              HasSubstr("beside them 1 event file, which --kind event_files"));
  EXPECT_EQ(inspected(run).at("num_event_files"), 1);
  EXPECT_EQ(json_of_tool("inspect --kind event_files " + run.string()).at("event_files").size(), 1U);
  EXPECT_EQ(all.at("best").at("loss").at("lowest_step"), 3);
  EXPECT_EQ(all.at("latest_holds").at("tensors").get<std::size_t>(), inspected(run / "step-9").at("tensors").size());
  EXPECT_THAT(run_tool("inspect " + run.string()).text,
              AllOf(HasSubstr("loss: lowest 1.5000 at step-3"), HasSubstr("loss 1.5000  rate 3.6e-05"),
                    HasSubstr("rate: lowest 3.6e-05 at step-3"), HasSubstr("step-9 holds ")));
  const auto one = inspected(run / "step-3");
  EXPECT_EQ(one.at("kind"), "checkpoint");
  EXPECT_EQ(one.at("step"), 3);
  EXPECT_EQ(one.at("metrics").at("loss"), 1.5);
  EXPECT_GT(one.at("tensors").size(), 3U);
  expect_refused_file(run / "step-3" / "manifest.json", HasSubstr("inspect its folder"));
  std::string bytes = bytes_of_file(run / "step-9" / "variables.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(run / "step-9" / "variables.safetensors", std::ios::binary) << bytes;
  expect_refused_file(run / "step-9", HasSubstr("DataError"));
}

TEST(Inspect, AFolderWithDamagedCheckpointsIsToldSoByTheExitStatus) {
  const TemporaryFolder folder;
  Graph graph;
  (void)variable("v", fill(graph, {4}, 1));
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  Checkpoints checkpoints((folder.path() / "run").string());
  for (const std::int64_t step : {1, 2, 3}) ASSERT_TRUE(checkpoints.save(session, {.step = step}));
  const std::string run = (folder.path() / "run").string();
  EXPECT_THAT(run_tool("inspect " + run).text, HasSubstr("every hash is right"));
  const auto damage = [&](const std::string& name) {
    std::string bytes = bytes_of_file(fs::path(run) / name);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(fs::path(run) / name, std::ios::binary) << bytes;
  };
  damage("step-2/variables.safetensors");
  expect_refused("inspect " + run,
                 AllOf(HasSubstr("the latest is step-3\n"), HasSubstr("damaged or missing: step-2\n"),
                       HasSubstr("step-3 holds"), HasSubstr("does not have the hash that was saved with it")));
  for (const std::string step : {"step-1", "step-2", "step-3"}) damage(step + "/manifest.json");
  expect_refused("inspect " + run, AllOf(HasSubstr("the latest is step-3, which is damaged"),
                                         HasSubstr("damaged or missing: step-1, step-2, step-3\n")));
  EXPECT_EQ(json_of_tool("inspect " + run, 2).at("damaged").size(), 3U);
}

TEST(Inspect, GraphsProfilesAndArrays) {
  const TemporaryFolder folder;
  Graph graph;
  GraphSectionManager manager(graph);
  zoo_model("mnist_cnn", {.cut = {2}, .width = 2}).build(graph, manager);
  const fs::path file = folder.path() / "g";
  save_graph(graph, file.string());
  const auto json = inspected(file);
  EXPECT_EQ(json.at("kind"), "graph");
  EXPECT_EQ(json.at("operations"), graph.num_nodes());
  EXPECT_EQ(json.at("sections").size(), 2U);
  EXPECT_EQ(json.at("parameters"), num_parameters(graph));

  Profile::nominal().save((folder.path() / "p").string());
  EXPECT_EQ(inspected(folder.path() / "p").at("kind"), "profile");
  write_npy(folder.path() / "n", HostTensor::of<float>({3}, {1, 2, 3}));
  EXPECT_EQ(inspected(folder.path() / "n").at("kind"), "npy");
  EXPECT_EQ(inspected(folder.path() / "n").at("shape"), nlohmann::json::array({3}));
  const fs::path idx = folder.file("i", std::string("\0\0\x08\x01\0\0\0\x02", 8) + "ab");
  EXPECT_EQ(inspected(idx).at("kind"), "idx");
}

TEST(Inspect, OtherKindsAreRefusedWithWhatIsKnown) {
  const TemporaryFolder folder;
  expect_refused_file(folder.file("a", "\x89PNG\r\n\x1a\n...."),
                      AllOf(HasSubstr("SF-E610"), HasSubstr("a PNG picture")));
  expect_refused_file(folder.file("b", "{\"format\": \"other\"}"), HasSubstr("JSON, and tells no format of ours"));
  expect_refused_file(folder.file("c", "hello"), AllOf(HasSubstr("SF-E610"), HasSubstr("safetensors")));
  expect_refused_file(folder.file("d", ""), HasSubstr("is empty"));
  expect_refused_file(folder.file("e.npy", "hello"), HasSubstr("DataError"));
  expect_refused_file(folder.path(), HasSubstr("neither a checkpoint nor"));
  expect_refused_file(folder.path() / "absent", HasSubstr("there is no"));
  expect_refused("inspect /dev/zero", HasSubstr("no regular file"));
  expect_refused("inspect --kind safetensor " + (folder.path() / "c").string(),
                 HasSubstr("did you mean 'safetensors'?"));
  expect_refused("inspect --kind graph " + (folder.path() / "c").string(), HasSubstr("SF-E402"));
}

TEST(Inspect, NamesOfFilesSteerNoTerminal) {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  tensors.push_back({"\x1b[2Jname", HostTensor::scalar(1.0F)});
  tensors.push_back({"\u009b2Jsecond \u00e4", HostTensor::scalar(1.0F)});
  write_safetensors(folder.path() / "t", views_of(tensors));
  EXPECT_THAT(run_tool("inspect " + (folder.path() / "t").string()).text,
              AllOf(HasSubstr("?[2Jname"), HasSubstr("?2Jsecond \u00e4")));
  Graph graph;
  {
    const auto scope = graph.scope("layer");
    const Value x = placeholder(graph, "x", {2, 3});
    (void)dense(x, {.features = 2});
  }
  std::string text = graph_text(graph);
  for (std::size_t at = text.find("layer"); at != std::string::npos; at = text.find("layer", at)) {
    text.replace(at, 5, "\\u001b[2J\\u009bl");
  }
  const std::string shown = run_tool("inspect " + folder.file("g.json", text).string()).text;
  EXPECT_THAT(shown, HasSubstr("?[2J?l"));
  EXPECT_THAT(shown, testing::Not(testing::AnyOf(HasSubstr("\x1b"), HasSubstr("\u009b"))));
}

TEST(Inspect, LinksThatLeadRoundInACircleAreNotFollowed) {
  const TemporaryFolder folder;
  const fs::path circle = folder.path() / "circle";
  fs::create_directory(circle);
  for (const char* name : {"manifest.json", "latest"}) fs::create_symlink(name, circle / name);
  expect_refused_file(circle, AllOf(HasSubstr("SF-E610"), HasSubstr("neither a checkpoint nor one of them")));
  expect_refused_file(circle / "latest", HasSubstr("SF-E4"));
}

TEST(Inspect, AFolderThatATrainingSavesToIsNotCalledDamaged) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string(), tool = SF_TOOL;
  const std::string train = tool +
                            " train --model mnist_cnn --width 2 --batch 1 --threads 1 --steps 100000000 --keep 1 "
                            "--checkpoint-every 1 --checkpoints " +
                            run;
  const Outcome outcome = run_shell(
      train + " >/dev/null 2>&1 & pid=$!; while [ ! -e " + run + "/latest ] && kill -0 $pid; do sleep 0.02; done; " +
      "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do " + tool + " inspect " + run + " >" + run +
      ".text 2>&1 || cat " + run + ".text; done; kill -TERM $pid; wait $pid");
  EXPECT_EQ(outcome.text, "") << "what was said to be damaged";
  EXPECT_THAT(bytes_of_file(run + ".text"), HasSubstr("every hash is right"));
}

}  // namespace
}  // namespace sectionflow::tools
