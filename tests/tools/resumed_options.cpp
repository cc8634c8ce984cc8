// What `sectionflow train --resume` says of a command that is another than the checkpoint's.

#include "data/png_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct ResumedOptions : testing::Test {
  std::string command(const std::string& options) const {
    return "train --threads 1 --resume --checkpoints '" + (folder.path() / "run").string() + "' " + options;
  }
  void begin(const std::string& options) const {
    const Outcome outcome = run_tool(command(options));
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  /// Two classes of three pictures, the second of which is damaged in each.
  std::string pictures() const {
    for (const std::string name : {"cat", "dog"}) {
      fs::create_directories(folder.path() / "pictures" / name);
      for (const std::string number : {"0", "1", "2"}) {
        const fs::path file = folder.path() / "pictures" / name / (number + ".png");
        write_png(file, HostTensor(Dtype::u8, {28, 28, 1}));
        if (number == "1") fs::resize_file(file, 60);
      }
    }
    return "images:" + (folder.path() / "pictures").string();
  }

  TemporaryFolder folder;
  const std::string small = "--model mnist_cnn --width 2 ";
};

TEST_F(ResumedOptions, SyntheticDataOfAnotherBatchAreRefusedAsOtherDataAre) {
  begin(small + "--data synthetic --batch 4 --steps 2");
  expect_refused(command(small + "--data synthetic --batch 5 --steps 4"),
                 AllOf(HasSubstr("SF-E403"), HasSubstr("--batch 4 then, --batch 5 now"), Not(HasSubstr("goes on"))));
  const Outcome same = run_tool(command(small + "--data synthetic --batch 4 --steps 4"));
  EXPECT_EQ(same.status, 0) << same.text;
  EXPECT_THAT(same.text, HasSubstr("goes on from step 2"));
}

TEST_F(ResumedOptions, DataOfAnotherKindAreNamed) {
  const std::string images = pictures();
  begin(small + "--data synthetic --batch 2 --steps 2");
  expect_refused(command(small + "--batch 2 --steps 4 --on-error skip_record --data " + images),
                 AllOf(HasSubstr("--data synthetic then, --data " + images + " now"),
                       HasSubstr("--on-error fail then, --on-error skip_record now"), Not(HasSubstr("goes on"))));
  const TemporaryFolder other;
  const std::string train = "train --threads 1 --resume --checkpoints " + other.path().string() + "/run " + small +
                            "--batch 2 --on-error skip_record ";
  ASSERT_EQ(run_tool(train + "--steps 2 --data " + images).status, 0);
  expect_refused(train + "--steps 4 --data synthetic", HasSubstr("--data " + images + " then, --data synthetic now"));
}

TEST_F(ResumedOptions, WhatIsDoneWithDamageIsNamedWhereItDiffers) {
  const std::string data = small + "--batch 1 --data " + pictures();
  begin(data + " --on-error skip_record --epochs 1");
  expect_refused(command(data + " --epochs 2"),
                 AllOf(HasSubstr("SF-E403"), HasSubstr("--on-error skip_record then, --on-error fail now"),
                       Not(HasSubstr("--batch")), Not(HasSubstr("goes on"))));
  EXPECT_EQ(run_tool(command(data + " --on-error skip_record --epochs 2")).status, 0);
}

TEST_F(ResumedOptions, WithTheSameCommandTheFilesAreOthers) {
  const std::string data = small + "--on-error skip_record --batch 2 --data " + pictures();
  begin(data + " --steps 1");
  fs::rename(folder.path() / "pictures/cat/0.png", folder.path() / "pictures/cat/9.png");
  expect_refused(command(data + " --steps 2"), HasSubstr("give --data the files that it was trained on"));
}

TEST_F(ResumedOptions, OfAnotherModelTheOptionsAreNamedThatDiffer) {
  begin("--model mnist_cnn --width 2 --batch 2 --steps 1");
  expect_refused(command("--model mnist_cnn --width 3 --batch 3 --steps 2"),
                 AllOf(HasSubstr("SF-E424"), HasSubstr("--width 2 then, --width 3 now"), Not(HasSubstr("--batch"))));
  expect_refused(command("--model mnist_cnn --width 2 --optimizer sgd --batch 2 --steps 2"),
                 AllOf(HasSubstr("SF-E424"), HasSubstr("--optimizer adam then, --optimizer sgd now")));
  expect_refused(command("--model mnist_resnet --batch 2 --steps 2"),
                 AllOf(HasSubstr("--model mnist_cnn then, --model mnist_resnet now"),
                       HasSubstr("--width 2 then, no --width now")));
  expect_refused(command("--model mnist_cnn --width 2 --batch 2 --steps 2 --seed 7"), HasSubstr("give --seed 0"));
}

TEST_F(ResumedOptions, AnotherModelOfTheSameVariablesIsRefused) {
  const std::string gpt = "--model gpt --layers 1 --width 8 --sequence 8 --vocabulary 16 --batch 2 --data synthetic ";
  begin(gpt + "--heads 2 --steps 1");
  expect_refused(command(gpt + "--heads 4 --steps 2"),
                 AllOf(HasSubstr("--heads 2 then, --heads 4 now"), HasSubstr("give --heads 2"),
                       HasSubstr("another folder of --checkpoints"), Not(HasSubstr("goes on"))));
  expect_refused(
      command(gpt + "--heads 2 --bf16 --steps 2"),
      AllOf(HasSubstr("no --bf16 then, --bf16 now"), HasSubstr("leave --bf16 out"), Not(HasSubstr("goes on"))));
  const auto checkpoints = inspected(folder.path() / "run").at("checkpoints");
  ASSERT_EQ(checkpoints.size(), 1U) << "nothing was trained";
  EXPECT_EQ(run_tool(command(gpt + "--heads 2 --steps 2")).status, 0);
}

TEST_F(ResumedOptions, PicturesOfAnotherSizeAreThoseOfAnotherModel) {
  const std::string resnet = "--model resnet18 --width 4 --classes 4 --batch 2 --data synthetic ";
  begin(resnet + "--image 32 --steps 1");
  expect_refused(command(resnet + "--image 64 --steps 2"),
                 AllOf(HasSubstr("--image 32 then, --image 64 now"), HasSubstr("give --image 32")));
}

TEST_F(ResumedOptions, WhatMakesNoOtherModelMayBeSaidOrLeftOut) {
  begin(small + "--batch 2 --steps 1");
  for (const std::string& options :
       {small + "--classes 10 --image 28 --steps 2", small + "--steps 3 --strategy whole --learning-rate 0.5",
        small + "--steps 4 --device-memory 1GiB --host-memory 1GiB --optimizer adam"}) {
    const Outcome outcome = run_tool(command("--batch 2 " + options));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("goes on from step"));
  }
}

TEST_F(ResumedOptions, TheCommandThatInspectTellsIsOneThatAShellTakes) {
  const fs::path images = folder.path() / "it's (mine) $HOME  \\ too";
  (void)pictures();
  fs::rename(folder.path() / "pictures", images);
  const std::string at = (folder.path() / "run").string();
  std::string quoted = images.string();
  quoted.replace(quoted.find('\''), 1, "'\\''");
  begin(small + "--batch 2 --steps 1 --on-error skip_record --data 'images:" + quoted + "'");
  const std::string text = run_tool("inspect " + at).text, before = "trained as by: sectionflow ";
  ASSERT_THAT(text, HasSubstr(before));
  const std::size_t begins = text.find(before) + before.size();
  const std::string told = text.substr(begins, text.find('\n', begins) - begins);
  const Outcome outcome = run_tool(told + " --steps 2 --threads 1 --resume --checkpoints " + at);
  EXPECT_EQ(outcome.status, 0) << told << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("goes on from step 1"));
}

TEST_F(ResumedOptions, InspectTellsTheCommandOfACheckpoint) {
  begin("--model mnist_cnn --width 2 --classes 7 --batch 2 --steps 1 --learning-rate 0.5");
  const std::string run = (folder.path() / "run").string();
  const auto all = json_of_tool("inspect " + run), one = json_of_tool("inspect " + run + "/step-1");
  for (const auto& command : {all.at("latest_holds").at("command"), one.at("command")}) {
    EXPECT_EQ(command.at("--model"), "mnist_cnn");
    EXPECT_EQ(command.at("--width"), "2");
    EXPECT_EQ(command.at("--classes"), "7");
    EXPECT_EQ(command.at("--batch"), "2");
    EXPECT_EQ(command.at("--learning-rate"), "0.5");
  }
  for (const std::string& path : {run, run + "/step-1"}) {
    EXPECT_THAT(run_tool("inspect " + path).text, AllOf(HasSubstr("trained as by: sectionflow train "),
                                                        HasSubstr("--model mnist_cnn"), HasSubstr("--width 2")));
  }
}

TEST_F(ResumedOptions, WhereNothingIsLeftToDoTheLastLineSaysSo) {
  begin(small + "--batch 2 --steps 2");
  const Outcome outcome =
      run_shell(std::string(SF_TOOL) + " " + command(small + "--batch 2 --steps 2") + " 2>/dev/null");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("completed 0 steps; step 2"));
  EXPECT_THAT(run_tool(command(small + "--batch 2 --steps 2")).text,
              AllOf(HasSubstr("nothing is left to train"), Not(HasSubstr("goes on"))));
}

}  // namespace
}  // namespace sectionflow::tools
