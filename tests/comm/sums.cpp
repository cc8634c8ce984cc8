// Sums over ranks are those of a plain loop in rank order, bit for bit.

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <limits>

#include "tests/comm/rank_threads.h"

namespace sectionflow::comm_tests {
namespace {

constexpr float kGuard = 12345.0F;

std::vector<float> workspace_for(std::int64_t elements, int ranks) {
  const std::size_t bytes = Communicator::reduce_workspace(elements, ranks);
  EXPECT_EQ(bytes % sizeof(float), 0U);
  // One more, which nobody may touch.
  return std::vector<float>(bytes / sizeof(float) + 1, kGuard);
}

enum class Place { apart, on_x, on_start };

/// All sums of one seed: onto a start or not, the result apart, on x or on the start; whole, and by chunks.
void expect_exact_sums(Communicator& communicator, std::uint64_t seed, std::int64_t elements) {
  const int ranks = communicator.size();
  const std::vector<float> x = random_floats(seed, communicator.rank(), elements);
  const std::vector<float> start = random_floats(seed, 999, elements);
  for (const bool has_start : {false, true}) {
    const std::vector<float> wanted = plain_sum(seed, ranks, elements, has_start ? start.data() : nullptr);
    for (const Place place : {Place::apart, Place::on_x, Place::on_start}) {
      if (place == Place::on_start && !has_start) continue;
      std::vector<float> mine = x, onto = start, apart(x.size());
      std::vector<float> workspace = workspace_for(elements, ranks);
      std::vector<float>& sum = place == Place::apart ? apart : place == Place::on_x ? mine : onto;
      communicator.all_reduce_sum(mine.data(), has_start ? onto.data() : nullptr, sum.data(), elements,
                                  workspace.data());
      ASSERT_TRUE(same_bytes(sum, wanted)) << "rank " << communicator.rank() << " of " << ranks << ", seed " << seed;
      ASSERT_EQ(workspace.back(), kGuard);
    }
    const Chunk chunk = chunk_of(elements, communicator.rank(), ranks);
    const std::vector<float> wanted_chunk(wanted.begin() + chunk.begin, wanted.begin() + chunk.end);
    std::vector<float> mine = x, workspace = workspace_for(elements, ranks), apart(wanted_chunk.size());
    communicator.reduce_scatter_sum(mine.data(), has_start ? start.data() : nullptr, apart.data(), elements,
                                    workspace.data());
    ASSERT_TRUE(same_bytes(apart, wanted_chunk)) << "rank " << communicator.rank() << " of " << ranks;
    ASSERT_EQ(mine, x);
    communicator.reduce_scatter_sum(mine.data(), has_start ? start.data() : nullptr, mine.data() + chunk.begin,
                                    elements, workspace.data());
    ASSERT_TRUE(std::equal(wanted_chunk.begin(), wanted_chunk.end(), mine.begin() + chunk.begin));
  }
}

TEST(RankSums, AreThoseOfAPlainLoopInRankOrderForAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
      SplitMix random(static_cast<std::uint64_t>(ranks));
      for (int trial = 0; trial < 8; ++trial) {
        const std::uint64_t seed = random.next() % 100000;
        expect_exact_sums(communicator, seed, random.below(3000));
      }
      // Fewer elements than ranks, none, and the borders of chunks.
      for (const std::int64_t elements : {0, 1, ranks - 1, 15, 16, 17, 16 * ranks, 16 * ranks + 1}) {
        expect_exact_sums(communicator, 7, elements);
      }
    });
    EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks))) << ranks;
  }
}

TEST(RankSums, OfChunksOfManyMessagesAreExactToo) {
  for (const int ranks : {1, 2, 3}) {
    // A message is 65536 elements.
    for (const std::int64_t elements : {65536 * ranks, 65536 * ranks * 3 + 5, 65536 * ranks * 4}) {
      const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
        expect_exact_sums(communicator, static_cast<std::uint64_t>(elements), elements);
      });
      EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks)));
    }
  }
}

TEST(RankSums, OverASlowLinkAreExactToo) {
  const CommunicatorOptions slow = {.link_bytes_per_second = 50e6, .link_latency = std::chrono::microseconds(100)};
  const Ends ends = run_ranks(3, slow, [](Communicator& communicator) { expect_exact_sums(communicator, 3, 70000); });
  EXPECT_EQ(ends, Ends(3));
}

TEST(RankSums, OfIntegersWrapAround) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Ends ends = run_ranks(3, [&](Communicator& communicator) {
    constexpr std::int64_t kElements = 100;
    std::vector<std::int64_t> x(kElements, most - communicator.rank()), sum(kElements), start(kElements, 5);
    std::vector<std::byte> workspace(Communicator::reduce_workspace(kElements, 3, Dtype::i64));
    communicator.all_reduce_sum(x.data(), start.data(), sum.data(), kElements, workspace.data());
    const auto wanted = static_cast<std::int64_t>(3 * static_cast<std::uint64_t>(most) - 3 + 5);
    EXPECT_EQ(sum, std::vector<std::int64_t>(kElements, wanted));
  });
  EXPECT_EQ(ends, Ends(3));
}

TEST(RankSums, TakeDenormalNumbersForZeroAsKernelsDoWhateverTheThreadIsSetTo) {
  const float denormal = std::numeric_limits<float>::denorm_min() * 1000;
  const Ends ends = run_ranks(2, [&](Communicator& communicator) {
    const unsigned before = _mm_getcsr();
    std::vector<float> x(40, denormal), sum(40, kGuard), workspace = workspace_for(40, 2);
    communicator.all_reduce_sum(x.data(), nullptr, sum.data(), 40, workspace.data());
    for (const float value : sum) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0U);
    EXPECT_EQ(_mm_getcsr() & 0x8040U, before & 0x8040U);
  });
  EXPECT_EQ(ends, Ends(2));
}

TEST(RankSums, NeedWorkspaceOfABoundedSize) {
  EXPECT_EQ(Communicator::reduce_workspace(1 << 20, 1), 0U);
  EXPECT_EQ(Communicator::reduce_workspace(0, 4), 0U);
  EXPECT_EQ(Communicator::reduce_workspace(100, 2), 64U * sizeof(float));
  EXPECT_EQ(Communicator::reduce_workspace(1 << 30, 5), 4U * 512 * 1024);
  EXPECT_EQ(Communicator::reduce_workspace(100, 2, Dtype::i64), 64U * sizeof(std::int64_t));
}

TEST(Chunks, CoverAllElementsInOrderAndEndAtMultiplesOfSixteen) {
  SplitMix random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    const int ranks = 1 + random.below(40);
    const std::int64_t elements = trial < 100 ? trial : random.below(100000);
    std::int64_t end = 0, longest = chunk_of(elements, 0, ranks).end;
    for (int rank = 0; rank < ranks; ++rank) {
      const Chunk chunk = chunk_of(elements, rank, ranks);
      ASSERT_EQ(chunk.begin, end);
      ASSERT_GE(chunk.end, chunk.begin);
      ASSERT_LE(chunk.end - chunk.begin, longest);
      ASSERT_TRUE(chunk.end % 16 == 0 || chunk.end == elements);
      end = chunk.end;
    }
    ASSERT_EQ(end, elements);
  }
}

}  // namespace
}  // namespace sectionflow::comm_tests
