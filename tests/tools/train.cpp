// `sectionflow train`: what it leaves behind, and how it goes on.

#include <fstream>

#include "base/error.h"
#include "data/png_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
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

TEST(Train, ABudgetMayBeAShareOfWhatTheWholeGraphTakes) {
  const std::string whole = kTiny + " --steps 1 --strategy whole --device-memory ";
  EXPECT_EQ(run_tool(whole + "100%").status, 0);
  const Outcome refused = run_tool(whole + "99%");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.text, HasSubstr("SF-E101"));
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

TEST(Train, AShareIsKeptApartForValidationOfDataWithAPartForItAndWithout) {
  const TemporaryFolder folder;
  const std::string mnist = " --data mnist:" + mnist_in(folder, 20).string();
  const auto json = json_of_tool(kTiny + mnist + " --epochs 2 --validation 20%");
  EXPECT_EQ(json.at("examples"), 2 * 16);
  EXPECT_TRUE(json.at("epochs").at(0).at("logs").contains("val_accuracy"));
  EXPECT_EQ(json_of_tool(kTiny + mnist + " --epochs 1").at("examples"), 20);
  EXPECT_EQ(json_of_tool(kTiny + mnist + " --epochs 1 --validation 20%").at("evaluation"),
            json_of_tool(kTiny + mnist + " --epochs 1 --validation 20%").at("evaluation"));
  for (const char* share : {"0%", "100%", "20", "0.2", "-5%", "many%", "%"}) {
    expect_refused(text_of(kTiny, mnist, " --validation ", share), HasSubstr("as in 10%"));
  }
  expect_refused(kTiny + " --validation 10%", HasSubstr("synthetic data have a part for it already"));
  const std::string records = (folder.path() / "records").string();
  ASSERT_EQ(run_tool("convert mnist:" + (folder.path() / "mnist").string() + " tfrecord:" + records).status, 0);
  expect_refused(kTiny + " --validation 10% --data tfrecord:" + records,
                 AllOf(HasSubstr("test-*.tfrecord"), HasSubstr("convert --validation 10%")));
  const std::string parts = (folder.path() / "parts").string();
  ASSERT_EQ(
      run_tool("convert" + mnist.substr(std::string(" --data").size()) + " tfrecord:" + parts + " --validation 20%")
          .status,
      0);
  const auto of_parts = json_of_tool(kTiny + " --epochs 1 --data tfrecord:" + parts);
  EXPECT_EQ(of_parts.at("examples"), 16);
  EXPECT_TRUE(of_parts.at("evaluation").contains("accuracy") || of_parts.at("evaluation").contains("val_accuracy"));
}

TEST(Train, NamesOfClassesAreReadBackAndAModelOfFewerIsRefused) {
  const TemporaryFolder folder;
  const std::string records = (folder.path() / "records").string();
  ASSERT_EQ(run_tool("convert mnist:" + mnist_in(folder, 10).string() + " tfrecord:" + records).status, 0);
  EXPECT_TRUE(json_of_tool(kTiny + " --steps 1 --data tfrecord:" + records).at("classes").empty());
  const auto name_classes = [&](int count) {
    std::ofstream names(records + "/labels.txt");
    for (int label = 0; label < count; ++label) names << label << ":digit " << label << "\n";
  };
  name_classes(10);
  const auto json = json_of_tool(kTiny + " --steps 1 --data tfrecord:" + records);
  ASSERT_EQ(json.at("classes").size(), 10U);
  EXPECT_EQ(json.at("classes").at(7).at("name"), "digit 7");
  name_classes(12);
  expect_refused(kTiny + " --steps 1 --data tfrecord:" + records,
                 AllOf(HasSubstr("the class 11, 'digit 11'"), HasSubstr("add --classes 12")));
  std::ofstream(records + "/labels.txt") << "0:zero\nnone\n";
  expect_refused(kTiny + " --steps 1 --data tfrecord:" + records, HasSubstr("labels.txt': line 2"));
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
  expect_refused(kTiny + " --steps 1 --tensorboard " + folder.file("file", "").string() + "/board",
                 AllOf(HasSubstr("DataError: --tensorboard"), HasSubstr("file/board")));
  expect_refused(kTiny + " --steps 1 --device-memory 4KiB", HasSubstr("BudgetError"));
  expect_refused("train --model gpt --layers 1 --width 8 --heads 1 --sequence 4 --vocabulary 8 --data mnist:" +
                     mnist_in(folder, 2).string(),
                 HasSubstr("no pictures with a class each"));
  expect_refused(kTiny + " --classes 2 --data mnist:" + mnist_in(folder, 5).string(), HasSubstr("--classes N"));
}

TEST(Train, PoliciesForDamageAreRefusedOfDataThatHaveNone) {
  expect_refused("train --model mnist_cnn --width 2 --steps 1 --data synthetic --on-error skip_file",
                 AllOf(HasSubstr("--on-error skip_file"), HasSubstr("never damaged")));
}

TEST(Train, EveryNumberSaysItsRange) {
  const std::string most = "9223372036854775807", beyond = "9223372036854775808", far = "18446744073709551616";
  const auto refuses = [](const std::string& flag, const std::string& range, const std::vector<std::string>& numbers) {
    for (const std::string& number : numbers) {
      expect_refused("train --model mnist_cnn " + flag + "=" + number,
                     AllOf(HasSubstr(flag), HasSubstr("'" + number + "'; wanted a whole number from " + range)));
    }
  };
  for (const char* flag : {"--steps", "--epochs", "--batch", "--tensorboard-every", "--classes", "--image"}) {
    refuses(flag, "1 to 2^63-1", {"0", "-3", beyond, far, "1e3", "1.5", "many", "7x"});
  }
  refuses("--checkpoint-every", "0 to 2^63-1", {"-1", beyond});
  refuses("--keep", "1 to 2^31-1", {"0", "-1", "2147483648", beyond});
  refuses("--threads", "0 to 1024", {"-1", "1025", beyond});
  refuses("--seed", "0 to 2^64-1", {"-1", far, "1e3"});
  const TemporaryFolder folder;
  EXPECT_EQ(json_of_tool(kTiny + " --steps 1 --epochs " + most + " --keep 2147483647 --seed 18446744073709551615" +
                         " --checkpoints " + (folder.path() / "run").string())
                .at("steps"),
            1);
  EXPECT_THAT(run_tool("train --help").text, HasSubstr("1 to 2^63-1"));
  expect_refused("plan --batch=" + beyond, HasSubstr("wanted a whole number from 1 to 2^63-1"));
  expect_refused("compare --steps=0", HasSubstr("wanted a whole number from 2 to 2^63-1"));
}

TEST(Train, RecordsToBeEvaluatedAreNotTrainedOn) {
  const TemporaryFolder folder;
  const fs::path records = folder.path() / "records";
  ASSERT_EQ(run_tool("convert mnist:" + mnist_in(folder, 10).string() + " tfrecord:" + records.string()).status, 0);
  const std::string train = kTiny + " --epochs 1 --data tfrecord:" + records.string();
  fs::rename(records / "train-00000.tfrecord", records / "more-00000.tfrecord");
  expect_refused(train, AllOf(HasSubstr("has test-*.tfrecord, and no train-*.tfrecord"), HasSubstr("hint")));
  fs::rename(records / "test-00000.tfrecord", records / "validation-00000.tfrecord");
  expect_refused(train, HasSubstr("has validation-*.tfrecord, and no train-*.tfrecord"));
  fs::rename(records / "validation-00000.tfrecord", records / "less-00000.tfrecord");
  EXPECT_EQ(json_of_tool(train).at("examples"), 20) << "without parts all is trained on";
}

TEST(Train, TheLastLineCallsAnEvaluationAsTheLinesAboveDo) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_tool(kTiny + " --epochs 1 --validation 20% --data mnist:" + mnist_in(folder, 10).string());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const std::string last = outcome.text.substr(outcome.text.find("completed"));
  EXPECT_THAT(last, AllOf(HasSubstr("completed 1 epoch;"), HasSubstr("  val_accuracy "), HasSubstr("  val_loss ")));
  EXPECT_THAT(last, testing::Not(AnyOf(HasSubstr("test"), HasSubstr("val_val_"))));
}

TEST(Train, ATrainingThatEndsAmidAnEpochIsEvaluatedWhereItEnds) {
  const TemporaryFolder folder;
  const std::string train = kTiny + " --validation 20% --data mnist:" + mnist_in(folder, 20).string();
  for (const int steps : {3, 7}) {  // four batches make a pass
    const auto json = json_of_tool(train + " --steps " + std::to_string(steps));
    EXPECT_EQ(json.at("evaluated_step"), steps);
    EXPECT_TRUE(json.at("evaluation").contains("accuracy"));
  }
  const Outcome outcome = run_tool(train + " --steps 7");
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("completed 7 steps; step 7 "), HasSubstr("  val_accuracy "),
                                  testing::Not(HasSubstr("(of step"))));
}

TEST(Train, BehindASignalTheLastLineSaysOfWhichStepItsEvaluationIs) {
  const TemporaryFolder folder;
  const std::string steps = (folder.path() / "steps.csv").string(), text = (folder.path() / "text").string();
  // The first epoch has been evaluated when a line tells of it.
  const Outcome outcome = run_shell(std::string(SF_TOOL) + " " + kTiny +
                                    " --epochs 100000000 --data mnist:" + mnist_in(folder, 4000).string() + " >" +
                                    text + " 2>&1 & pid=$!; while ! grep -q 'epoch 1:' " + text +
                                    " && kill -0 $pid; do sleep 0.02; done; kill -TERM $pid; wait $pid");
  EXPECT_EQ(outcome.status, 128 + 15);
  EXPECT_THAT(bytes_of_file(text), testing::ContainsRegex("step [0-9]+  .*val_accuracy [0-9.]+.* .of step [0-9]+000"));
}

TEST(Train, AnInterruptedTrainingWithoutCheckpointsIsToldWhatWouldHaveSavedIt) {
  const TemporaryFolder folder;
  const std::string steps = (folder.path() / "steps.csv").string(), text = (folder.path() / "text").string();
  const Outcome outcome = run_shell(std::string(SF_TOOL) + " " + kTiny + " --steps 100000000 --statistics " + steps +
                                    " >" + text + " 2>&1 & pid=$!; while [ ! -s " + steps +
                                    " ] && kill -0 $pid; do sleep 0.02; done; kill -TERM $pid; wait $pid");
  EXPECT_EQ(outcome.status, 128 + 15);
  EXPECT_THAT(bytes_of_file(text),
              AllOf(HasSubstr("nothing has saved it; --checkpoints FOLDER does"), testing::Not(HasSubstr("Callback"))));
}

TEST(Train, AResumedTrainingOfOtherBatchesIsToldWhatOfItsCommandDiffers) {
  const TemporaryFolder folder;
  const std::string train =
      "train --model mnist_cnn --width 2 --threads 1 --resume --data mnist:" + mnist_in(folder, 20).string() +
      " --checkpoints " + (folder.path() / "run").string();
  ASSERT_EQ(run_tool(train + " --batch 4 --steps 2").status, 0);
  expect_refused(train + " --batch 5 --steps 4", AllOf(HasSubstr("SF-E403"), HasSubstr("--batch 4 then, --batch 5 now"),
                                                       testing::Not(HasSubstr("begin without a position"))));
  EXPECT_EQ(json_of_tool(train + " --batch 4 --steps 4").at("steps"), 2);
}

TEST(Train, AResumedTrainingTakesTheRateOfItsCommandAndSaysBoth) {
  const TemporaryFolder folder;
  const std::string train = kTiny + " --resume --checkpoints " + (folder.path() / "run").string();
  ASSERT_EQ(run_tool(train + " --steps 2 --learning-rate 0.01").status, 0);
  const Outcome same = run_tool(train + " --steps 3 --learning-rate 1e-2");
  ASSERT_EQ(same.status, 0) << same.text;
  EXPECT_THAT(same.text, testing::Not(HasSubstr("--learning-rate")));
  const Outcome other = run_tool(train + " --steps 4");
  ASSERT_EQ(other.status, 0) << other.text;
  EXPECT_THAT(other.text, HasSubstr("--learning-rate: steps from here on are made with 1e-04; those before were made "
                                    "with 0.01"));
  EXPECT_THAT(run_tool(train + " --steps 5").text, testing::Not(HasSubstr("--learning-rate")));
  expect_refused(train + " --steps 6 --optimizer sgd",
                 AllOf(HasSubstr("SF-E424"), HasSubstr("--optimizer adam then, --optimizer sgd now")));
}

TEST(Train, DamagedPicturesAreLeftOutAndCountedWhereOneSaysSo) {
  const TemporaryFolder folder;
  const fs::path pictures = folder.path() / "pictures";
  for (const std::string name : {"cat", "dog"}) {
    fs::create_directories(pictures / name);
    for (const std::string number : {"0", "1", "2"}) {
      write_png(pictures / name / (number + ".png"), HostTensor(Dtype::u8, {28, 28, 1}));
    }
  }
  fs::resize_file(pictures / "dog" / "1.png", 60);
  const std::string run = " --checkpoints " + (folder.path() / "run").string();
  const std::string train = kTiny + " --data images:" + pictures.string();
  expect_refused(train + " --epochs 2" + run, AllOf(HasSubstr("SF-E409"), HasSubstr("dog/1.png"),
                                                    HasSubstr("--on-error skip_record leaves out what is damaged")));
  for (const std::string policy : {"skip_record", "skip_file"}) {
    const auto json = json_of_tool(train + " --epochs 2 --on-error " + policy);
    EXPECT_EQ(json.at("examples"), 2 * 5);
    EXPECT_EQ(json.at("skipped").at("train").at("records"), 2) << "in each pass";
    EXPECT_THAT(json.at("skipped").at("train").at("last").get<std::string>(), HasSubstr("dog/1.png"));
  }
  const Outcome told = run_tool(train + " --epochs 1 --on-error skip_record --resume" + run);
  ASSERT_EQ(told.status, 0) << told.text;
  EXPECT_THAT(told.text, AllOf(HasSubstr("training: left out 1 damaged record over all passes; the last: "),
                               HasSubstr("dog/1.png")));
  expect_refused(train + " --on-error skip_recod", HasSubstr("did you mean"));
}

TEST(Train, WhatIsNoDamagedRecordNorLeftOutWithOneIsTrained) {
  const TemporaryFolder folder;
  const fs::path records = folder.path() / "records";
  ASSERT_EQ(run_tool("convert mnist:" + mnist_in(folder, 10).string() + " tfrecord:" + records.string()).status, 0);
  std::string bytes = bytes_of_file(records / "train-00000.tfrecord");
  // Of ten records of one size, amid the picture of the sixth.
  const std::size_t at = bytes.size() / 2 + bytes.size() / 20;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  folder.file("records/train-00000.tfrecord", bytes);
  const std::string train = kTiny + " --epochs 1 --data tfrecord:" + records.string();
  expect_refused(train, HasSubstr("SF-E407"));
  const auto record = json_of_tool(train + " --on-error skip_record");
  EXPECT_EQ(record.at("examples"), 9);
  EXPECT_EQ(record.at("skipped").at("train").at("records"), 1);
  EXPECT_EQ(record.at("skipped").at("train").at("files"), 0);
  EXPECT_EQ(record.at("skipped").at("validation").at("records"), 0);
  const auto file = json_of_tool(train + " --on-error skip_file");
  EXPECT_EQ(file.at("examples"), 5);
  EXPECT_EQ(file.at("skipped").at("train").at("files"), 1);
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

TEST(Train, ACheckpointOrAFolderOfRecordsIsNotTakenForOneOfCheckpoints) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string(), run = at + "/run";
  ASSERT_EQ(run_tool(kTiny + " --steps 2 --checkpoints " + run).status, 0);
  for (const std::string resumed : {" --resume", ""}) {
    for (const std::string slash : {"", "/"}) {
      expect_refused(kTiny + " --steps 4 --checkpoints " + run + "/step-2" + slash + resumed,
                     AllOf(HasSubstr("is a checkpoint;"), HasSubstr("take its folder, '" + run + "'")));
    }
  }
  EXPECT_FALSE(fs::exists(folder.path() / "run/step-2/latest"));
  const std::string records = at + "/records";
  ASSERT_EQ(run_tool("convert mnist:" + mnist_in(folder, 4).string() + " tfrecord:" + records).status, 0);
  expect_refused(kTiny + " --steps 4 --resume --checkpoints " + records, HasSubstr("has records to train on"));
  EXPECT_FALSE(fs::exists(folder.path() / "records/latest"));
  const Outcome above = run_tool(kTiny + " --steps 2 --resume --checkpoints " + at);
  EXPECT_EQ(above.status, 0);
  EXPECT_THAT(above.text, HasSubstr("no checkpoint in '" + at + "'; '" + run + "' has some"));
}

TEST(Train, RatesThatTrainNothingAreRefused) {
  for (const char* rate : {"nan", "-1", "0", "inf", "fast", "1e-99", "0,001", "1e-3x"}) {
    expect_refused(text_of("train --model mnist_cnn --data synthetic --steps 1 --learning-rate ", rate),
                   HasSubstr("wanted a number above 0, as in 0.001 or 1e-3"));
  }
  for (const char* rate : {"0.001", "1e-3", "1E-3", ".5"}) {
    EXPECT_EQ(run_tool(text_of(kTiny, " --data synthetic --steps 1 --learning-rate ", rate)).status, 0) << rate;
  }
  EXPECT_THAT(run_tool("train --help").text, HasSubstr("as in 0.001 or 1e-3"));
}

}  // namespace
}  // namespace sectionflow::tools
