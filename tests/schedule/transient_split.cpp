#include "schedule/transient_split.h"

#include <gtest/gtest.h>

namespace sectionflow {
namespace {

/// Two forward steps of section 0, one of section 1 with its backward step, and two of section 0 again.
Schedule two_sections() {
  Schedule schedule;
  schedule.passes = {{Pass::Kind::forward, 0},
                     {Pass::Kind::forward, 1},
                     {Pass::Kind::backward, 1},
                     {Pass::Kind::recompute, 0},
                     {Pass::Kind::backward, 0}};
  for (int pass : {0, 0, 1, 2, 3, 4}) {
    Step step;
    step.pass = pass;
    schedule.steps.push_back(step);
  }
  return schedule;
}

TransientSplit split(const std::vector<Storage>& storages) {
  StorageAssignment assignment;
  assignment.storages = storages;
  return split_transient(two_sections(), assignment);
}

TEST(TransientSplit, WhatLivesInSeveralRunsIsBorder) {
  const TransientSplit result = split({{256, {1, 2}, {}}, {512, {0, 4}, {}}, {1024, {0, 1}, {}}});
  EXPECT_EQ(result.border_bytes, 768U);
  EXPECT_EQ(result.section_bytes, 1024U);
}

TEST(TransientSplit, ForwardAndBackwardOfTheLastSectionAreOneRunAndSoAreRecomputationAndBackward) {
  const TransientSplit result = split({{256, {2, 3}, {}}, {512, {4, 5}, {}}});
  EXPECT_EQ(result.border_bytes, 0U);
  EXPECT_EQ(result.section_bytes, 512U);
}

TEST(TransientSplit, SizesAreRoundedAsThePlanRoundsThem) {
  EXPECT_EQ(split({{1, {0, 0}, {}}, {257, {0, 1}, {}}}).section_bytes, 768U);
}

TEST(TransientSplit, NothingIsNothing) {
  const TransientSplit result = split_transient({}, {});
  EXPECT_EQ(result.border_bytes + result.section_bytes, 0U);
}

}  // namespace
}  // namespace sectionflow
