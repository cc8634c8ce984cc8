#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu_device.h"

namespace sectionflow {
namespace {

struct CpuArena {
  CpuDevice device{1};
  Arena arena{device, 64_MiB};
};

TEST(Arena, AnUntouchedRegionMeasuresNothing) {
  CpuArena f;
  f.arena.data()[5_MiB] = std::byte{1};
  f.arena.begin_measurement(512, 1_MiB);
  EXPECT_EQ(f.arena.highest_touched(512), 512u);
}

TEST(Arena, TheEndIsFoundToTheByte) {
  CpuArena f;
  for (const std::size_t end : {512_KiB + 1, 512_KiB + 2, 512_KiB + 3, 512_KiB + 4, 512_KiB + 255, 600_KiB}) {
    f.arena.begin_measurement(256, 1_MiB);
    std::fill(f.arena.data() + 256, f.arena.data() + end, std::byte{0});
    EXPECT_EQ(f.arena.highest_touched(256), end);
  }
}

TEST(Arena, OneByteBeyondIsSeen) {
  CpuArena f;
  f.arena.begin_measurement(0, 1_MiB);
  std::fill(f.arena.data(), f.arena.data() + 4096, std::byte{0});
  EXPECT_EQ(f.arena.highest_touched(0), 4096u);
  f.arena.data()[4096] = std::byte{0};
  EXPECT_EQ(f.arena.highest_touched(0), 4097u);
}

TEST(Arena, FloatsChangeTheirLastByte) {
  CpuArena f;
  for (const float value : {0.0F, -0.0F, 1.0F, -1e-30F, -1e38F, 3e38F, NAN, -NAN, INFINITY, -INFINITY}) {
    f.arena.begin_measurement(0, 1_MiB);
    *reinterpret_cast<float*>(f.arena.data() + 1024) = value;
    EXPECT_EQ(f.arena.highest_touched(0), 1028u) << value;
  }
}

TEST(Arena, SmallIntegersChangeTheirLastByte) {
  CpuArena f;
  for (const std::int32_t value : {0, 1, -1, 255, -1000}) {
    f.arena.begin_measurement(0, 1_MiB);
    *reinterpret_cast<std::int32_t*>(f.arena.data() + 1024) = value;
    EXPECT_EQ(f.arena.highest_touched(0), 1028u) << value;
  }
}

TEST(Arena, AWriteFarBehindTheWindowIsSeen) {
  CpuArena f;
  // The window is rounded up to whole large pages.
  for (const std::size_t offset : {8_MiB, 40_MiB, 64_MiB - 1}) {
    f.arena.begin_measurement(0, 1_MiB);
    EXPECT_EQ(f.arena.highest_touched(0), 0u);
    f.arena.data()[offset] = std::byte{7};
    EXPECT_GT(f.arena.highest_touched(0), offset);
  }
}

TEST(Arena, AnotherMeasurementForgetsTheLast) {
  CpuArena f;
  f.arena.begin_measurement(0, 1_MiB);
  f.arena.data()[700_KiB] = std::byte{0};
  f.arena.data()[50_MiB] = std::byte{0};
  f.arena.begin_measurement(0, 1_MiB);
  EXPECT_EQ(f.arena.highest_touched(0), 0u);
}

TEST(Arena, AWindowThatIsExtendedShowsToTheByteAndKeepsWhatWasWritten) {
  CpuArena f;
  for (const std::size_t end : {1_MiB + 1, 9_MiB + 17, 20_MiB - 3}) {
    f.arena.begin_measurement(256, 1_MiB);
    std::fill(f.arena.data() + 256, f.arena.data() + 1_MiB, std::byte{3});
    f.arena.extend_measurement(256, 24_MiB);
    EXPECT_EQ(f.arena.highest_touched(256), 1_MiB);
    EXPECT_TRUE(
        std::all_of(f.arena.data() + 256, f.arena.data() + 1_MiB, [](std::byte b) { return b == std::byte{3}; }));
    f.arena.data()[end - 1] = std::byte{0};
    EXPECT_EQ(f.arena.highest_touched(256), end);
  }
  // A smaller window changes nothing.
  f.arena.extend_measurement(256, 1_MiB);
  EXPECT_EQ(f.arena.highest_touched(256), 20_MiB - 3);
}

TEST(Arena, WhatWasWrittenBehindTheWindowBeforeItIsExtendedIsNotForgotten) {
  CpuArena f;
  f.arena.begin_measurement(0, 1_MiB);
  f.arena.data()[10_MiB] = std::byte{0};
  f.arena.extend_measurement(0, 30_MiB);
  EXPECT_GT(f.arena.highest_touched(0), 10_MiB);
  EXPECT_LT(f.arena.highest_touched(0), 13_MiB);
  f.arena.data()[12_MiB + 5] = std::byte{0};
  f.arena.data()[14_MiB + 5] = std::byte{0};
  EXPECT_EQ(f.arena.highest_touched(0), 14_MiB + 6);
  f.arena.begin_measurement(0, 1_MiB);
  EXPECT_EQ(f.arena.highest_touched(0), 0u);
}

TEST(Arena, WhatLiesBelowTheRegionIsLeftAlone) {
  CpuArena f;
  std::fill(f.arena.data(), f.arena.data() + 256, std::byte{42});
  f.arena.begin_measurement(256, 1_MiB);
  EXPECT_TRUE(std::all_of(f.arena.data(), f.arena.data() + 256, [](std::byte b) { return b == std::byte{42}; }));
}

TEST(Arena, ARegionAtTheVeryEndOrBehindItMeasuresNothing) {
  CpuDevice device(1);
  Arena arena(device, 1000);
  arena.begin_measurement(1000, 1_MiB);
  EXPECT_EQ(arena.highest_touched(1000), 1000u);
  arena.begin_measurement(1024, 1_MiB);
  EXPECT_EQ(arena.highest_touched(1024), 1024u);
  arena.begin_measurement(512, 1_MiB);
  arena.data()[999] = std::byte{0};
  EXPECT_EQ(arena.highest_touched(512), 1000u);
}

}  // namespace
}  // namespace sectionflow
