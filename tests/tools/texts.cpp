// `sectionflow train` on texts.

#include <fstream>

#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string gpt(int sequence, int vocabulary = 256) {
  return "train --model gpt --layers 1 --width 8 --heads 1 --batch 2 --threads 1 --vocabulary " +
         std::to_string(vocabulary) + " --sequence " + std::to_string(sequence) + " ";
}
const std::string kGpt = gpt(8);

struct Texts : testing::Test {
  Texts() {
    fs::create_directories(folder.path() / "texts");
    std::ofstream(folder.path() / "texts" / "b") << "the second file of the folder";
    std::ofstream(folder.path() / "texts" / "a") << "the first file, in front of it; ";
    std::ofstream(folder.path() / "one") << "the first file, in front of it; the second file of the folder";
  }
  std::string data(const std::string& name) const { return "--data text:" + (folder.path() / name).string(); }
  std::string bytes_after(const std::string& name, const std::string& run, const std::string& options) const {
    const std::string at = (folder.path() / run).string();
    const auto json = json_of_tool(kGpt + data(name) + " --checkpoints " + at + " " + options);
    EXPECT_TRUE(json.at("last_step").contains("accuracy"));
    return bytes_of_file(at + "/step-" + std::to_string(json.at("step").get<int>()) + "/variables.safetensors");
  }

  TemporaryFolder folder;
};

TEST_F(Texts, OfAFolderAreOneBehindTheOtherByTheirNames) {
  EXPECT_EQ(bytes_after("texts", "run_of_two", "--epochs 2"), bytes_after("one", "run_of_one", "--epochs 2"));
}

TEST_F(Texts, ATrainingGoesOnWithTheBitsOfOneThatWasNotInterrupted) {
  (void)bytes_after("texts", "run", "--steps 3");
  EXPECT_EQ(bytes_after("texts", "run", "--steps 6 --resume"), bytes_after("texts", "whole", "--steps 6"));
  std::ofstream(folder.path() / "texts" / "c") << "another file";
  expect_refused(kGpt + data("texts") + " --steps 8 --resume --checkpoints " + (folder.path() / "run").string(),
                 HasSubstr("SF-E403"));
}

TEST_F(Texts, AShareIsKeptApartForValidation) {
  const auto json = json_of_tool(kGpt + data("one") + " --validation 30% --epochs 1");
  EXPECT_EQ(json.at("examples"), 5);  // of 7 windows of 8 tokens
  EXPECT_TRUE(json.at("epochs").at(0).at("logs").contains("val_accuracy"));
}

TEST_F(Texts, SetTheVocabularyOfAModelThatIsAskedForNone) {
  const std::string whole = kGpt, option = " --vocabulary 256";
  const auto command = [&](const std::string& model, const std::string& run) {
    return model + data("one") + " --steps 1 --checkpoints " + (folder.path() / run).string();
  };
  (void)json_of_tool(command(whole, "said"));
  std::string without = whole;
  without.erase(without.find(option), option.size());
  (void)json_of_tool(command(without, "unsaid"));
  const auto bytes = [&](const char* run) {
    return bytes_of_file((folder.path() / run / "step-1/variables.safetensors").string());
  };
  EXPECT_EQ(bytes("said"), bytes("unsaid"));
}

TEST_F(Texts, AreNotReplacedByWhatIsWritten) {
  const std::string before = bytes_of_file((folder.path() / "one").string());
  for (const char* const option : {"--json", "--statistics", "--checkpoints", "--tensorboard"}) {
    expect_refused(kGpt + data("one") + " --steps 1 " + option + " " + (folder.path() / "one").string(),
                   AllOf(HasSubstr(option), HasSubstr("is that of --data too, which it would replace")));
  }
  EXPECT_EQ(bytes_of_file((folder.path() / "one").string()), before);
}

TEST_F(Texts, ModelsAndFilesThatDoNotFitAreRefused) {
  expect_refused("train --model mnist_cnn --width 2 " + data("one"), HasSubstr("no tokens"));
  expect_refused("train --model gpt --data mnist", HasSubstr("--data text:PATH has tokens"));
  expect_refused(kGpt + "--data text", HasSubstr("write text:PATH"));
  expect_refused(kGpt + data("nowhere"), HasSubstr("nowhere"));
  expect_refused(gpt(64) + data("one"), HasSubstr("give a smaller --sequence"));
  fs::create_directories(folder.path() / "empty" / "deeper");
  expect_refused(kGpt + data("empty"), HasSubstr("has no files"));
  expect_refused(gpt(8, 100) + data("one"), AllOf(HasSubstr("the model knows 100"), HasSubstr("add --vocabulary 256")));
}

}  // namespace
}  // namespace sectionflow::tools
