// How `sectionflow` ends where something has gone wrong on the way: what it says, its exit status, and what it leaves.

#include <optional>

#include "data/png_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kTrain = "train --model mnist_cnn --width 2 --batch 2 --threads 1 ";

/// The program where no file may have more than so many blocks of 512 bytes.
Outcome run_limited(int blocks, const std::string& arguments) {
  return run_shell("trap '' XFSZ; ulimit -f " + std::to_string(blocks) + "; " + std::string(SF_TOOL) + " " + arguments +
                   " 2>&1");
}

/// The program beside a disk of so many kilobytes, which is mounted at `folder`; nothing where this process may not
/// mount any.
std::optional<Outcome> run_beside_small_disk(int kilobytes, const fs::path& folder, const std::string& arguments) {
  constexpr int kNotMounted = 77;
  const Outcome outcome =
      run_shell("unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=" + std::to_string(kilobytes) +
                "k none " + folder.string() + " || exit 77; " + std::string(SF_TOOL) + " " + arguments + "' 2>&1");
  const bool may_not = outcome.status == kNotMounted || outcome.text.find("unshare") != std::string::npos;
  return may_not ? std::nullopt : std::optional(outcome);
}

TEST(TrainingEnds, TheLossOfItsLastCheckpointIsToldAndIsNoSuccess) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string(), lost = (folder.path() / "lost").string();
  const std::string train = kTrain + "--resume --checkpoints ";
  const Outcome none = run_limited(4, train + lost + " --steps 2 --checkpoint-every 1");
  EXPECT_EQ(none.status, 1) << none.text;
  EXPECT_THAT(none.text,
              AllOf(HasSubstr("completed 2 steps; step 2"), HasSubstr("that of step 2, the end of the"),
                    HasSubstr("is lost: "), HasSubstr("File too large"), HasSubstr("'" + lost + "' has none")));
  ASSERT_EQ(run_tool(train + run + " --steps 2").status, 0);
  const Outcome last = run_limited(4, train + run + " --steps 4 --json " + run + ".json");
  EXPECT_EQ(last.status, 1) << last.text;
  EXPECT_THAT(last.text, HasSubstr("has that of step 2, from which --resume goes on"));
  const auto json = nlohmann::json::parse(bytes_of_file(run + ".json"));
  ASSERT_EQ(json.at("problems").size(), 1U);
  EXPECT_THAT(json.at("problems").at(0).get<std::string>(),
              HasSubstr("that of step 4, the end of the training, is lost"));
  EXPECT_TRUE(json_of_tool(train + run + " --steps 4").at("problems").empty());
}

TEST(TrainingEnds, ModelsWithoutLogitsOfAllLabelsAreTrainedByTheirLossAlone) {
  const std::string sizes = " --layers 1 --width 8 --sequence 8 --vocabulary 20 --batch 2 ";
  for (const std::string model : {"lstm_lm", "gru_lm"}) {
    const auto trained = run_tool("train --model " + model + sizes + "--steps 2");
    EXPECT_EQ(trained.status, 0) << trained.text;
    EXPECT_THAT(trained.text, AllOf(HasSubstr("loss"), Not(HasSubstr("accuracy"))));
    const auto planned = run_tool("plan --metrics --model " + model + sizes);
    EXPECT_EQ(planned.status, 0) << planned.text;
  }
}

TEST(TrainingEnds, ALossThatIsNoNumberIsToldAndIsNoSuccess) {
  const Outcome outcome = run_tool(kTrain + "--steps 6 --optimizer sgd --learning-rate 1e38");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("at the end, step 6; the first that was not finite was that of step "),
                                  HasSubstr("the loss of step 2 is nan")));
}

TEST(TrainingEnds, WhereNothingWasLeftToTrainTheKeptEvaluationIsShownAndNotMadeAgain) {
  const TemporaryFolder folder;
  const std::string train =
      kTrain + "--resume --steps 3 --checkpoint-every 3 --checkpoints " + (folder.path() / "run").string();
  const auto first = json_of_tool(train);
  ASSERT_EQ(first.at("evaluated_step"), 3);
  const std::string at = bytes_of_file(folder.path() / "run/step-3/manifest.json");
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(json_of_tool(train).at("evaluation"), first.at("evaluation"));
    const Outcome again = run_tool(train);
    EXPECT_THAT(again.text, AllOf(HasSubstr("nothing is left to train"), Not(HasSubstr("goes on"))));
    EXPECT_EQ(bytes_of_file(folder.path() / "run/step-3/manifest.json"), at) << "it is not saved again";
  }
}

TEST(TrainingEnds, WhereNothingWasLeftBehindAnEpochItsEvaluationIsShown) {
  const TemporaryFolder folder;
  const std::string train = kTrain + "--resume --epochs 1 --checkpoints " + (folder.path() / "run").string();
  const auto first = json_of_tool(train);
  ASSERT_FALSE(first.at("evaluation").empty());
  const auto again = json_of_tool(train);
  EXPECT_EQ(again.at("evaluation"), first.at("evaluation"));
  EXPECT_EQ(again.at("evaluated_step"), first.at("evaluated_step"));
}

TEST(TrainingEnds, FoldersThatCannotAllBeMadeAreNotLeftHalfWay) {
  const TemporaryFolder folder;
  expect_refused(kTrain + "--steps 1 --statistics " + (folder.path() / "a/b").string() + "/" + std::string(300, 'c') +
                     "/steps.csv",
                 HasSubstr("--statistics"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(TrainingEnds, ABudgetOfNothingIsRefused) {
  for (const char* zero : {"0", "0MiB"}) {
    for (const std::string& command :
         {kTrain + "--steps 1", std::string("plan --model mnist_cnn"), std::string("compare --model mnist_cnn")}) {
      expect_refused(command + " --device-memory " + zero,
                     AllOf(HasSubstr("--device-memory"), HasSubstr("leave it out where there is to be none")));
    }
  }
}

TEST(TrainingEnds, WhatIsGivenTwiceOrWithoutAValueIsToldInWords) {
  expect_refused("plan --batch 1 --batch 2", HasSubstr("--batch: is given 2 times; wanted once"));
  expect_refused("plan --batch", HasSubstr("--batch: its value is missing; wanted "));
}

struct Pictures : testing::Test {
  /// Pictures that are not pressed to nothing.
  void write(const std::string& name, std::int64_t count, std::int64_t side = 28) const {
    fs::create_directories(pictures / name);
    HostTensor picture(Dtype::u8, {side, side, 1});
    std::uint32_t word = 1;
    for (std::uint8_t& level : picture.values<std::uint8_t>()) {
      word = word * 1664525 + 1013904223;
      level = static_cast<std::uint8_t>(word >> 24);
    }
    for (std::int64_t i = 0; i < count; ++i) write_png(pictures / name / (std::to_string(i) + ".png"), picture);
  }
  TemporaryFolder folder;
  fs::path pictures = folder.path() / "pictures";
  std::string images = "images:" + pictures.string();
};

TEST_F(Pictures, AreNotConvertedIntoTheirOwnFolder) {
  write("cat", 1);
  write("dog", 1);
  for (const std::string to : {"lmdb:", "tfrecord:"}) {
    for (const std::string where : {"/new", "/cat", "/cat/new", "/../pictures/new"}) {
      expect_refused("convert " + images + " " + to + pictures.string() + where,
                     AllOf(HasSubstr("ArgumentError"), HasSubstr(pictures.string() + where + "' lies in '"),
                           HasSubstr("'" + pictures.string() + "', the folder of FROM")));
    }
  }
  expect_refused("convert " + images + " lmdb:" + folder.path().string() + "/new --json " + pictures.string() +
                     "/new/results.json",
                 HasSubstr("--json: '"));
  EXPECT_FALSE(fs::exists(pictures / "new"));
  EXPECT_EQ(run_tool("convert " + images + " tfrecord:" + pictures.string() + "-new").status, 0);
}

TEST_F(Pictures, BesideTheFoldersOfPartsAreNamedWhereTheyAreLeftOut) {
  for (const char* name : {"train/cat", "train/dog", "test/cat", "test/dog"}) write(name, 2);
  const std::string train = kTrain + "--epochs 1 --data " + images;
  EXPECT_THAT(run_tool(train).text, Not(HasSubstr("left out")));
  write("wolf", 1);
  write("bear", 1);
  fs::create_directories(pictures / "notes");
  const Outcome outcome = run_tool(train);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("is read by its parts, 'train', 'test'"),
                                  HasSubstr("left out are the folders of pictures beside them: 'bear', 'wolf'"),
                                  Not(HasSubstr("notes"))));
}

TEST_F(Pictures, OfAFolderAreCountedByClassAndToldWhatReadsThem) {
  write("cat", 2);
  write("dog", 1);
  const auto json = inspected(pictures);
  EXPECT_EQ(json.at("kind"), "images");
  EXPECT_EQ(json.at("pictures"), 3);
  EXPECT_EQ(json.at("parts").at(0).at("classes").at(0).at("pictures"), 2);
  EXPECT_THAT(run_tool("inspect " + pictures.string()).text,
              AllOf(HasSubstr("  0 cat: 2 pictures\n  1 dog: 1 picture\n"), HasSubstr("--data images:FOLDER"),
                    Not(HasSubstr("step-N"))));
  expect_refused("inspect " + (pictures / "cat").string(),
                 AllOf(HasSubstr("is a folder of pictures without a folder for each class"), Not(HasSubstr("step-N"))));
  for (const char* name : {"parts/train/cat", "parts/val/cat"}) write(name, 1);
  EXPECT_EQ(inspected(pictures / "parts").at("parts").at(1).at("part"), "validation");
}

TEST_F(Pictures, OnAFullDiskADatabaseTellsWhatItWanted) {
  write("cat", 30, 200);
  const Outcome limited = run_limited(200, "convert " + images + " lmdb:" + (folder.path() / "new").string());
  EXPECT_EQ(limited.status, 2);
  if (limited.text.find("liblmdb-dev") != std::string::npos) GTEST_SKIP() << "built without liblmdb";
  EXPECT_THAT(limited.text, AllOf(HasSubstr("MiB were to be written, and the disk has "), HasSubstr("ulimit -f")));
  EXPECT_FALSE(fs::exists(folder.path() / "new"));
  const fs::path disk = folder.path() / "disk";
  fs::create_directory(disk);
  const auto full = run_beside_small_disk(200, disk, "convert " + images + " lmdb:" + (disk / "new").string());
  if (!full) GTEST_SKIP() << "this process may mount no disk of its own";
  EXPECT_EQ(full->status, 2);
  EXPECT_THAT(full->text, AllOf(HasSubstr("the disk is full: about 1."), HasSubstr("MiB were to be written, and "),
                                HasSubstr("are free"), Not(HasSubstr("Input/output"))));
}

}  // namespace
}  // namespace sectionflow::tools
