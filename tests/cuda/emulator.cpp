// What the emulator of GPU kernels catches, so that a kernel which passes on it is known to be free of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/device_queues.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/row_teams.h"
#include "tests/support/emulated_device.h"
#include "tests/support/gpu_blocks.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using gpu::HostThread;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr gpu::LaunchShape kOneBlock{.blocks = 1, .threads = 64, .shared_bytes = 1024};

void expect_caught(const gpu::LaunchShape& shape, const std::function<void(HostThread&)>& body, const char* what) {
  EXPECT_THAT([&] { emulate_blocks(shape, body, 1); }, ThrowsMessage<InternalError>(HasSubstr(what)));
}

TEST(Emulator, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(5 * 64, 0);
  emulate_blocks(
      {.blocks = 5, .threads = 64}, [&](HostThread& thread) { ++runs[thread.block() * 64 + thread.index()]; }, 3);
  EXPECT_THAT(runs, testing::Each(1));
}

TEST(Emulator, ThreadsSeeWhatOthersWroteBeforeTheBarrier) {
  std::vector<float> found(64);
  const auto body = [&](HostThread& thread) {
    auto tile = thread.shared<float>(0, 64);
    tile[thread.index()] = static_cast<float>(thread.index());
    thread.barrier();
    found[static_cast<std::size_t>(thread.index())] = tile[63 - thread.index()];
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    emulate_blocks(kOneBlock, body, seed);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], static_cast<float>(63 - i));
  }
}

TEST(Emulator, AReadWithoutABarrierIsCaught) {
  expect_caught(
      kOneBlock,
      [](HostThread& thread) {
        auto tile = thread.shared<int>(0, 64);
        tile[thread.index()] = 1;
        if (thread.index() > 0) (void)static_cast<int>(tile[thread.index() - 1]);
      },
      "shared memory: thread");
}

TEST(Emulator, AWriteOverWhatOthersStillReadIsCaught) {
  expect_caught(
      kOneBlock,
      [](HostThread& thread) {
        auto tile = thread.shared<int>(0, 64);
        tile[thread.index()] = 1;
        thread.barrier();
        (void)static_cast<int>(tile[0]);
        tile[thread.index()] = 2;
      },
      "shared memory: thread");
}

TEST(Emulator, TwoWritesOfOneElementAreCaught) {
  expect_caught(
      kOneBlock, [](HostThread& thread) { thread.shared<int>(0, 1)[0] = thread.index(); }, "write byte");
}

TEST(Emulator, AReadOfWhatNobodyWroteIsCaught) {
  expect_caught(
      kOneBlock, [](HostThread& thread) { (void)static_cast<int>(thread.shared<int>(0, 1)[0]); },
      "which nobody has written");
}

TEST(Emulator, SharedMemoryEndsWhereTheLaunchSays) {
  expect_caught(
      kOneBlock, [](HostThread& thread) { (void)thread.shared<float>(0, 257); }, "bytes 0 to 1028 of 1024");
  expect_caught(
      kOneBlock, [](HostThread& thread) { thread.shared<float>(0, 64)[64 + thread.index()] = 0; }, " of 64");
}

TEST(Emulator, ElementsOfOneWordThatDifferentThreadsWriteAreNoRace) {
  const auto body = [](HostThread& thread) {
    auto words = thread.shared<int>(256, 64);
    words[thread.index()] = thread.index();
    auto bytes = thread.shared<std::uint8_t>(0, 64);
    bytes[thread.index()] = static_cast<std::uint8_t>(thread.index());
    thread.barrier();
    const int found = bytes[63 - thread.index()];
    EXPECT_EQ(found, 63 - thread.index());
    EXPECT_EQ(static_cast<int>(words[thread.index()]), thread.index())
        << "what is known of words holds for their bytes";
  };
  emulate_blocks({.blocks = 2, .threads = 64, .shared_bytes = 1024}, body, 3);
  expect_caught(
      kOneBlock,
      [](HostThread& thread) {
        auto bytes = thread.shared<std::uint8_t>(0, 64);
        bytes[thread.index()] = 1;
        if (thread.index() > 0) (void)static_cast<int>(bytes[thread.index() - 1]);
      },
      "shared memory: thread");
}

TEST(Emulator, WhatEarlierBlocksWroteIsNotWritten) {
  int blocks = 0;
  expect_caught(
      {.blocks = 2, .threads = 32, .shared_bytes = 128},
      [&](HostThread& thread) {
        auto tile = thread.shared<int>(0, 32);
        if (thread.index() == 0) ++blocks;
        thread.barrier();
        if (blocks == 1) tile[thread.index()] = 1;
        (void)static_cast<int>(tile[thread.index()]);
      },
      "which nobody has written");
}

TEST(Emulator, WordsAtOddPlacesAreCaught) {
  expect_caught(
      kOneBlock, [](HostThread& thread) { (void)thread.shared<double>(4, 8); }, "byte 4 is no multiple of 8");
  alignas(16) float elements[8] = {};
  EXPECT_EQ(gpu::load_pack<4>(elements + 4).values[0], 0.0F);
  const auto is_caught = ThrowsMessage<InternalError>(HasSubstr("no multiple of 16"));
  EXPECT_THAT([&] { (void)gpu::load_pack<4>(elements + 3); }, is_caught);
  EXPECT_THAT([&] { gpu::store_pack(elements + 1, gpu::Pack<float, 4>{}); }, is_caught);
}

TEST(Launch, MoreBlocksThanAGridHasAreSeveralGrids) {
  const auto grids_of = [](std::int64_t blocks) {
    std::vector<std::pair<std::int64_t, std::int64_t>> grids;
    gpu::for_each_grid(blocks, [&](std::int64_t first, std::int64_t count) { grids.emplace_back(first, count); });
    return grids;
  };
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(grids_of(0), testing::IsEmpty());
  EXPECT_THAT(grids_of(1), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(grids_of(kMost), ElementsAre(Pair(0, kMost)));
  EXPECT_THAT(grids_of(2 * kMost + 5), ElementsAre(Pair(0, kMost), Pair(kMost, kMost), Pair(2 * kMost, 5)));
}

TEST(Emulator, ABarrierThatSomeThreadsPassByIsCaught) {
  expect_caught(
      kOneBlock,
      [](HostThread& thread) {
        if (thread.index() != 5) thread.barrier();
      },
      "63 threads wait at a barrier");
}

TEST(Emulator, AShuffleThatSomeLanesPassByIsCaught) {
  expect_caught(
      kOneBlock,
      [](HostThread& thread) {
        if (thread.index() != 40) (void)thread.shuffle_xor(1, 1);
      },
      "for their warp");
}

TEST(Emulator, LanesOfAWarpSeeWhatEachGave) {
  std::vector<int> sums(64);
  const auto body = [&](HostThread& thread) {
    for (int index : thread.of_warp(thread.index())) sums[static_cast<std::size_t>(thread.index())] += index;
  };
  emulate_blocks(kOneBlock, body, 3);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], i < 32 ? 496 : 496 + 32 * 32);
  expect_caught(
      kOneBlock,
      [](HostThread& thread) {
        if (thread.index() % 2 == 0) (void)thread.shuffle_xor(1, 1);
        if (thread.index() % 2 == 1) (void)thread.of_warp(1);
      },
      "lanes of a warp exchange");
}

TEST(Emulator, LaunchesThatNoGpuTakesAreCaught) {
  const auto nothing = [](HostThread&) {};
  expect_caught({.blocks = 1, .threads = 48}, nothing, "48 threads a block");
  expect_caught({.blocks = 1, .threads = 512}, nothing, "512 threads a block");
  expect_caught({.blocks = 1, .threads = 32, .shared_bytes = 50000}, nothing, "50000 bytes of shared memory");
}

/// A kernel in which all threads of all blocks write one place: the last one's number stays.
struct WritesOnePlace {
  std::int64_t* place;
  void operator()(std::int64_t i) const { *place = i; }
  template <class Thread>
  void operator()(Thread& thread) const {
    *place = thread.block() * thread.block_size() + thread.index();
  }
};
/// One in which each block reads what its neighbour writes.
struct ReadsItsNeighbours {
  std::int64_t* numbers;
  template <class Thread>
  void operator()(Thread& thread) const {
    if (thread.index() == 0) numbers[thread.block()] = numbers[(thread.block() + 1) % thread.num_blocks()] + 1;
  }
};
/// And one without a race.
struct WritesItsOwn {
  std::int64_t* numbers;
  template <class Thread>
  void operator()(Thread& thread) const {
    if (thread.index() == 0) numbers[thread.block()] = thread.block();
  }
};

/// How many contents of eight numbers the launch leaves, in twelve orders, as many as a case of an operation is run in.
template <class Launch>
std::size_t num_outcomes(Launch launch) {
  std::set<std::vector<std::int64_t>> outcomes;
  for (std::uint64_t order = 0; order < 12; ++order) {
    const EmulatedOrder ordered(order);
    const auto device = make_emulated_device({.seed = 1});
    std::vector<std::int64_t> numbers(8, 0);
    launch(device->queues()->native(Queue::compute), numbers.data());
    device->queues()->synchronize();
    outcomes.insert(numbers);
  }
  return outcomes.size();
}

TEST(Emulator, RacesOnGlobalMemoryShowInOtherOrders) {
  constexpr gpu::LaunchShape kBlocks{.blocks = 8, .threads = 32};
  EXPECT_GT(num_outcomes([](void* queue, std::int64_t* at) { gpu::launch_each(queue, 8, WritesOnePlace{at}); }), 1U);
  EXPECT_GT(
      num_outcomes([&](void* queue, std::int64_t* at) { gpu::launch_blocks(queue, kBlocks, WritesOnePlace{at}); }), 1U);
  EXPECT_GT(
      num_outcomes([&](void* queue, std::int64_t* at) { gpu::launch_blocks(queue, kBlocks, ReadsItsNeighbours{at}); }),
      1U);
  EXPECT_EQ(num_outcomes([&](void* queue, std::int64_t* at) { gpu::launch_blocks(queue, kBlocks, WritesItsOwn{at}); }),
            1U);
}

/// Where tensors begin.
struct alignas(32) Pack {
  float numbers[8];
};

TEST(RowTeams, ATeamTakesAsManyRowsAsThereAre) {
  constexpr std::int64_t kRows = 11;
  for (const std::int64_t length : {40, 1500}) {
    const gpu::RowTeams rows(Shape{kRows, length});
    const auto count = static_cast<std::size_t>(kRows * length);
    std::vector<Pack> packs(count / 8 + 1);
    float* const x = packs.front().numbers;
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * i % 101);
    std::vector<double> sums(kRows, -1);
    gpu::LaunchShape shape = rows.launch_shape();
    ASSERT_GT(shape.blocks, 2);
    shape.blocks = 2;
    const auto body = [&](HostThread& thread) {
      gpu::RowTeam<HostThread> team(thread, rows);
      for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
        const float* of_row = x + row * length;
        const float largest = team.exponentials(of_row).shift;
        const double sum = team.sum([=](std::int64_t i) { return largest - of_row[i]; });
        if (team.lane() == 0) sums[static_cast<std::size_t>(row)] = sum;
      }
    };
    emulate_blocks(shape, body, 1);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const float *begin = x + row * length, *end = begin + length;
      const double largest = *std::max_element(begin, end);
      EXPECT_EQ(sums[static_cast<std::size_t>(row)],
                largest * static_cast<double>(length) - std::accumulate(begin, end, 0.0));
    }
  }
}

TEST(BlockReduce, GivesAllThreadsOneSumWhateverTheOrder) {
  std::vector<double> terms(256), sums(256);
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = 1.0 / static_cast<double>(i * i + 3);
  double first = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    emulate_blocks(
        {.blocks = 1, .threads = 256, .shared_bytes = gpu::reduce_bytes<double>()},
        [&](HostThread& thread) {
          const auto i = static_cast<std::size_t>(thread.index());
          sums[i] = gpu::block_reduce(thread, terms[i], 0, gpu::Sum());
        },
        seed);
    if (seed == 0) first = sums[0];
    EXPECT_THAT(sums, testing::Each(first));
  }
  const double wanted = std::accumulate(terms.begin(), terms.end(), 0.0);
  EXPECT_NEAR(first, wanted, 4 * std::numeric_limits<double>::epsilon() * wanted);
}

}  // namespace
}  // namespace sectionflow
