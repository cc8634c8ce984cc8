#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "schedule/plan_memory.h"

namespace sectionflow::testing_support {

using Storages = std::vector<Storage>;

inline Storage storage(std::size_t bytes, StepIndex first, StepIndex last) {
  return {bytes, {first, last}, std::nullopt};
}
inline Storage fixed(std::size_t bytes, StepIndex first, StepIndex last, std::size_t offset) {
  return {bytes, {first, last}, offset};
}

/// What a plan must hold whatever its quality, by comparing all pairs.
inline void expect_sound(const Storages& storages, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), storages.size());
  std::size_t peak = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Storage& a = storages[i];
    const std::size_t end = plan.offsets[i] + a.bytes;
    peak = std::max(peak, end);
    ASSERT_EQ(plan.offsets[i] % kBufferAlignment, 0u) << "storage " << i;
    if (a.bytes == 0) {
      ASSERT_EQ(plan.offsets[i], 0u) << "storage " << i;
      continue;
    }
    if (a.fixed_offset) {
      ASSERT_EQ(plan.offsets[i], *a.fixed_offset) << "storage " << i;
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Storage& b = storages[j];
      const bool both_live = a.life.first <= b.life.last && b.life.first <= a.life.last;
      const bool share = plan.offsets[j] < end && plan.offsets[i] < plan.offsets[j] + b.bytes;
      ASSERT_FALSE(both_live && share && b.bytes > 0) << "storages " << j << " and " << i << " share bytes";
    }
  }
  EXPECT_EQ(plan.peak_bytes, peak);
}

struct FullestStep {
  std::size_t bytes = 0;
  StepIndex step = 0;
};

/// Sums the live bytes at each step at which something begins or ends.
inline FullestStep fullest_step(const Storages& storages) {
  std::map<std::int64_t, std::int64_t> change;
  for (const Storage& s : storages) {
    const auto rounded = static_cast<std::int64_t>((s.bytes + 255) / 256 * 256);
    change[s.life.first] += rounded;
    change[std::int64_t{s.life.last} + 1] -= rounded;
  }
  FullestStep fullest;
  std::int64_t live = 0;
  for (const auto& [step, bytes] : change) {
    live += bytes;
    if (live > static_cast<std::int64_t>(fullest.bytes)) {
      fullest = {static_cast<std::size_t>(live), static_cast<StepIndex>(step)};
    }
  }
  return fullest;
}

/// The plan, held against what it must hold and against the bound.
inline MemoryPlan checked_plan(const Storages& storages) {
  const MemoryPlan plan = plan_memory(storages);
  expect_sound(storages, plan);
  const FullestStep fullest = fullest_step(storages);
  EXPECT_EQ(plan.lower_bound_bytes, fullest.bytes);
  EXPECT_EQ(plan.fullest_step, fullest.step);
  return plan;
}

/// How far the peak lies above the lower bound.
inline double gap_percent(const MemoryPlan& plan) {
  const auto peak = static_cast<double>(round_up(plan.peak_bytes));
  return 100 * (peak / static_cast<double>(plan.lower_bound_bytes) - 1);
}

}  // namespace sectionflow::testing_support
