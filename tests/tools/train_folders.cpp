// Where `sectionflow` writes: what it refuses before anything is written, and what it leaves behind.

#include <algorithm>
#include <fstream>

#include "data/png_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kTrainSmall = "train --model mnist_cnn --width 2 --batch 2 --threads 1 --steps 2 ";

/// Two pictures of each class.
fs::path two_classes_in(const fs::path& folder) {
  for (const std::string name : {"cat", "dog"}) {
    fs::create_directories(folder / name);
    for (const char* file : {"0.png", "1.png"}) write_png(folder / name / file, HostTensor(Dtype::u8, {28, 28, 1}));
  }
  return folder;
}

/// Everything in a folder and below it.
std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(TrainFolders, WhatIsWrittenAmongThePicturesIsRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const fs::path pictures = two_classes_in(folder.path() / "pictures");
  fs::create_directory_symlink(pictures, folder.path() / "link");
  const auto before = names_below(folder.path());
  const std::string data = "--data images:" + pictures.string();
  for (const std::string option : {"--checkpoints", "--tensorboard", "--statistics", "--json"}) {
    for (const std::string where : {"pictures", "pictures/", "pictures/run", "pictures/cat/run", "link/run",
                                    "other/../pictures/run", "pictures/../pictures"}) {
      expect_refused(kTrainSmall + data + " " + option + " " + folder.path().string() + "/" + where,
                     AllOf(HasSubstr(option), HasSubstr("the folder of --data"), HasSubstr("give a folder beside it")));
    }
  }
  EXPECT_EQ(names_below(folder.path()), before);
  const std::string run = " --checkpoints " + folder.path().string() + "/pictures-run";
  EXPECT_EQ(run_tool(kTrainSmall + data + run).status, 0);
  EXPECT_EQ(json_of_tool("train --model mnist_cnn --width 2 --batch 2 --threads 1 --steps 3 --resume " + data + run)
                .at("steps"),
            1);
}

TEST(TrainFolders, WhatIsWrittenAmongTextsIsRefused) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  fs::create_directory(folder.path() / "texts");
  folder.file("texts/a.txt", std::string(400, 'a'));
  const std::string train =
      "train --model gpt --layers 1 --width 8 --heads 1 --sequence 4 --vocabulary 256 --batch 2 --threads 1 --steps 1 "
      "--data text:" +
      at + "/texts ";
  for (const std::string& output : {"--checkpoints " + at + "/texts", "--statistics " + at + "/texts/steps.csv",
                                    "--json " + at + "/texts/results.json"}) {
    expect_refused(train + output, HasSubstr("the folder of --data"));
  }
  EXPECT_EQ(run_tool(train + "--statistics " + at + "/steps.csv").status, 0);
  EXPECT_EQ(names_below(folder.path() / "texts").size(), 1U);
}

TEST(TrainFolders, CheckpointsAmongThePicturesAreNoClass) {
  const TemporaryFolder folder;
  const fs::path pictures = two_classes_in(folder.path() / "pictures");
  const std::string data = "--data images:" + pictures.string();
  ASSERT_EQ(run_tool(kTrainSmall + "--data synthetic --checkpoints " + folder.path().string() + "/run").status, 0);
  fs::copy(folder.path() / "run", pictures, fs::copy_options::recursive);
  ASSERT_TRUE(fs::exists(pictures / "step-2" / "manifest.json"));
  const auto json = json_of_tool(kTrainSmall + data);
  ASSERT_EQ(json.at("classes").size(), 2U);
  EXPECT_EQ(json.at("classes").at(1).at("name"), "dog");
  EXPECT_THAT(run_tool(kTrainSmall + data).text, HasSubstr("which are no classes: 'step-2'"));
}

TEST(TrainFolders, NamesThatAreEmptyAreRefused) {
  for (const std::string option :
       {"--checkpoints", "--tensorboard", "--statistics", "--json", "--profile", "--swap-directory", "--validation"}) {
    expect_refused(kTrainSmall + option + " ''", AllOf(HasSubstr(option), HasSubstr("its name is empty")));
  }
  for (const std::string option : {"--json", "--profile", "--dot", "--trace", "--memory-snapshot", "--graph"}) {
    expect_refused("plan --model mnist_cnn " + option + " ''",
                   AllOf(HasSubstr(option), HasSubstr("its name is empty")));
  }
  for (const std::string option : {"--json", "--profile", "--report", "--swap-directory"}) {
    expect_refused("compare --model mnist_cnn " + option + " ''",
                   AllOf(HasSubstr(option), HasSubstr("its name is empty")));
  }
  expect_refused("inspect ''", HasSubstr("its name is empty"));
}

TEST(TrainFolders, OptionsOfAFolderThatIsNotAskedForAreRefused) {
  expect_refused(kTrainSmall + "--keep 2", AllOf(HasSubstr("--keep"), HasSubstr("--checkpoints")));
  expect_refused(kTrainSmall + "--tensorboard-every 2",
                 AllOf(HasSubstr("--tensorboard-every"), HasSubstr("--tensorboard")));
  expect_refused(kTrainSmall + "--checkpoint-every 2", HasSubstr("add --checkpoints FOLDER"));
}

TEST(TrainFolders, ARefusedTrainingLeavesNothing) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  const std::string outputs =
      " --tensorboard " + at + "/a/board --statistics " + at + "/b/steps.csv --json " + at + "/c/results.json";
  expect_refused(kTrainSmall + "--data mnist:" + at + "/none" + outputs, HasSubstr("none"));
  expect_refused(kTrainSmall + "--strategy sections:99" + outputs, HasSubstr("SF-E"));
  expect_refused(kTrainSmall + "--device-memory 4KiB" + outputs, HasSubstr("BudgetError"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(TrainFolders, FoldersOfFilesThatAreWrittenAreMade) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  const Outcome outcome = run_tool(kTrainSmall + "--tensorboard " + at + "/a/board --statistics " + at +
                                   "/b/steps.csv --json " + at + "/c/d/results.json");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(fs::exists(folder.path() / "a/board"));
  EXPECT_THAT(bytes_of_file(folder.path() / "b/steps.csv"), HasSubstr("step type"));
  EXPECT_TRUE(fs::exists(folder.path() / "c/d/results.json"));
  ASSERT_EQ(run_tool("plan --model mnist_cnn --width 2 --batch 2 --strategy sections:2 --dot " + at +
                     "/e/cut.dot --trace " + at + "/e/step.json --json " + at + "/f/plan.json")
                .status,
            0);
  for (const char* file : {"e/cut.dot", "e/step.json", "f/plan.json"}) EXPECT_TRUE(fs::exists(folder.path() / file));
  // What cannot be made is told before anything is trained.
  folder.file("file", "");
  expect_refused(kTrainSmall + "--json " + at + "/file/results.json",
                 AllOf(HasSubstr("--json"), HasSubstr("file/results.json")));
}

}  // namespace
}  // namespace sectionflow::tools
