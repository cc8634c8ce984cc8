// The program, as one calls it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "device/cuda_module.h"
#include "tests/support/run_shell.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Outcome bench_ops(const std::string& arguments) {
  return run_shell(std::string(SF_BENCH_OPS) + " " + arguments + " 2>&1");
}

constexpr const char* kTinyPeaks = " --repeats 1 --threads 2 --copy-size 64KiB --matrix-side 32";

void expect_refused(const std::string& arguments, const testing::Matcher<std::string>& text) {
  const Outcome outcome = bench_ops(arguments);
  EXPECT_EQ(outcome.status, 2) << arguments;
  EXPECT_THAT(outcome.text, text);
}

TEST(BenchOps, PrintsRowsAndWritesThemAsJson) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "rows.json";
  const Outcome outcome = bench_ops("--op conv2d,conv3d --shape 1x4x4x4x2 --filters 2" + std::string(kTinyPeaks));
  EXPECT_EQ(outcome.status, 2) << "conv2d takes no volumes";
  const Outcome right =
      bench_ops("--op conv2d --shape 1x4x4x2 --filters 2 --kernel 2x3 --gradient --dtype f32 --json " + file.string() +
                kTinyPeaks);
  ASSERT_EQ(right.status, 0) << right.text;
  for (const char* part : {"median ms", "best ms", "GB/s", "GFLOP/s", "of peak", "conv2d gradient: "}) {
    EXPECT_THAT(right.text, HasSubstr(part));
  }
  const auto json = nlohmann::json::parse(bytes_of_file(file));
  EXPECT_EQ(json.at("cases").at(0).at("settings").at("kernel"), "2x3");
  EXPECT_EQ(json.at("cases").at(0).at("kernels").size(), 3U);
}

TEST(BenchOps, SeveralOperationsShareAShape) {
  const Outcome outcome = bench_ops("--op relu,reduce_max --shape 4x6 --axis 0" + std::string(kTinyPeaks));
  EXPECT_EQ(outcome.status, 2) << "relu has no axis";
  const Outcome right = bench_ops("--op reduce_sum,reduce_max --shape 4x6 --axis -2" + std::string(kTinyPeaks));
  EXPECT_EQ(right.status, 0) << right.text;
  EXPECT_THAT(right.text, AllOf(HasSubstr("reduce_sum"), HasSubstr("reduce_max")));
}

TEST(BenchOps, ListsWhatItCanTime) {
  const Outcome outcome = bench_ops("--list");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("attention"), HasSubstr("keys 256, causal no"), HasSubstr("apply_adam")));
}

TEST(BenchOps, WrongInputIsRefusedByATypedError) {
  expect_refused("", AllOf(HasSubstr("ArgumentError: nothing to time"), HasSubstr("--list")));
  expect_refused("--op relu --all", HasSubstr("ArgumentError: --op and --all exclude each other"));
  expect_refused("--all --shape 3", HasSubstr("ArgumentError: --all times every operation with its own shape"));
  expect_refused("--op sofmax", AllOf(HasSubstr("ArgumentError"), HasSubstr("did you mean 'softmax'?")));
  expect_refused("--op conv2d --shape 3x4", HasSubstr("ShapeError: conv2d: --shape 3x4 has 2 axes"));
  expect_refused("--op conv2d --dtype fp32", HasSubstr("ArgumentError: --dtype 'fp32'; wanted f32 or bf16"));
  expect_refused("--op relu --stride 2", HasSubstr("ArgumentError: relu has no --stride"));
  expect_refused("--op relu --copy-size 3B", HasSubstr("ArgumentError: --copy-size 3B; wanted at least 4B"));
  expect_refused("--op relu --copy-size 1MB", HasSubstr("--copy-size: '1MB' is not a number of bytes"));
  expect_refused("--op relu --device tpu", HasSubstr("ArgumentError: 'tpu' is no device"));
  expect_refused("--op relu --tf32", HasSubstr("ArgumentError: --tf32"));
  expect_refused("--op relu --threads -1", HasSubstr("ArgumentError"));
  EXPECT_NE(bench_ops("--op relu --repeats 0").status, 0);
  EXPECT_NE(bench_ops("--op relu --frobnicate").status, 0);
}

TEST(BenchOps, AFileThatCannotBeWrittenIsRefused) {
  const TemporaryFolder folder;
  expect_refused("--op relu --shape 4 --json " + (folder.path() / "absent" / "rows.json").string() + kTinyPeaks,
                 HasSubstr("DataError: --json"));
}

TEST(BenchOps, WithoutAGpuCudaIsRefused) {
  try {
    if (cuda_module().num_devices > 0) GTEST_SKIP() << "this machine has a GPU";
  } catch (const DeviceError&) {
    // As it is meant to be here.
  }
  expect_refused("--op relu --shape 4 --device cuda" + std::string(kTinyPeaks), HasSubstr("DeviceError: cuda: "));
}

}  // namespace
}  // namespace sectionflow::bench
