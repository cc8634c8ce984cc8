#include "bench/ops/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/bench/tiny_cases.h"

namespace sectionflow::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(OpTable, NamesOnceAndKnowsItsOwnSettings) {
  std::set<std::string> names, kinds;
  for (const SettingKind& kind : setting_kinds()) kinds.insert(kind.name);
  for (const BenchedOp& op : benched_ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    for (const DefaultSetting& setting : op.settings) EXPECT_TRUE(kinds.contains(setting.name)) << setting.name;
  }
}

TEST(OpTable, EveryOperationBuildsUnderItsOwnShapeAndSettings) {
  for (const BenchedOp& op : benched_ops()) {
    SCOPED_TRACE(op.name);
    const CaseRequest request = case_request(op.name, {.gradient = op.has_gradient});
    BenchCase built(request, {.copy_bytes = 4, .matrix_side = 1});
    EXPECT_EQ(built.forward().size(), 1U);
    EXPECT_EQ(!built.gradient().empty(), op.has_gradient);
  }
}

TEST(CaseRequest, AnUnknownOperationIsToldTheNearestSpelling) {
  EXPECT_THAT(
      [] { case_request("conv2", {}); },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'conv2' is no operation"), HasSubstr("did you mean 'conv2d'?"))));
  EXPECT_THAT([] { case_request("quicksort", {}); },
              ThrowsMessage<ArgumentError>(AllOf(Not(HasSubstr("did you mean")), HasSubstr("--list"))));
}

TEST(CaseRequest, AShapeOfOtherAxesIsToldTheAxesThatAreWanted) {
  EXPECT_THAT([] { case_request("conv2d", {.shape = "32x56x56"}); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("conv2d: --shape 32x56x56 has 3 axes; wanted [N, H, W, C]"),
                                              HasSubstr("32x56x56x64"))));
  EXPECT_THROW(case_request("matmul", {.shape = "7"}), ShapeError);
  EXPECT_EQ(case_request("matmul", {.shape = "2x3x7"}).shape, (Shape{2, 3, 7}));
  EXPECT_EQ(case_request("gather", {.shape = "7"}).shape, Shape{7});
  EXPECT_EQ(case_request("relu", {.shape = "7"}).shape, Shape{7});
}

TEST(CaseRequest, ATextThatIsNoShapeIsRefused) {
  for (const char* text :
       {"x", "3x", "x3", "3xx4", "3x4y", "3 x4", "0x4", "-1", "3x-4", "1.5", "99999999999999999999"}) {
    EXPECT_THAT([&] { case_request("relu", {.shape = text}); },
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr(text), HasSubstr("as in 32x56x56x64"))));
  }
  EXPECT_THROW(case_request("relu", {.shape = "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1"}), ShapeError);
}

TEST(CaseRequest, ASettingThatTheOperationDoesNotHaveIsRefused) {
  EXPECT_THAT(
      [] {
        case_request("relu", {.settings = {{"filters", "3"}}});
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("relu has no --filters"), HasSubstr("no settings"))));
  EXPECT_THAT(
      [] {
        case_request("gather", {.settings = {{"axis", "0"}}});
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("gather has no --axis"), HasSubstr("--indices"))));
}

TEST(CaseRequest, DtypesAndGradientsThatThereAreNotAreRefused) {
  EXPECT_THAT([] { case_request("apply_adam", {.dtype = Dtype::bf16}); },
              ThrowsMessage<ArgumentError>(HasSubstr("apply_adam: --dtype bf16; wanted f32")));
  EXPECT_THAT([] { case_request("argmax", {.gradient = true}); },
              ThrowsMessage<ArgumentError>(HasSubstr("argmax has no gradient operations")));
  EXPECT_EQ(benched_dtype("f32"), Dtype::f32);
  EXPECT_EQ(benched_dtype("bf16"), Dtype::bf16);
  EXPECT_THAT([] { benched_dtype("bf-16"); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'bf-16'"), HasSubstr("did you mean 'bf16'?"))));
  EXPECT_THROW(benched_dtype("i64"), ArgumentError);
}

/// Builds the operation under one setting.
void build_with(const std::string& op, const std::string& setting, const std::string& value) {
  BenchCase built(case_request(op, {.settings = {{setting, value}}}), {.copy_bytes = 4, .matrix_side = 1});
}

TEST(Settings, ValuesOfAnotherKindAreRefused) {
  EXPECT_THAT([] { build_with("conv2d", "kernel", "3x3x3"); },
              ThrowsMessage<ArgumentError>(HasSubstr("conv2d: --kernel 3x3x3; wanted one number of 1 or more, or 2")));
  EXPECT_THAT([] { build_with("conv2d", "padding", "sane"); },
              ThrowsMessage<ArgumentError>(HasSubstr("conv2d: --padding sane; wanted same, valid, one number of 0")));
  EXPECT_THAT([] { build_with("conv2d", "filters", "0"); },
              ThrowsMessage<ArgumentError>(HasSubstr("conv2d: --filters 0; wanted a number of 1 or more")));
  EXPECT_THAT([] { build_with("attention", "causal", "maybe"); },
              ThrowsMessage<ArgumentError>(HasSubstr("attention: --causal maybe; wanted yes or no")));
  EXPECT_THAT([] { build_with("reduce_sum", "axis", "1x2"); },
              ThrowsMessage<ArgumentError>(HasSubstr("reduce_sum: --axis 1x2; wanted an axis")));
}

TEST(Settings, ValuesThatTheOperationCannotHaveAreRefusedByIt) {
  EXPECT_THROW(build_with("reduce_sum", "axis", "4"), ShapeError);
  EXPECT_THROW(build_with("slice", "axis", "-5"), ShapeError);
  EXPECT_THROW(build_with("conv2d", "groups", "3"), Error);
  EXPECT_THROW(build_with("average_pool2d", "kernel", "64"), Error);
  EXPECT_NO_THROW(build_with("conv2d", "padding", "1x0"));
}

}  // namespace
}  // namespace sectionflow::bench
