#include "train/top_classes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

std::vector<std::int64_t> labels_of(const std::vector<ClassShare>& row) {
  std::vector<std::int64_t> labels;
  for (const ClassShare& each : row) labels.push_back(each.label);
  return labels;
}

TEST(TopClasses, AreTheLargestOfEachRowWithTheirShares) {
  const float log3 = std::log(3.0F);
  const auto rows = top_classes(HostTensor::of<float>({1, 2, 4}, {0, log3, 0, 0, 100, 100, -100, 101}), 3);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(labels_of(rows[0]), (std::vector<std::int64_t>{1, 0, 2}));  // of equal ones the lower first
  EXPECT_NEAR(rows[0][0].share, 0.5, 1e-6);
  EXPECT_NEAR(rows[0][1].share, 1.0 / 6, 1e-6);
  EXPECT_EQ(labels_of(rows[1]), (std::vector<std::int64_t>{3, 0, 1}));
  EXPECT_NEAR(rows[1][0].share, 1 / (1 + 2 / std::exp(1.0)), 1e-6);
}

TEST(TopClasses, AreAllWhereThereAreFewer) {
  const auto rows = top_classes(HostTensor::of<BFloat16>({3}, {BFloat16(1.0F), BFloat16(3.0F), BFloat16(2.0F)}), 5);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(labels_of(rows[0]), (std::vector<std::int64_t>{1, 2, 0}));
  EXPECT_NEAR(rows[0][0].share + rows[0][1].share + rows[0][2].share, 1, 1e-12);
  EXPECT_TRUE(top_classes(HostTensor(Dtype::f32, {0, 3}), 1).empty());
}

TEST(TopClasses, RefuseWhatNamesNoClass) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const HostTensor logits = HostTensor::of<float>({2}, {1, 2});
  EXPECT_THROW(top_classes(logits, 0), ArgumentError);
  EXPECT_THROW(top_classes(HostTensor(Dtype::i32, {2}), 1), ArgumentError);
  EXPECT_THROW(top_classes(HostTensor(Dtype::f32, {}), 1), ShapeError);
  EXPECT_THROW(top_classes(HostTensor(Dtype::f32, {2, 0}), 1), ShapeError);
  EXPECT_THROW(top_classes(HostTensor::of<float>({2}, {1, std::nanf("")}), 1), ArgumentError);
  EXPECT_THROW(top_classes(HostTensor::of<float>({2}, {1, kInfinity}), 1), ArgumentError);
  EXPECT_THROW(top_classes(HostTensor::of<float>({2}, {-kInfinity, -kInfinity}), 1), ArgumentError);
  EXPECT_EQ(top_classes(HostTensor::of<float>({2}, {1, -kInfinity}), 2)[0][1].share, 0);
}

}  // namespace
}  // namespace sectionflow
