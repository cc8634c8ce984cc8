// `sectionflow freeze`: a model file for predict of what train has saved.

#include "data/png_writer.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::HasSubstr;

struct Freeze : testing::Test {
  Freeze() {
    const Outcome trained = run_tool(
        "train --model mnist_cnn --data synthetic --batch 8 --steps 1 --threads 1 --checkpoints " + path("run"));
    EXPECT_EQ(trained.status, 0) << trained.text;
    write_png(path("grey.png"), HostTensor(Dtype::u8, {28, 28, 1}));
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  TemporaryFolder folder;
};

TEST_F(Freeze, MakesAModelThatPredicts) {
  const auto json = json_of_tool("freeze " + path("run") + " " + path("model") + " --threads 1");
  EXPECT_GT(json.at("operations").get<int>(), 3);
  EXPECT_EQ(json_of_tool("predict " + path("model") + " " + path("grey.png")).at("images").size(), 1U);
  const Outcome small = run_tool("freeze " + path("run/step-1") + " " + path("small") +
                                 " --quantize synthetic --batch 8 --batches 1 --calibration percentile --threads 1");
  EXPECT_EQ(small.status, 0) << small.text;
  EXPECT_THAT(small.text, HasSubstr("10 of 10 operations compute with 8 bits"));
  EXPECT_LT(std::filesystem::file_size(path("small")), std::filesystem::file_size(path("model")) / 2);
  const auto inference = json_of_tool("inspect " + path("small")).at("inference");
  EXPECT_GE(inference.at("eight_bits").get<int>(), 3);
  EXPECT_EQ(json_of_tool("predict " + path("small") + " " + path("grey.png")).at("images").size(), 1U);
}

TEST_F(Freeze, HasNoSlotsOfTrainingInItsBudget) {
  // 12.5 MiB of weights, of which 12.2 come in one; Adam's slots are twice as much again.
  const std::string variables = path("run/step-1/variables.safetensors");
  json_of_tool("freeze " + variables + " " + path("model") + " --model mnist_cnn --threads 1 --device-memory 26MiB");
  const auto json = json_of_tool("inspect " + path("model")).at("inference");
  EXPECT_EQ(json.at("fed").size(), 1U);
  EXPECT_EQ(json.at("gives").at(0).at("type"), "f32[?,10]");
  EXPECT_EQ(json.at("eight_bits"), 0);
}

TEST_F(Freeze, RefusesWhatItCannotMake) {
  const std::string variables = path("run/step-1/variables.safetensors");
  expect_refused("freeze " + variables + " " + path("model"), HasSubstr("give --model"));
  expect_refused("freeze " + path("run") + " " + path("run/step-1/model"), HasSubstr("CHECKPOINT"));
  expect_refused("freeze " + path("run") + " " + path("model") + " --transforms fold_constant",
                 HasSubstr("'fold_constants'"));
  expect_refused("freeze " + path("run") + " " + path("model") + " --quantize synthetic --calibration minmax",
                 HasSubstr("'min_max'"));
  expect_refused("freeze " + path("run") + " " + path("model") + " --calibration entropy", HasSubstr("--quantize"));
  expect_refused("freeze " + path("run") + " " + path("model") + " --transforms quantize_nodes",
                 HasSubstr("leave quantize_nodes to --quantize DATA"));
  // Before the checkpoint is looked at.
  expect_refused("freeze " + path("nowhere") + " " + path("model") + " --transforms 'fuse pack_weights'",
                 HasSubstr("--transforms: pack_weights"));
  expect_refused("freeze " + path("nowhere") + " " + path("model") + " --quantize nowhere:x",
                 HasSubstr("--quantize: 'nowhere' is no kind of data"));
  expect_refused("freeze " + path("nowhere") + " " + path("model") + " --transforms fold_constant",
                 HasSubstr("'fold_constants'"));
  expect_refused("freeze " + path("nowhere") + " " + path("no/model"), HasSubstr("MODEL: there is no folder"));
  expect_refused("freeze " + path("nowhere") + " " + path("run"), HasSubstr("is a folder; wanted a file"));
  expect_refused("freeze " + path("run") + " " + path("model") + " --model mnist_resnet",
                 HasSubstr("--model is mnist_resnet, and CHECKPOINT"));
  expect_refused("freeze " + variables + " " + path("model") + " --model mnist_resnet",
                 HasSubstr("mnist_resnet, as --model"));
  expect_refused("freeze " + path("nowhere") + " " + path("model"), HasSubstr("CHECKPOINT: there is no"));
  EXPECT_FALSE(std::filesystem::exists(path("model")));
  json_of_tool("freeze " + path("run") + " " + path("frozen") + " --threads 1");
  for (const char* model : {"", " --model mnist_cnn"}) {
    expect_refused("freeze " + path("frozen") + " " + path("model") + model, HasSubstr("is frozen already"));
  }
}

}  // namespace
}  // namespace sectionflow::tools
