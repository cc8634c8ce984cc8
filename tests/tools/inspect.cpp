// `sectionflow inspect` and `convert`: files of every kind, whole and damaged.

#include <fstream>

#include "data/labeled_images.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "data/tf_example.h"
#include "data/tfrecord_source.h"
#include "examples/models/zoo.h"
#include "graph/graph_file.h"
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

nlohmann::json inspected(const fs::path& path) {
  return json_of_tool("inspect '" + path.string() + "'");
}

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
    TfrecordWriter writer(folder.path(), "data", {.compression = compression});
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

TEST(Inspect, CheckpointsAndTheirFolder) {
  const TemporaryFolder folder;
  Graph graph;
  GraphSectionManager manager(graph);
  zoo_model("mnist_cnn", {.width = 2}).build(graph, manager);
  Session session(graph, {.threads = 1});
  session.initialize();
  const fs::path run = folder.path() / "run";
  Checkpoints checkpoints(run.string());
  ASSERT_TRUE(checkpoints.save(session, {.step = 3, .metrics = {{"loss", 1.5}}, .strategy = "whole"}));
  ASSERT_TRUE(checkpoints.save(session, {.step = 9}));
  const auto all = inspected(run);
  EXPECT_EQ(all.at("kind"), "checkpoints");
  EXPECT_EQ(all.at("checkpoints").size(), 2U);
  EXPECT_EQ(all.at("latest"), 9);
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
  write_safetensors(folder.path() / "t", views_of(tensors));
  EXPECT_THAT(run_tool("inspect " + (folder.path() / "t").string()).text, HasSubstr("?[2Jname"));
}

// ---- convert.

/// An image folder's worth of CIFAR records: a part of one file each, with two examples.
fs::path cifar_in(const TemporaryFolder& folder) {
  const fs::path path = folder.path() / "cifar";
  fs::create_directories(path);
  std::string records;
  for (const int label : {3, 9}) records += static_cast<char>(label) + std::string(3072, static_cast<char>(label * 20));
  for (int i = 1; i <= 5; ++i) std::ofstream(path / ("data_batch_" + std::to_string(i) + ".bin")) << records;
  std::ofstream(path / "test_batch.bin") << records;
  return path;
}

TEST(Convert, PicturesBecomeRecords) {
  const TemporaryFolder folder;
  const std::string to = (folder.path() / "records").string();
  const auto json =
      json_of_tool("convert cifar10:" + cifar_in(folder).string() + " tfrecord:" + to + " --shard-size 8KiB");
  EXPECT_EQ(json.at("examples"), 12);
  EXPECT_GT(json.at("written").size(), 2U);
  const auto first = inspected(json.at("written").at(0).get<std::string>());
  EXPECT_EQ(first.at("features").at("image/class/label"), "int64 [1]: 3");
  EXPECT_EQ(first.at("features").at("image/height"), "int64 [1]: 32");
}

TEST(Convert, PicturesBecomeADatabaseAPart) {
  const TemporaryFolder folder;
  const std::string to = (folder.path() / "database").string();
  const Outcome outcome = run_tool("convert cifar10:" + cifar_in(folder).string() + " lmdb:" + to);
  if (outcome.text.find("SF-E408") != std::string::npos) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("12 examples"));
  for (const char* part : {"train", "test"}) EXPECT_TRUE(fs::exists(fs::path(to) / part / "data.mdb")) << part;
  expect_refused_file(fs::path(to) / "train", HasSubstr("is an LMDB database"));
}

TEST(Convert, NoPartOfADatabaseIsWrittenWhereAnotherIsThereAlready) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "database";
  fs::create_directories(to / "test");
  expect_refused("convert cifar10:" + cifar_in(folder).string() + " lmdb:" + to.string(),
                 HasSubstr("is there already"));
  EXPECT_FALSE(fs::exists(to / "train"));
  EXPECT_TRUE(fs::is_empty(to / "test"));
}

TEST(Convert, ArraysBecomeTensorsAndArraysAgain) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  write_npy(folder.path() / "a.npy", HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  ASSERT_EQ(run_tool("convert npy:" + at + "/a.npy safetensors:" + at + "/a.safetensors").status, 0);
  EXPECT_EQ(inspected(folder.path() / "a.safetensors").at("tensors").at(0).at("name"), "a");
  ASSERT_EQ(run_tool("convert safetensors:" + at + "/a.safetensors npy:" + at + "/b.npy").status, 0);
  EXPECT_EQ(bytes_of_file(folder.path() / "a.npy"), bytes_of_file(folder.path() / "b.npy"));
}

TEST(Convert, WhatCannotBeIsRefusedAndNothingIsWritten) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string(), tensors = tensors_in(folder).string();
  expect_refused("convert nmist tfrecord:x", HasSubstr("did you mean 'mnist'?"));
  expect_refused("convert mnist tfrecrod:x", HasSubstr("did you mean 'tfrecord'?"));
  expect_refused("convert mnist npy:x", HasSubstr("mnist cannot become npy"));
  expect_refused("convert npy:a npy:b", HasSubstr("npy cannot become npy"));
  expect_refused("convert mnist tfrecord", HasSubstr("write tfrecord:PATH"));
  expect_refused("convert cifar10 tfrecord:x", HasSubstr("write cifar10:FOLDER"));
  expect_refused("convert cifar10:" + at + " tfrecord:" + at + "/r", HasSubstr("data_batch_1.bin"));
  expect_refused("convert safetensors:" + tensors + " npy:" + at + "/x.npy", HasSubstr("2 tensors"));
  expect_refused("convert safetensors:" + tensors + " npy:" + at + "/x.npy --tensor a/v",
                 HasSubstr("did you mean 'a/w'?"));
  expect_refused("convert npy:" + at + "/absent safetensors:" + at + "/x --gzip", HasSubstr("--gzip is for tfrecord"));
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(Inspect, LinksThatLeadRoundInACircleAreNotFollowed) {
  const TemporaryFolder folder;
  const fs::path circle = folder.path() / "circle";
  fs::create_directory(circle);
  for (const char* name : {"manifest.json", "latest"}) fs::create_symlink(name, circle / name);
  expect_refused_file(circle, AllOf(HasSubstr("SF-E610"), HasSubstr("neither a checkpoint nor one of them")));
  expect_refused_file(circle / "latest", HasSubstr("SF-E4"));
}

}  // namespace
}  // namespace sectionflow::tools
