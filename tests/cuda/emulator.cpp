// What the emulator of GPU kernels catches, so that a kernel which passes on it is known to be free of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/block_reduce.h"
#include "tests/support/gpu_blocks.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using gpu::HostThread;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr gpu::LaunchShape kOneBlock{.blocks = 1, .threads = 64, .shared_bytes = 1024};

void expect_caught(const gpu::LaunchShape& shape, const std::function<void(HostThread&)>& body, const char* what) {
  EXPECT_THAT([&] { play_blocks(shape, body, 1); }, ThrowsMessage<InternalError>(HasSubstr(what)));
}

TEST(Emulator, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(5 * 64, 0);
  play_blocks(
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
    play_blocks(kOneBlock, body, seed);
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

TEST(Emulator, LaunchesThatNoGpuTakesAreCaught) {
  const auto nothing = [](HostThread&) {};
  expect_caught({.blocks = 1, .threads = 48}, nothing, "48 threads a block");
  expect_caught({.blocks = 1, .threads = 2048}, nothing, "2048 threads a block");
  expect_caught({.blocks = 1, .threads = 32, .shared_bytes = 50000}, nothing, "50000 bytes of shared memory");
}

TEST(BlockReduce, GivesAllThreadsOneSumWhateverTheOrder) {
  std::vector<double> terms(256), sums(256);
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = 1.0 / static_cast<double>(i * i + 3);
  double first = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    play_blocks(
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
