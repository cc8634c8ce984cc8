#include "bench/ops/measure_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/ops/op_report.h"
#include "tests/bench/tiny_cases.h"

namespace sectionflow::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void expect_sane(const KernelRow& row) {
  EXPECT_GT(row.seconds.best, 0);
  EXPECT_GE(row.seconds.median, row.seconds.best);
  EXPECT_GT(row.bytes, 0);
  EXPECT_GE(row.flops, 0);
  EXPECT_TRUE(std::isfinite(row.bytes_per_second()) && row.bytes_per_second() > 0);
  EXPECT_FALSE(row.kernel.empty());
}

void expect_sane(const CaseResult& result) {
  expect_sane(result.copy);
  expect_sane(result.product);
  EXPECT_EQ(result.copy.operation, "assign");
  EXPECT_EQ(result.product.operation, "matmul");
  EXPECT_EQ(result.copy.bytes, 2 * 65536);
  EXPECT_EQ(result.product.flops, 2 * 32 * 32 * 32);
  EXPECT_GE(result.threads, 1);
  ASSERT_FALSE(result.rows.empty());
  EXPECT_FALSE(result.rows[0].is_gradient);
  for (const KernelRow& row : result.rows) {
    SCOPED_TRACE(row.operation);
    expect_sane(row);
    EXPECT_GT(result.share_of_memory(row), 0);
    EXPECT_EQ(result.share_of_arithmetic(row) > 0, row.flops > 0);
  }
}

std::vector<std::string> operations(const CaseResult& result, bool of_gradient) {
  std::vector<std::string> names;
  for (const KernelRow& row : result.rows) {
    if (row.is_gradient == of_gradient) names.push_back(row.operation);
  }
  return names;
}

TEST(TinyCases, AreThoseOfTheTable) {
  std::vector<std::string> tiny, table;
  for (const TinyCase& one : tiny_cases()) tiny.push_back(one.op);
  for (const BenchedOp& op : benched_ops()) table.push_back(op.name);
  EXPECT_EQ(tiny, table);
}

TEST(MeasureCase, EveryOperationHasSaneRows) {
  for (const TinyCase& tiny : tiny_cases()) {
    SCOPED_TRACE(tiny.op);
    const CaseResult result = measure(tiny);
    expect_sane(result);
    EXPECT_EQ(result.op, tiny.op);
    EXPECT_EQ(sizes_text(result.shape.dims()), tiny.shape);
  }
}

TEST(MeasureCase, EveryOperationThatTakesBf16HasSaneRows) {
  for (const TinyCase& tiny : tiny_cases()) {
    if (!benched_op(tiny.op).takes_bf16) continue;
    SCOPED_TRACE(tiny.op);
    const CaseResult result = measure(tiny, Dtype::bf16);
    expect_sane(result);
    EXPECT_EQ(result.dtype, Dtype::bf16);
  }
}

TEST(MeasureCase, RowsAreTheOperationAndItsGradientOperationsAlone) {
  const CaseResult convolution = measure({"conv2d", "1x4x4x2", {{"filters", "2"}}});
  EXPECT_THAT(operations(convolution, false), ElementsAre("conv2d"));
  EXPECT_THAT(operations(convolution, true),
              testing::UnorderedElementsAre("conv2d_backward_input", "conv2d_backward_filter"));
  const CaseResult dense = measure({"dense", "4x3", {{"columns", "2"}}});
  EXPECT_THAT(operations(dense, false), ElementsAre("matmul", "bias_add"));
  EXPECT_THAT(operations(dense, true), testing::UnorderedElementsAre("bias_add_grad", "matmul", "matmul"));
  // The gradient of a sum is dy itself.
  EXPECT_THAT(operations(measure({"add", "4x3"}), true), ElementsAre());
}

TEST(MeasureCase, WithoutGradientOnlyTheOperationIsTimed) {
  const CaseResult result = measure_case(case_request("relu", {.shape = "4x3"}), tiny_options());
  EXPECT_THAT(operations(result, false), ElementsAre("relu"));
  EXPECT_THAT(operations(result, true), ElementsAre());
}

TEST(MeasureCase, TakesTheThreadsThatAreAskedFor) {
  for (int threads : {1, 2}) {
    MeasureOptions options = tiny_options();
    options.session.device = cpu();
    options.session.threads = threads;
    EXPECT_EQ(measure_case(case_request("relu", {.shape = "4x3"}), options).threads, threads);
  }
}

TEST(MeasureCase, RefusesFewerThanOneRepeat) {
  MeasureOptions options = tiny_options();
  options.repeats = 0;
  EXPECT_THROW(measure_case(case_request("relu", {.shape = "4x3"}), options), ArgumentError);
}

TEST(MeasureCase, OperandsBeyondTheDevicesMemoryAreRefusedBeforeAnythingRuns) {
  EXPECT_THROW(measure_case(case_request("relu", {.shape = "8388608"}), tiny_options()), BudgetError);
}

TEST(Shares, AreOfTheBestCopyAndTheBestProduct) {
  CaseResult result;
  result.copy = {.bytes = 100, .seconds = {.median = 20, .best = 10}};
  result.product = {.flops = 300, .seconds = {.median = 7, .best = 3}};
  const KernelRow row{.flops = 200, .bytes = 8, .seconds = {.median = 4, .best = 1}};
  EXPECT_EQ(row.bytes_per_second(), 2);
  EXPECT_EQ(row.flops_per_second(), 50);
  EXPECT_EQ(result.share_of_memory(row), 0.2);
  EXPECT_EQ(result.share_of_arithmetic(row), 0.5);
}

TEST(Report, NamesDevicePeaksAndEveryKernel) {
  const std::string text = report_text({measure({"dense", "4x3", {{"columns", "2"}}})}, tiny_options());
  for (const char* part : {"2 repeats", "copy of 64.0 KiB", "GB/s", "product of f32 matrices 32x32", "GFLOP/s",
                           "dense: matmul", "dense: bias_add", "dense gradient: bias_add_grad", "4x3"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Report, JsonHasWhatWasMeasured) {
  const CaseResult result = measure({"conv2d", "1x4x4x2", {{"filters", "3"}}});
  const auto json = nlohmann::json::parse(report_json({result}, tiny_options()));
  EXPECT_EQ(json.at("repeats"), 2);
  EXPECT_EQ(json.at("threads"), result.threads);
  ASSERT_EQ(json.at("cases").size(), 1U);
  const auto& one = json.at("cases").at(0);
  EXPECT_EQ(one.at("op"), "conv2d");
  EXPECT_EQ(one.at("shape"), (std::vector{1, 4, 4, 2}));
  EXPECT_EQ(one.at("dtype"), "f32");
  EXPECT_EQ(one.at("settings").at("filters"), "3");
  EXPECT_EQ(one.at("settings").at("kernel"), "3");
  EXPECT_EQ(one.at("memory_peak_bytes_per_second"), result.memory_peak());
  EXPECT_EQ(one.at("arithmetic_peak_flops_per_second"), result.arithmetic_peak());
  ASSERT_EQ(one.at("kernels").size(), result.rows.size());
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const KernelRow& row = result.rows[i];
    const auto& kernel = one.at("kernels").at(i);
    EXPECT_EQ(kernel.at("operation"), row.operation);
    EXPECT_EQ(kernel.at("gradient"), row.is_gradient);
    EXPECT_EQ(kernel.at("kernel"), row.kernel);
    EXPECT_EQ(kernel.at("median_seconds"), row.seconds.median);
    EXPECT_EQ(kernel.at("best_seconds"), row.seconds.best);
    EXPECT_EQ(kernel.at("bytes"), row.bytes);
    EXPECT_EQ(kernel.at("flops"), row.flops);
    EXPECT_EQ(kernel.at("share_of_memory_peak"), result.share_of_memory(row));
    EXPECT_EQ(kernel.at("share_of_arithmetic_peak"), result.share_of_arithmetic(row));
  }
}

TEST(Report, TheListHasEveryOperation) {
  const std::string list = list_text();
  for (const BenchedOp& op : benched_ops()) EXPECT_THAT(list, HasSubstr("\n" + op.name + " "));
}

}  // namespace
}  // namespace sectionflow::bench
