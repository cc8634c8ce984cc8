#include "runtime/variable_homes.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

namespace sectionflow {
namespace {

constexpr std::size_t kNodes = 12;

/// Eight variables of three pages and a bit, and between them two that are less than a page.
std::vector<SizedVariable> ten_variables() {
  std::vector<SizedVariable> variables;
  for (NodeId id = 0; id < 10; ++id) variables.push_back({id, id == 3 || id == 6 ? 1000 : 3 * kPageBytes + 40});
  return variables;
}

int num_on_disk(const VariableLayout& layout) {
  int number = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(kNodes); ++id) number += layout.has_disk_home(id) ? 1 : 0;
  return number;
}

TEST(VariableHomes, WithoutADiskThereIsOneLayoutInTheOrderOfTheNodes) {
  for (const HomeTiers tiers : {HomeTiers::device, HomeTiers::host}) {
    const VariableHomes places(ten_variables(), kNodes, tiers);
    ASSERT_EQ(places.count(), 1);
    const auto& offsets = tiers == HomeTiers::device ? places.now().offsets : places.now().host_offsets;
    for (std::size_t id = 1; id < 10; ++id) EXPECT_LT(offsets[id - 1], offsets[id]);
    EXPECT_EQ(places.now().home_of(4), tiers == HomeTiers::device ? Tier::device : Tier::host);
    EXPECT_FALSE(places.now().contains(10));
  }
}

TEST(VariableHomes, TheFirstLayoutTakesNoDiskAndAsMuchHostMemoryAsThereWithoutOne) {
  const VariableHomes on_host(ten_variables(), kNodes, HomeTiers::host);
  const VariableHomes places(ten_variables(), kNodes, HomeTiers::host_and_disk);
  EXPECT_EQ(places.now().disk_end_bytes, 0U);
  EXPECT_EQ(places.now().host_end_bytes, on_host.now().host_end_bytes);
}

TEST(VariableHomes, EachLayoutHasAQuarterMoreOnDiskTheLastMadeFirst) {
  const VariableHomes places(ten_variables(), kNodes, HomeTiers::host_and_disk);
  ASSERT_EQ(places.count(), 5);
  for (int number = 0; number < 5; ++number) EXPECT_EQ(num_on_disk(places.at(number)), 2 * number);
  EXPECT_TRUE(places.at(1).has_disk_home(9) && places.at(1).has_disk_home(8));
  EXPECT_FALSE(places.at(3).has_disk_home(1) || places.at(3).has_disk_home(0));
  EXPECT_TRUE(places.at(4).has_disk_home(0));
  EXPECT_TRUE(places.at(4).has_host_home(3) && places.at(4).has_host_home(6)) << "less than a page";
  EXPECT_EQ(places.at(1).disk_end_bytes, 7 * kPageBytes + 40);
  for (int number = 1; number < 5; ++number) {
    EXPECT_LT(places.at(number).host_end_bytes, places.at(number - 1).host_end_bytes);
  }
}

TEST(VariableHomes, AVariableHasOnePlaceInEachTierInAllLayouts) {
  const VariableHomes places(ten_variables(), kNodes, HomeTiers::host_and_disk);
  const VariableLayout &first = places.at(0), &last = places.at(4);
  for (int number = 0; number < places.count(); ++number) {
    for (NodeId id = 0; id < 10; ++id) {
      const auto index = static_cast<std::size_t>(id);
      const VariableLayout& layout = places.at(number);
      EXPECT_NE(layout.has_host_home(id), layout.has_disk_home(id));
      if (layout.has_host_home(id)) {
        EXPECT_EQ(layout.host_offsets[index], first.host_offsets[index]);
      } else {
        EXPECT_EQ(layout.disk_offsets[index] % kPageBytes, 0U);
      }
      // The last layout has all on disk that any has.
      if (layout.has_disk_home(id)) {
        EXPECT_EQ(layout.disk_offsets[index], last.disk_offsets[index]);
      }
    }
  }
}

TEST(VariableHomes, OneVariableIsOnDiskOrNot) {
  const VariableHomes places({{.id = 2, .bytes = 10}}, kNodes, HomeTiers::host_and_disk);
  ASSERT_EQ(places.count(), 2);
  EXPECT_EQ(places.at(1).host_end_bytes, 0U);
  EXPECT_EQ(places.at(1).disk_end_bytes, 10U);
  EXPECT_EQ(VariableHomes({}, kNodes, HomeTiers::host_and_disk).count(), 1);
}

}  // namespace
}  // namespace sectionflow
