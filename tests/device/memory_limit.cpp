#include "device/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "base/bytes.h"
#include "base/error.h"
#include "device/device.h"
#include "graph/graph.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MemoryLimit, IsAllOfItANumberOfBytesOrAShare) {
  EXPECT_EQ(MemoryLimit().bytes_of(1000), 1000U);
  EXPECT_EQ(MemoryLimit(3_MiB).bytes_of(1000), 3_MiB);
  EXPECT_EQ((25_percent).bytes_of(1000), 250U);
  EXPECT_EQ((100_percent).bytes_of(1_GiB), 1_GiB);
  EXPECT_FALSE(MemoryLimit().is_limited());
  EXPECT_TRUE((1_percent).is_limited());
}

static_assert(std::is_constructible_v<MemoryLimit, int>);
static_assert(!std::is_constructible_v<MemoryLimit, double>, "0.5 would be 0, and 0 is all of it");

TEST(MemoryLimit, AShareThatIsNoneIsRefused) {
  EXPECT_THAT([] { (void)(101_percent).bytes_of(1000); },
              ThrowsMessage<ArgumentError>(HasSubstr("101 percent; wanted more than 0, at most 100")));
  EXPECT_THAT([] { (void)(0_percent).bytes_of(1000); }, ThrowsMessage<ArgumentError>(HasSubstr("0 percent")));
}

TEST(MemoryLimit, ASessionsBudgetIsTheShareOfItsDevice) {
  Graph graph;
  Session session(graph, {.device_memory = 50_percent, .threads = 1});
  EXPECT_EQ(session.budget_bytes(), (50_percent).bytes_of(machine_memory()));
}

}  // namespace
}  // namespace sectionflow
