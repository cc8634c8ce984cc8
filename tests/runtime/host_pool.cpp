#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "runtime/arena.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(HostPool, MeasuresItsPeakToTheByte) {
  HostPool pool(8_MiB);
  EXPECT_EQ(pool.num_bytes(), 8_MiB);
  pool.begin_measurement(0, 1_MiB);
  EXPECT_EQ(pool.highest_touched(0), 0u);
  std::fill_n(pool.data(), 300'001, std::byte{0});
  EXPECT_EQ(pool.highest_touched(0), 300'001u);
  pool.data()[8_MiB - 1] = std::byte{1};
  EXPECT_EQ(pool.highest_touched(0), 8_MiB) << "beyond the window, too";
  pool.begin_measurement(0, 1_MiB);
  EXPECT_EQ(pool.highest_touched(0), 0u);
}

TEST(HostPool, AFullPoolMeasuresItsSize) {
  HostPool pool(100'003);
  pool.begin_measurement(0, 100'003);
  std::fill_n(pool.data(), pool.num_bytes(), std::byte{0});
  EXPECT_EQ(pool.highest_touched(0), 100'003u);
}

TEST(HostPool, MayBeEmpty) {
  HostPool pool(0);
  EXPECT_EQ(pool.num_bytes(), 0u);
  EXPECT_NE(pool.data(), nullptr);
  pool.begin_measurement(0, 0);
  EXPECT_EQ(pool.highest_touched(0), 0u);
}

TEST(HostPool, MovesWithItsMemory) {
  HostPool pool(1_MiB);
  pool.data()[5] = std::byte{42};
  const std::byte* const data = pool.data();
  HostPool other = std::move(pool);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.data()[5], std::byte{42});
}

TEST(HostPool, WhatTheMachineRefusesNamesTierAndBytes) {
  const std::string text = error_text<DeviceError>([] { HostPool pool(std::size_t{1} << 62); });
  EXPECT_TRUE(text.starts_with("host: 4194304 TiB of memory were refused: ")) << text;
  EXPECT_NE(text.find("try a smaller host_memory"), std::string::npos) << text;
}

}  // namespace
}  // namespace sectionflow
