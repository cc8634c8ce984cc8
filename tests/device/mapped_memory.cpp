#include "device/mapped_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr MappingUse kUse{.tier = "host", .option = "host_memory", .must_be_there = true};

TEST(MappedMemory, WhoTouchesABlockTouchesNoOther) {
  // Ends within a large page, so that a neighbour's first one could lie in both.
  constexpr std::size_t kBytes = (std::size_t{8} << 20) + 4096;
  std::vector<std::unique_ptr<DeviceMemory>> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(map_memory(kBytes, kUse));
  for (std::size_t i = 0; i < blocks.size(); i += 2) *blocks[i]->data() = std::byte{1};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i]->touched_end(blocks[i]->discardable_offset(1)), blocks[i]->discardable_offset(1)) << i;
  }
}

TEST(MappedMemory, MoreThanThereIsIsRefused) {
  EXPECT_THROW(map_memory(std::numeric_limits<std::size_t>::max(), kUse), DeviceError);
  EXPECT_THROW(map_memory(std::numeric_limits<std::size_t>::max() / 4, kUse), DeviceError);
}

TEST(MappedMemory, AllOfTheMachinesMemoryIsGiven) {
  EXPECT_EQ(map_memory(machine_memory(), kUse)->num_bytes(), machine_memory());
}

TEST(MappedMemory, ABlockOfNothingIsThere) {
  const std::unique_ptr<DeviceMemory> block = map_memory(0, kUse);
  EXPECT_EQ(block->num_bytes(), 0U);
  EXPECT_NE(block->data(), nullptr);
}

}  // namespace
}  // namespace sectionflow
