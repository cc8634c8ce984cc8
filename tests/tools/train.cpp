// `sectionflow train`: what it leaves behind, and how it goes on.

#include <fstream>

#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::string kTiny = "train --model mnist_cnn --width 2 --batch 4 --threads 1";

void append_number(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 255U);
}

/// The four files of a data set of MNIST's form, of so many images each.
fs::path mnist_in(const TemporaryFolder& folder, int count) {
  const fs::path path = folder.path() / "mnist";
  fs::create_directories(path);
  for (const std::string part : {"train", "t10k"}) {
    std::string images("\0\0\x08\x03", 4), labels("\0\0\x08\x01", 4);
    append_number(images, static_cast<std::uint32_t>(count));
    append_number(images, 28);
    append_number(images, 28);
    append_number(labels, static_cast<std::uint32_t>(count));
    for (int i = 0; i < count; ++i) {
      images += std::string(28 * 28, static_cast<char>(i * 20));
      labels += static_cast<char>(i % 10);
    }
    std::ofstream(path / (part + "-images-idx3-ubyte"), std::ios::binary) << images;
    std::ofstream(path / (part + "-labels-idx1-ubyte"), std::ios::binary) << labels;
  }
  return path;
}

std::string variables_of(const fs::path& run, int step) {
  return bytes_of_file(run / ("step-" + std::to_string(step)) / "variables.safetensors");
}

TEST(Train, LeavesCheckpointsCurvesAndStatistics) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  const auto json = json_of_tool(kTiny + " --steps 6 --checkpoints " + at + "/run --checkpoint-every 2 --tensorboard " +
                                 at + "/board --tensorboard-every 1 --statistics " + at + "/steps.csv");
  EXPECT_EQ(json.at("step"), 6);
  EXPECT_EQ(json.at("examples"), 24);
  EXPECT_EQ(json.at("signal"), 0);
  EXPECT_TRUE(json.at("last_step").contains("loss"));
  EXPECT_TRUE(json.at("last_step").contains("accuracy"));
  EXPECT_EQ(json_of_tool("inspect " + at + "/run").at("latest"), 6);
  EXPECT_THAT(bytes_of_file(folder.path() / "steps.csv"), HasSubstr("step type"));
  const fs::path events = fs::directory_iterator(folder.path() / "board")->path();
  const auto board = json_of_tool("inspect " + events.string());
  EXPECT_TRUE(board.at("has_graph").get<bool>());
  EXPECT_EQ(board.at("scalars").at(1).at("last_step"), 6);
}

TEST(Train, ATrainingThatGoesOnGivesTheBitsOfOneThatWasNotInterrupted) {
  const TemporaryFolder folder;
  const std::string data = mnist_in(folder, 10).string();
  for (const std::string strategy : {"sections:2", "whole"}) {
    const std::string train = kTiny + " --data mnist:" + data + " --strategy " + strategy + " --checkpoints ";
    const fs::path once = folder.path() / ("once-" + strategy), twice = folder.path() / ("twice-" + strategy);
    ASSERT_EQ(run_tool(train + once.string() + " --steps 8").status, 0);
    ASSERT_EQ(run_tool(train + twice.string() + " --steps 5 --resume").status, 0) << "nothing to go on from is fine";
    const Outcome second = run_tool(train + twice.string() + " --steps 8 --resume");
    ASSERT_EQ(second.status, 0) << second.text;
    EXPECT_THAT(second.text, HasSubstr("goes on from step 5"));
    EXPECT_EQ(variables_of(once, 8), variables_of(twice, 8)) << strategy;
    // Three batches make a pass: the fifth step is amid the second.
    EXPECT_EQ(json_of_tool(train + twice.string() + " --steps 8 --resume").at("steps"), 0);
  }
}

TEST(Train, ASignalEndsTheStepLeavesACheckpointAndIsTold) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const std::string train = kTiny + " --steps 100000000 --checkpoint-every 1 --checkpoints " + run;
  const Outcome outcome = run_shell(std::string(SF_TOOL) + " " + train + " >/dev/null 2>&1 & pid=$!; while [ ! -e " +
                                    run + "/latest ] && kill -0 $pid; do sleep 0.02; done; kill -TERM $pid; wait $pid");
  EXPECT_EQ(outcome.status, 128 + 15);
  const int step = json_of_tool("inspect " + run).at("latest");
  EXPECT_GE(step, 1);
  const auto json = json_of_tool(kTiny + " --resume --checkpoints " + run + " --steps " + std::to_string(step + 1));
  EXPECT_EQ(json.at("steps"), 1);
}

TEST(Train, RecordsThatConvertHasWrittenAreTrained) {
  const TemporaryFolder folder;
  const std::string records = (folder.path() / "records").string();
  ASSERT_EQ(run_tool("convert mnist:" + mnist_in(folder, 10).string() + " tfrecord:" + records).status, 0);
  const auto json = json_of_tool(kTiny + " --epochs 2 --data tfrecord:" + records);
  EXPECT_EQ(json.at("step"), 6);
  EXPECT_EQ(json.at("examples"), 20);
  EXPECT_EQ(json.at("epochs").size(), 2U);
  EXPECT_TRUE(json.at("epochs").at(0).at("logs").contains("val_accuracy"));
  // A colour model gets grey pictures, of its size.
  EXPECT_EQ(json_of_tool("train --model resnet18 --width 2 --image 32 --classes 10 --batch 4 --threads 1 --steps 1 "
                         "--data tfrecord:" +
                         records)
                .at("step"),
            1);
}

TEST(Train, WhatWouldShowLaterIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  expect_refused(kTiny + " --data nmist", HasSubstr("did you mean 'mnist'?"));
  expect_refused(kTiny + " --data cifar10", HasSubstr("write cifar10:FOLDER"));
  expect_refused(kTiny + " --data cifar10:" + at, HasSubstr("data_batch_1.bin"));
  expect_refused(kTiny + " --data tfrecord:" + at, HasSubstr("DataError"));
  expect_refused(kTiny + " --data synthetic:" + at, HasSubstr("--data synthetic"));
  expect_refused(kTiny + " --resume", HasSubstr("add --checkpoints FOLDER"));
  expect_refused(kTiny + " --steps -1", HasSubstr("wanted >= 0"));
  expect_refused(kTiny + " --tensorboard-every 0", HasSubstr("--tensorboard-every"));
  expect_refused("train --model mnist_cnn --batch 0 --steps 1", HasSubstr("--batch 0"));
  expect_refused(kTiny + " --steps 1 --device-memory 4KiB", HasSubstr("BudgetError"));
  expect_refused("train --model gpt --layers 1 --width 8 --heads 1 --sequence 4 --vocabulary 8 --data mnist:" +
                     mnist_in(folder, 2).string(),
                 HasSubstr("no pictures with a class each"));
  expect_refused(kTiny + " --classes 2 --data mnist:" + mnist_in(folder, 5).string(), HasSubstr("--classes N"));
}

TEST(Train, AFolderOfAnotherTrainingIsNotTakenUnasked) {
  const TemporaryFolder folder;
  const std::string train = kTiny + " --steps 2 --checkpoints " + (folder.path() / "run").string();
  ASSERT_EQ(run_tool(train).status, 0);
  expect_refused(train, AllOf(HasSubstr("has checkpoints of a training already"), HasSubstr("--resume")));
  expect_refused(train + " --resume --seed 5", HasSubstr("--seed"));
  expect_refused("train --model mnist_cnn --width 3 --batch 4 --threads 1 --resume --steps 3 --checkpoints " +
                     (folder.path() / "run").string(),
                 HasSubstr("SF-E424"));
}

TEST(Train, RatesThatTrainNothingAreRefused) {
  for (const char* rate : {"nan", "-1", "0", "inf", "fast"}) {
    expect_refused(text_of("train --model mnist_cnn --data synthetic --steps 1 --learning-rate ", rate),
                   HasSubstr("wanted a number above 0"));
  }
}

}  // namespace
}  // namespace sectionflow::tools
