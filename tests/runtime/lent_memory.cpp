#include "runtime/lent_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "graph/layers.h"
#include "runtime/engine.h"
#include "tests/support/emulated_device.h"
#include "tests/support/log_lines.h"

namespace sectionflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace testing_support;

using Lent = std::shared_ptr<std::byte[]>;

/// A budget of host memory and what is lent of it.
struct Pool {
  explicit Pool(std::size_t max_bytes, std::size_t budget = 1_GiB, DeviceQueues* queues = nullptr)
      : holds(std::make_shared<HostHolds>(budget)), memory(std::make_shared<LentMemory>(max_bytes, holds, queues)) {}
  LentMemory::Figures figures() const { return memory->figures(); }

  std::shared_ptr<HostHolds> holds;
  std::shared_ptr<LentMemory> memory;
};

TEST(LentMemory, IsAlignedCountedAndLentAgain) {
  Pool pool(1_MiB);
  Lent first = pool.memory->lend(10'000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.get()) % LentMemory::kAlignment, 0U);
  std::memset(first.get(), 1, 10'000);
  EXPECT_EQ(pool.figures().lent_bytes, 12'288U);
  EXPECT_EQ(pool.holds->held_bytes(), 12'288U);
  const std::byte* place = first.get();
  first.reset();
  EXPECT_EQ(pool.figures().lent_blocks, 0U);
  EXPECT_EQ(pool.holds->held_bytes(), 12'288U) << "it is kept";
  EXPECT_EQ(pool.memory->lend(9'000).get(), place);
  EXPECT_EQ(pool.memory->lend(0), nullptr);
  EXPECT_EQ(pool.figures().blocks_made, 1U);
}

TEST(LentMemory, DoesNotLendWhatIsFarTooLarge) {
  Pool pool(1_MiB);
  pool.memory->lend(100'000).reset();
  const Lent small = pool.memory->lend(1000);
  EXPECT_EQ(pool.figures().num_blocks, 2U);
  EXPECT_EQ(pool.figures().lent_bytes, 4096U);
}

TEST(LentMemory, GivesUpWhatNobodyHasForAnotherSizeAndSaysOnceWhereThatIsNotEnough) {
  const LogLines log;
  Pool pool(64_KiB);
  pool.memory->lend(16_KiB).reset();
  const Lent most = pool.memory->lend(60_KiB);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(pool.figures().num_blocks, 1U) << "the small one made room";
  EXPECT_THAT(log.lines, IsEmpty());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.memory->lend(8_KiB), nullptr);
  EXPECT_EQ(pool.memory->lend(65_KiB), nullptr);
  EXPECT_THAT(log.lines,
              ElementsAre(AllOf(HasSubstr("memory of their own"), HasSubstr("lent_memory"), HasSubstr("64.0 KiB"))));
}

TEST(LentMemory, LeavesHostMemoryToOthersAndSaysOnce) {
  const LogLines log;
  Pool pool(1_MiB, 40_KiB);
  const auto other = pool.holds->hold(24_KiB, {});
  const Lent first = pool.memory->lend(12_KiB);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(pool.memory->lend(8_KiB), nullptr);
  EXPECT_EQ(pool.memory->lend(8_KiB), nullptr);
  EXPECT_EQ(pool.holds->held_bytes(), 36_KiB);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("host_memory has no room")));
}

TEST(LentMemory, GoesToAProgramThatNeedsItAndBlocksInUseAreTheirUsersThen) {
  Pool pool(1_MiB, 64_KiB);
  Lent used = pool.memory->lend(16_KiB);
  pool.memory->lend(32_KiB).reset();
  std::memset(used.get(), 3, 16_KiB);
  pool.holds->make_place_for(16_KiB);
  EXPECT_EQ(pool.figures().num_blocks, 2U) << "there is place for all";
  pool.holds->make_place_for(56_KiB);
  EXPECT_EQ(pool.holds->held_bytes(), 0U);
  EXPECT_EQ(pool.figures().num_blocks, 1U);
  EXPECT_EQ(pool.figures().counted_bytes, 0U);
  EXPECT_EQ(used[16_KiB - 1], std::byte{3});
  const Lent rest = pool.memory->lend(8_KiB);
  EXPECT_NE(rest, nullptr) << "what the program leaves";
  EXPECT_EQ(pool.memory->lend(4_KiB), nullptr);
  used.reset();
  EXPECT_EQ(pool.figures().num_bytes, 8_KiB) << "to the machine, not to the pool";
}

TEST(LentMemory, OutlivesItsSession) {
  Lent kept;
  std::weak_ptr<LentMemory> memory;
  std::shared_ptr<LentMemory> asked;
  {
    Graph graph;
    Session session(graph, {.device_memory = 1_MiB, .lent_memory = 1_MiB, .threads = 1});
    asked = engine(session).lent_memory();
    memory = asked;
    kept = asked->lend(10'000);
    asked->lend(20'000).reset();
    EXPECT_EQ(asked->figures().num_blocks, 2U);
  }
  EXPECT_EQ(asked->figures().num_blocks, 1U);
  EXPECT_EQ(asked->figures().counted_bytes, 0U);
  EXPECT_EQ(asked->lend(10), nullptr);
  std::memset(kept.get(), 7, 10'000);
  asked.reset();
  kept.reset();
  EXPECT_TRUE(memory.expired());
}

TEST(LentMemory, OfASessionThatLendsNoneIsNone) {
  Graph graph;
  Session none(graph, {.device_memory = 1_MiB, .lent_memory = 0, .threads = 1});
  EXPECT_EQ(engine(none).lent_memory(), nullptr);
  Session unsaid(graph, {.device_memory = 1_MiB, .threads = 1});
  EXPECT_EQ(engine(unsaid).lent_memory(), nullptr) << "the CPU gains nothing by it";
}

TEST(LentMemory, MakesRoomForOtherHoldsOfTheSession) {
  Graph graph;
  Session session(graph, {.device_memory = 1_MiB, .host_memory = 64_KiB, .lent_memory = 1_GiB, .threads = 1});
  const auto memory = engine(session).lent_memory();
  Lent used = memory->lend(16_KiB);
  memory->lend(32_KiB).reset();
  EXPECT_NE(engine(session).hold_host_memory(48_KiB, {}), nullptr);
  EXPECT_EQ(engine(session).hold_host_memory(49_KiB, {}), nullptr) << "what is in use stays";
}

TEST(LentMemory, ThatTheMachineRefusesToPinIsNotAskedForAgain) {
  const LogLines log;
  const auto device = make_emulated_device({.kernels = EmulatedKernels::cpu, .pinnable = 16_KiB});
  Pool pool(1_MiB, 1_GiB, device->queues());
  const Lent pinned = pool.memory->lend(12_KiB);
  ASSERT_NE(pinned, nullptr);
  EXPECT_TRUE(pool.memory->is_pinned(pinned.get(), 12_KiB));
  EXPECT_TRUE(pool.memory->is_pinned(pinned.get() + 4_KiB, 8_KiB));
  EXPECT_FALSE(pool.memory->is_pinned(pinned.get() + 4_KiB, 9_KiB));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.memory->lend(8_KiB), nullptr);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("could not be pinned")));
  EXPECT_EQ(pool.holds->held_bytes(), 12_KiB);
  pool.memory->close();
  EXPECT_FALSE(pool.memory->is_pinned(pinned.get(), 12_KiB));
}

TEST(LentMemory, OfTheCpuIsPinnedForNobody) {
  Pool pool(1_MiB);
  const Lent lent = pool.memory->lend(8_KiB);
  EXPECT_FALSE(pool.memory->is_pinned(lent.get(), 8_KiB));
}

/// Threads that take and let go, in each other's place, while programs come and the session ends.
TEST(LentMemory, IsOneOwnersAtATimeWhateverTheSchedule) {
  constexpr unsigned kThreads = 4;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    const auto device = make_emulated_device({.kernels = EmulatedKernels::cpu});
    Pool pool(256_KiB, 300_KiB, seed % 2 == 0 ? device->queues() : nullptr);
    std::atomic<int> wrong = 0;
    std::mutex mutex;
    std::vector<std::pair<Lent, std::size_t>> passed;  // let go by another thread than took it
    const auto work = [&](unsigned number) {
      std::mt19937 random(seed * 100 + number);
      std::vector<std::pair<Lent, std::size_t>> mine;
      for (int i = 0; i < 400; ++i) {
        const std::size_t bytes = 1 + random() % 20'000;
        if (Lent lent = pool.memory->lend(bytes)) {
          std::memset(lent.get(), static_cast<int>(number), bytes);
          mine.emplace_back(std::move(lent), bytes);
        }
        if (mine.empty() || random() % 2 == 0) continue;
        const auto [block, size] = std::exchange(mine[random() % mine.size()], {});
        std::erase_if(mine, [](const auto& each) { return each.first == nullptr; });
        for (std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
          if (block[at] != static_cast<std::byte>(number)) ++wrong;
        }
        const std::lock_guard lock(mutex);
        passed.emplace_back(block, size);
        if (passed.size() > 5) passed.erase(passed.begin());
      }
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned number = 1; number <= kThreads; ++number) threads.emplace_back(work, number);
      for (std::size_t peak = 1; peak <= 40; ++peak) {
        pool.holds->make_place_for(peak * 2_KiB);
        pool.memory->drop_idle();
        std::this_thread::yield();
      }
      if (seed % 3 == 0) pool.memory->close();
    }
    EXPECT_EQ(wrong, 0);
    passed.clear();
    pool.memory->drop_idle();
    const LentMemory::Figures figures = pool.figures();
    EXPECT_EQ(figures.num_blocks, 0U);
    EXPECT_EQ(figures.num_bytes, 0U);
    EXPECT_EQ(pool.holds->held_bytes(), 0U);
    pool.memory->close();
  }
}

}  // namespace
}  // namespace sectionflow
