// `sectionflow convert`: what becomes of data, and what is left of a conversion that is refused or fails.

#include <fstream>

#include "data/npy.h"
#include "data/png_writer.h"
#include "data/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

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

/// Two classes of three pictures, of which one is cut off.
fs::path damaged_pictures_in(const TemporaryFolder& folder) {
  const fs::path pictures = folder.path() / "pictures";
  for (const std::string name : {"cat", "dog"}) {
    fs::create_directories(pictures / name);
    for (const std::string number : {"0", "1", "2"})
      write_png(pictures / name / (number + ".png"), HostTensor(Dtype::u8, {28, 28, 1}));
  }
  fs::resize_file(pictures / "dog" / "1.png", 60);
  return pictures;
}

TEST(Convert, ADamagedPictureIsNamedOrLeftOutAndCounted) {
  const TemporaryFolder folder;
  const fs::path pictures = damaged_pictures_in(folder), records = folder.path() / "records";
  const std::string convert = "convert images:" + pictures.string() + " tfrecord:" + records.string();
  expect_refused(convert, AllOf(HasSubstr("SF-E409"), HasSubstr("dog/1.png")));
  EXPECT_FALSE(fs::exists(records / "all-00000.tfrecord"));
  const auto json = json_of_tool(convert + " --on-error skip_record");
  EXPECT_EQ(json.at("examples"), 5);
  EXPECT_EQ(json.at("skipped").at("records"), 1);
  EXPECT_THAT(json.at("skipped").at("last").get<std::string>(), HasSubstr("dog/1.png"));
  folder.file("pictures/cat/0.png", "no picture");
  EXPECT_THAT(run_tool(convert + " --on-error skip_record --overwrite").text,
              AllOf(HasSubstr("4 examples"), HasSubstr("left out 2 damaged records; the last: ")));
  expect_refused(convert + " --overwrite", AllOf(HasSubstr("SF-E409"), HasSubstr("cat/0.png")));
  expect_refused(convert + " --on-error skip", HasSubstr("there are fail, skip_record"));
}

TEST(Convert, PicturesBecomeADatabaseAPart) {
  const TemporaryFolder folder;
  const std::string to = (folder.path() / "database").string();
  const Outcome outcome = run_tool("convert cifar10:" + cifar_in(folder).string() + " lmdb:" + to);
  if (outcome.text.find("SF-E408") != std::string::npos) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("12 examples"));
  for (const char* part : {"train", "test"}) EXPECT_TRUE(fs::exists(fs::path(to) / part / "data.mdb")) << part;
  const auto database = inspected(fs::path(to) / "train");
  EXPECT_EQ(database.at("kind"), "lmdb");
  EXPECT_EQ(database.at("records"), 10);
  EXPECT_EQ(database.at("first_records").at(1).at("label"), 9);
  EXPECT_EQ(database.at("first_records").at(1).at("image"), "u8[32,32,3]");
  EXPECT_EQ(inspected(fs::path(to) / "train" / "data.mdb").at("records"), 10);
}

TEST(Convert, WhatIsThereAlreadyIsReplacedOnlyWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  const std::string to = (folder.path() / "records").string(), from = "convert cifar10:" + cifar_in(folder).string();
  ASSERT_EQ(run_tool(from + " tfrecord:" + to + " --shard-size 8KiB").status, 0);
  const std::string first = bytes_of_file(fs::path(to) / "train-00000.tfrecord");
  ASSERT_TRUE(fs::exists(fs::path(to) / "train-00001.tfrecord"));
  expect_refused(from + " tfrecord:" + to, AllOf(HasSubstr("is there already"), HasSubstr("--overwrite")));
  EXPECT_EQ(bytes_of_file(fs::path(to) / "train-00000.tfrecord"), first);
  ASSERT_EQ(run_tool(from + " tfrecord:" + to + " --overwrite").status, 0);
  EXPECT_FALSE(fs::exists(fs::path(to) / "train-00001.tfrecord")) << "a shard of what was there would be read with it";
  EXPECT_EQ(inspected(fs::path(to) / "train-00000.tfrecord").at("records"), 10);

  const std::string at = folder.path().string();
  write_npy(folder.path() / "a.npy", HostTensor::of<float>({2}, {1, 2}));
  folder.file("a.safetensors", "of somebody");
  const std::string tensors = "convert npy:" + at + "/a.npy safetensors:" + at + "/a.safetensors";
  expect_refused(tensors, HasSubstr("is there already"));
  EXPECT_EQ(bytes_of_file(folder.path() / "a.safetensors"), "of somebody");
  EXPECT_EQ(run_tool(tensors + " --overwrite").status, 0);
  EXPECT_EQ(inspected(folder.path() / "a.safetensors").at("kind"), "safetensors");
}

TEST(Convert, ADatabaseIsReplacedAndNothingElseIs) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "database";
  const std::string convert = "convert cifar10:" + cifar_in(folder).string() + " lmdb:" + to.string();
  const Outcome outcome = run_tool(convert);
  if (outcome.text.find("SF-E408") != std::string::npos) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_refused(convert, HasSubstr("is there already"));
  ASSERT_EQ(run_tool(convert + " --overwrite").status, 0);
  EXPECT_EQ(inspected(to / "train").at("records"), 10);
  EXPECT_EQ(std::distance(fs::directory_iterator(to), fs::directory_iterator()), 2);
  std::ofstream(to / "test" / "notes.txt") << "of somebody";
  expect_refused(convert + " --overwrite", HasSubstr("'notes.txt', which is no part of a database"));
  EXPECT_TRUE(fs::exists(to / "test" / "notes.txt"));
}

TEST(Convert, AShareOfThePicturesToTrainOnBecomesAPartOfItsOwn) {
  const TemporaryFolder folder;
  const std::string convert = "convert cifar10:" + cifar_in(folder).string() + " tfrecord:";
  const fs::path to = folder.path() / "records", again = folder.path() / "again", other = folder.path() / "other";
  EXPECT_EQ(json_of_tool(convert + to.string() + " --validation 20%").at("examples"), 12);
  EXPECT_EQ(inspected(to / "train-00000.tfrecord").at("records"), 8);
  EXPECT_EQ(inspected(to / "validation-00000.tfrecord").at("records"), 2);
  EXPECT_EQ(inspected(to / "test-00000.tfrecord").at("records"), 2);
  ASSERT_EQ(run_tool(convert + again.string() + " --validation 20%").status, 0);
  EXPECT_EQ(bytes_of_file(to / "train-00000.tfrecord"), bytes_of_file(again / "train-00000.tfrecord"));
  expect_refused(convert + other.string() + " --validation 2", HasSubstr("as in 10%"));
  EXPECT_FALSE(fs::exists(other));
}

TEST(Convert, NamesOfClassesGoWithTheData) {
  const TemporaryFolder folder;
  const fs::path cifar = cifar_in(folder), records = folder.path() / "records";
  std::ofstream(cifar / "batches.meta.txt")
      << "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
  ASSERT_EQ(run_tool("convert cifar10:" + cifar.string() + " tfrecord:" + records.string()).status, 0);
  const auto json = inspected(records / "train-00000.tfrecord");
  EXPECT_EQ(json.at("features").at("image/class/text"), "bytes [1]: 'cat'");
  ASSERT_EQ(json.at("classes").size(), 2U);
  EXPECT_EQ(json.at("classes").at(1).at("label"), 9);
  EXPECT_EQ(json.at("classes").at(1).at("name"), "truck");
  EXPECT_EQ(json.at("classes").at(1).at("records"), 5);
  EXPECT_THAT(bytes_of_file(records / "labels.txt"), HasSubstr("3:cat\n"));
  EXPECT_THAT(run_tool("inspect " + (records / "train-00000.tfrecord").string()).text,
              HasSubstr("2 classes:\n  3 cat: 5 records\n  9 truck: 5 records\n"));
  const std::string database = (folder.path() / "database").string();
  const Outcome outcome = run_tool("convert cifar10:" + cifar.string() + " lmdb:" + database);
  if (outcome.text.find("SF-E408") != std::string::npos) GTEST_SKIP() << "built without liblmdb";
  EXPECT_EQ(inspected(database + "/train").at("classes").at(0).at("name"), "cat");
}

TEST(Convert, AConversionThatFailsLeavesNothingThatWouldHinderTheNext) {
  const TemporaryFolder folder;
  const fs::path cifar = cifar_in(folder);
  std::ofstream(cifar / "batches.meta.txt") << "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  const std::string sound = bytes_of_file(cifar / "test_batch.bin");
  for (const std::string kind : {"tfrecord", "lmdb"}) {
    const fs::path to = folder.path() / kind;
    const std::string convert = "convert cifar10:" + cifar.string() + " " + kind + ":" + to.string();
    std::ofstream(cifar / "test_batch.bin") << std::string(1, '\x63') + sound.substr(1);  // a label of 99
    const Outcome failed = run_tool(convert);
    if (failed.text.find("SF-E408") != std::string::npos) continue;  // built without liblmdb
    ASSERT_EQ(failed.status, 2) << failed.text;
    EXPECT_FALSE(fs::exists(to)) << kind;
    std::ofstream(cifar / "test_batch.bin") << sound;
    const Outcome repaired = run_tool(convert);
    EXPECT_EQ(repaired.status, 0) << repaired.text;
  }
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

TEST(Convert, FoldersAboveAreMadeWhateverIsWritten) {
  const TemporaryFolder folder;
  const fs::path cifar = cifar_in(folder);
  for (const std::string kind : {"tfrecord", "lmdb"}) {
    const fs::path to = folder.path() / kind / "deep" / "down";
    const Outcome outcome = run_tool("convert cifar10:" + cifar.string() + " " + kind + ":" + to.string());
    if (outcome.text.find("SF-E408") != std::string::npos) continue;  // built without liblmdb
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_TRUE(fs::is_directory(to));
  }
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
  const std::string at = folder.path().string(), tensors = at + "/tensors";
  std::vector<NamedTensor> two;
  for (const char* name : {"a/w", "n"}) two.push_back({name, HostTensor::scalar(1.0F)});
  write_safetensors(tensors, views_of(two));
  expect_refused("convert nmist tfrecord:x", HasSubstr("did you mean 'mnist'?"));
  expect_refused("convert mnist tfrecrod:x", HasSubstr("did you mean 'tfrecord'?"));
  expect_refused("convert mnist", AllOf(HasSubstr("TO is missing"), HasSubstr("tfrecord:FOLDER")));
  expect_refused("convert npy:a.npy", HasSubstr("safetensors:FILE"));
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

}  // namespace
}  // namespace sectionflow::tools
