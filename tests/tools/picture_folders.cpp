// Folders of pictures, and records and databases made of them: what `sectionflow` takes them for.

#include <fstream>
#include <map>

#include "data/png_writer.h"
#include "data/tfrecord_source.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kTrainOn = "train --model mnist_cnn --width 2 --batch 2 --threads 1 --epochs 1 --data ";

void write_pictures(const fs::path& folder) {
  fs::create_directories(folder);
  for (const char* name : {"0.png", "1.png"}) write_png(folder / name, HostTensor(Dtype::u8, {28, 28, 1}));
}

TEST(PictureFolders, WhereThePicturesAreOneFolderFurtherDownThatOneIsNamed) {
  const TemporaryFolder folder;
  for (const std::string part : {"new", "old"}) write_pictures(folder.path() / part / "cat");
  expect_refused(kTrainOn + "images:" + folder.path().string(),
                 AllOf(HasSubstr("the 2 folders in '"), HasSubstr("meant '" + (folder.path() / "new").string() +
                                                                  "' or '" + (folder.path() / "old").string() + "'?")));
  const TemporaryFolder empty;
  fs::create_directories(empty.path() / "cat" / "none");
  expect_refused(kTrainOn + "images:" + empty.path().string(), Not(HasSubstr("meant")));
}

TEST(PictureFolders, PartsWithFoldersOfClassesAreTrainedOnAndEvaluated) {
  const TemporaryFolder folder;
  const std::string images = "images:" + (folder.path() / "pictures").string();
  for (const std::string part : {"train", "val", "test"}) {
    for (const std::string name : {"cat", "dog"}) write_pictures(folder.path() / "pictures" / part / name);
  }
  fs::remove(folder.path() / "pictures/val/cat/1.png");
  const auto json = json_of_tool(kTrainOn + images);
  EXPECT_EQ(json.at("examples"), 4) << "those of train alone";
  EXPECT_EQ(json.at("classes").size(), 2U);
  EXPECT_TRUE(json.at("epochs").at(0).at("logs").contains("val_accuracy"));
  const std::string records = (folder.path() / "records").string();
  ASSERT_EQ(run_tool("convert " + images + " tfrecord:" + records).status, 0);
  for (const auto& [part, count] :
       std::map<std::string, std::string>{{"train", "4"}, {"validation", "3"}, {"test", "4"}}) {
    EXPECT_EQ(inspected(records + "/" + part + "-00000.tfrecord").at("records").dump(), count) << part;
  }
  expect_refused("convert " + images + " tfrecord:" + records + "2 --validation 50%",
                 HasSubstr("have a part for it already"));
  EXPECT_EQ(json_of_tool(kTrainOn + images + " --validation 50%").at("examples"), 2);
  fs::rename(folder.path() / "pictures/val/dog", folder.path() / "pictures/val/wolf");
  expect_refused(kTrainOn + images, AllOf(HasSubstr("class 1 of "), HasSubstr("'dog'"),
                                          HasSubstr("a folder of the same name for each class")));
}

TEST(PictureFolders, APictureBesideTheClassesMakesNoClassOfAPartAndIsWarnedOf) {
  const TemporaryFolder folder;
  for (const std::string part : {"train", "test"}) {
    for (const std::string name : {"cat", "dog"}) write_pictures(folder.path() / part / name);
  }
  write_png(folder.path() / "train" / "stray.png", HostTensor(Dtype::u8, {28, 28, 1}));
  const Outcome trained = run_tool(kTrainOn + "images:" + folder.path().string());
  EXPECT_EQ(trained.status, 0) << trained.text;
  EXPECT_THAT(trained.text, AllOf(HasSubstr("left out, as no pictures in a folder of a class: 'stray.png'"),
                                  HasSubstr("epoch 1/1  step 2/2"), HasSubstr("val_accuracy")));
}

TEST(PictureFolders, AFolderWithoutAKindIsAskedForOne) {
  const TemporaryFolder folder;
  write_pictures(folder.path() / "cat");
  expect_refused(kTrainOn + folder.path().string(),
                 AllOf(HasSubstr("it is a folder"), HasSubstr("as in images:" + folder.path().string())));
}

TEST(PictureFolders, AClassWithoutAPictureIsWarnedOf) {
  const TemporaryFolder folder;
  write_pictures(folder.path() / "cat");
  EXPECT_THAT(run_tool(kTrainOn + "images:" + folder.path().string()).text, Not(HasSubstr("without a picture")));
  fs::create_directories(folder.path() / "dog");
  const Outcome outcome = run_tool(kTrainOn + "images:" + folder.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("classes without a picture: 'dog'"));
}

TEST(PictureFolders, ADamagedPictureOfARecordIsNamedByFileAndRecord) {
  const TemporaryFolder folder;
  write_pictures(folder.path());
  const std::string whole = bytes_of_file(folder.path() / "0.png");
  TfrecordWriter writer(folder.path() / "records", "all");
  for (const std::string& bytes : {whole, whole.substr(0, 50), whole}) {
    Example example;
    HostTensor picture(Dtype::u8, {static_cast<std::int64_t>(bytes.size())});
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(picture.bytes()));
    example.emplace("image/encoded", std::move(picture));
    example.emplace("image/class/label", HostTensor::scalar<std::int64_t>(1));
    writer.write(example);
  }
  writer.finish();
  const std::string train = kTrainOn + "tfrecord:" + (folder.path() / "records").string();
  expect_refused(train, AllOf(HasSubstr("SF-E409"), HasSubstr("all-00000.tfrecord': record 1 at byte ")));
  const auto json = json_of_tool(train + " --on-error skip_record");
  EXPECT_EQ(json.at("examples"), 2);
  EXPECT_THAT(json.at("skipped").at("train").at("last").get<std::string>(), HasSubstr("record 1 at byte "));
}

/// Two classes of two pictures each, which no two are alike.
fs::path two_classes_in(const TemporaryFolder& folder) {
  const fs::path pictures = folder.path() / "pictures";
  int level = 0;
  for (const std::string name : {"cat", "dog"}) {
    fs::create_directories(pictures / name);
    for (const char* file : {"0.png", "1.png"}) {
      HostTensor picture(Dtype::u8, {28, 28, 1});
      for (std::uint8_t& value : picture.values<std::uint8_t>()) value = static_cast<std::uint8_t>(++level);
      write_png(pictures / name / file, picture);
    }
  }
  return pictures;
}

bool is_absent(const Outcome& outcome) {
  return outcome.text.find("SF-E408") != std::string::npos;
}

TEST(Databases, ATrainingOnOneGivesTheBitsOfOneOnRecordsOfTheSamePictures) {
  const TemporaryFolder folder;
  const std::string images = "images:" + two_classes_in(folder).string(), at = folder.path().string();
  const Outcome converted = run_tool("convert " + images + " lmdb:" + at + "/database");
  if (is_absent(converted)) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(converted.status, 0) << converted.text;
  ASSERT_EQ(run_tool("convert " + images + " tfrecord:" + at + "/records").status, 0);
  const auto variables = [&](const std::string& kind) {
    const auto json = json_of_tool(kTrainOn + kind + ":" + at + "/" + (kind == "lmdb" ? "database" : "records") +
                                   " --classes 2" + " --checkpoints " + at + "/run_" + kind);
    EXPECT_EQ(json.at("examples"), 4);
    EXPECT_EQ(json.at("classes").size(), 2U);
    return bytes_of_file(folder.path() / ("run_" + kind) / "step-2" / "variables.safetensors");
  };
  EXPECT_EQ(variables("lmdb"), variables("tfrecord"));
}

TEST(Databases, APartForValidationIsEvaluatedAndATrainingGoesOn) {
  const TemporaryFolder folder;
  const std::string images = "images:" + two_classes_in(folder).string(), at = folder.path().string();
  const Outcome converted = run_tool("convert " + images + " lmdb:" + at + "/parts --validation 50%");
  if (is_absent(converted)) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(converted.status, 0) << converted.text;
  const std::string data = "lmdb:" + at + "/parts", run = " --resume --checkpoints " + at + "/run";
  const auto json = json_of_tool(kTrainOn + data + run);
  EXPECT_EQ(json.at("examples"), 2);
  const auto parts = inspected(folder.path() / "parts");
  EXPECT_EQ(parts.at("kind"), "lmdb_parts");
  EXPECT_EQ(parts.at("records"), 4);
  EXPECT_EQ(parts.at("parts").at(1).at("part"), "validation");
  EXPECT_THAT(run_tool("inspect " + at + "/parts").text, AllOf(HasSubstr("train: "), HasSubstr("2 parts, 4 records")));
  EXPECT_TRUE(json.at("epochs").at(0).at("logs").contains("val_accuracy"));
  EXPECT_EQ(json_of_tool("train --model mnist_cnn --width 2 --batch 2 --threads 1 --epochs 3 --data " + data + run)
                .at("step"),
            3);
  // The names of classes beside what is trained on are those of the training.
  ASSERT_EQ(json.at("classes").size(), 2U);
  fs::remove(folder.path() / "parts/validation/labels.txt");
  EXPECT_EQ(json_of_tool(kTrainOn + data).at("classes"), json.at("classes"));
  expect_refused(kTrainOn + data + " --validation 10%",
                 AllOf(HasSubstr("a database 'test' or 'validation'"), HasSubstr("convert --validation 10%")));
}

TEST(Databases, WhatIsNoneIsNamed) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  expect_refused(kTrainOn + "lmdb", HasSubstr("write lmdb:FOLDER"));
  expect_refused(kTrainOn + "lmdb:" + at + "/nowhere", HasSubstr(at + "/nowhere"));
  expect_refused(kTrainOn + "lmdb:" + at, HasSubstr(at));
  for (const std::string file : {"data.mdb", "train/data.mdb"}) {
    fs::create_directories(folder.path() / "train");
    std::ofstream(folder.path() / file) << "no database";
  }
  expect_refused(kTrainOn + "lmdb:" + at, HasSubstr("in one part, beside 'train/data.mdb'"));
}

}  // namespace
}  // namespace sectionflow::tools
