#include "schedule/plan_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/schedule/checked_plan.h"
#include "tests/support/contains.h"

namespace sectionflow {
namespace {

using namespace testing_support;

std::string error_text(const Storages& storages) {
  try {
    plan_memory(storages);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no ArgumentError";
}

TEST(PlanMemory, NothingNeedsNothing) {
  const MemoryPlan plan = checked_plan({});
  EXPECT_EQ(plan.peak_bytes, 0u);
  EXPECT_EQ(plan.lower_bound_bytes, 0u);
}

TEST(PlanMemory, ZeroBytesLieAtZero) {
  const MemoryPlan plan = checked_plan({storage(0, 0, 9), storage(1000, 2, 5), storage(0, 3, 4), fixed(0, 1, 2, 512)});
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 0, 0, 0}));
  EXPECT_EQ(checked_plan({storage(0, 3, 4)}).peak_bytes, 0u);
}

TEST(PlanMemory, PeakIsToTheByteAndBoundIsRounded) {
  const MemoryPlan plan = checked_plan({storage(1000, 7, 7)});
  EXPECT_EQ(plan.peak_bytes, 1000u);
  EXPECT_EQ(plan.lower_bound_bytes, 1024u);
  EXPECT_EQ(plan.fullest_step, 7);
}

TEST(PlanMemory, EndsOfLivesAreInclusive) {
  EXPECT_EQ(checked_plan({storage(256, 0, 3), storage(256, 3, 5)}).peak_bytes, 512u);
  EXPECT_EQ(checked_plan({storage(256, 0, 3), storage(256, 4, 5)}).peak_bytes, 256u);
}

TEST(PlanMemory, FarStepsCostNothing) {
  constexpr StepIndex kFar = std::numeric_limits<StepIndex>::max();
  const MemoryPlan plan = checked_plan({storage(256, 0, kFar), storage(256, 100'000, 200'000), storage(256, kFar, kFar),
                                        storage(256, kFar - 5, kFar - 1)});
  EXPECT_EQ(plan.peak_bytes, 512u);
  EXPECT_EQ(plan.fullest_step, 100'000);
}

TEST(PlanMemory, BytesBelowAndBetweenFixedOffsetsAreUsed) {
  const MemoryPlan plan = checked_plan(
      {fixed(512, 0, 9, 512), fixed(256, 0, 9, 1280), storage(200, 0, 9), storage(256, 2, 5), storage(256, 3, 9)});
  EXPECT_EQ(plan.peak_bytes, 1536u);
  EXPECT_EQ(plan.lower_bound_bytes, 1536u);
}

TEST(PlanMemory, AllMayBeFixed) {
  const MemoryPlan plan = checked_plan({fixed(300, 0, 4, 256), fixed(300, 5, 9, 256), fixed(256, 0, 9, 0)});
  EXPECT_EQ(plan.peak_bytes, 556u);
}

TEST(PlanMemory, LifeThatEndsBeforeItBeginsIsRefused) {
  const std::string text = error_text({storage(1, 0, 1), storage(1, 7, 6)});
  EXPECT_TRUE(contains(text, "storage 1 lives from step 7 to step 6")) << text;
}

TEST(PlanMemory, FixedStoragesThatShareBytesAreRefused) {
  const std::string text = error_text({fixed(1000, 0, 5, 256), storage(64, 0, 9), fixed(100, 5, 6, 1024)});
  EXPECT_TRUE(contains(text, "storage 0 (1000 bytes fixed at offset 256, steps 0 to 5)")) << text;
  EXPECT_TRUE(contains(text, "storage 2 (100 bytes fixed at offset 1024, steps 5 to 6)")) << text;
  EXPECT_NO_THROW(plan_memory(Storages{fixed(1000, 0, 5, 256), fixed(100, 6, 6, 1024)}));
  EXPECT_NO_THROW(plan_memory(Storages{fixed(1000, 0, 5, 256), fixed(100, 5, 6, 1280)}));
}

TEST(PlanMemory, FixedOffsetThatIsNotAlignedIsRefused) {
  const std::string text = error_text({fixed(1, 0, 1, 100)});
  EXPECT_TRUE(contains(text, "storage 0 is fixed at offset 100; wanted a multiple of 256")) << text;
}

TEST(PlanMemory, OffTheDevicePlacesBeginAtPages) {
  for (const Tier tier : {Tier::host, Tier::disk}) {
    Storages storages = {storage(1000, 0, 5), storage(5000, 3, 9), fixed(300, 4, 4, 4 * kPageBytes), storage(7, 5, 5)};
    for (Storage& s : storages) s.tier = tier;
    storages.push_back(storage(256, 3, 3));
    const MemoryPlan plan = plan_memory(storages);
    for (const std::size_t offset : plan.offsets) EXPECT_EQ(offset % kPageBytes, 0U);
    const TierPeak& peak = tier == Tier::host ? plan.host : plan.disk;
    EXPECT_EQ(peak.peak_bytes, 4 * kPageBytes + 300) << "to the byte";
    EXPECT_EQ(peak.lower_bound_bytes, 4 * kPageBytes);
    EXPECT_EQ(peak.fullest_step, 4);
    EXPECT_EQ(plan.peak_bytes, 256U);
    storages[2].fixed_offset = 256;
    EXPECT_TRUE(contains(error_text(storages), "wanted a multiple of 4096"));
  }
}

TEST(PlanMemory, SumBeyondTheAddressSpaceIsRefused) {
  constexpr std::size_t kHalf = std::size_t{1} << 62;
  EXPECT_TRUE(contains(error_text({storage(kHalf, 0, 1), storage(kHalf, 2, 3)}), "2^63 - 1"));
  EXPECT_TRUE(contains(error_text({storage(~std::size_t{0}, 0, 1)}), "2^63 - 1"));
  EXPECT_TRUE(contains(error_text({storage(1, 0, 1), fixed(1, 0, 1, kHalf * 2 - 256)}), "2^63 - 1"));
  EXPECT_TRUE(contains(error_text({fixed(1, 0, 1, kHalf * 2)}), "2^63 - 1"));
  EXPECT_EQ(checked_plan({storage(kHalf, 0, 1), storage(kHalf - 512, 1, 3)}).peak_bytes, 2 * kHalf - 512);
}

}  // namespace
}  // namespace sectionflow
