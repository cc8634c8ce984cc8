// Shards of what ranks have in common: sums of them are those of a plain loop, and together they are the whole.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/comm/rank_threads.h"

namespace sectionflow::comm_tests {
namespace {

/// The elements of a rank's shard.
Chunk own_shard(const Communicator& communicator, std::int64_t elements, std::int64_t shard) {
  const std::int64_t begin = std::min(elements, communicator.rank() * shard);
  return {begin, std::min(elements, begin + shard)};
}

TEST(RankShards, OfAnyLengthHaveTheSumsOfAPlainLoopAndGiveBackTheWhole) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
      SplitMix random(static_cast<std::uint64_t>(ranks) + 70);
      for (int trial = 0; trial < 8; ++trial) {
        const std::uint64_t seed = random.next() % 100000;
        const auto elements = static_cast<std::int64_t>(random.below(trial < 4 ? 40 : 90000));
        const std::int64_t least = (elements + ranks - 1) / ranks;
        const std::int64_t shard = std::min(elements, least + static_cast<std::int64_t>(random.below(3000)));
        const Chunk own = own_shard(communicator, elements, shard);
        const std::vector<float> x = random_floats(seed, communicator.rank(), elements);
        const std::vector<float> start = random_floats(seed, 999, elements);
        std::vector<float> workspace(Communicator::reduce_workspace(shard * ranks, ranks) / sizeof(float));
        for (const bool has_start : {false, true}) {
          const std::vector<float> wanted = plain_sum(seed, ranks, elements, has_start ? start.data() : nullptr);
          // With room where there is no element: a start is none on all ranks, or on none.
          std::vector<float> sum(static_cast<std::size_t>(shard) + 1), all(x.size());
          std::copy(start.begin() + own.begin, start.begin() + own.end, sum.begin());
          communicator.reduce_scatter_shards(x.data(), has_start ? sum.data() : nullptr, sum.data(), elements, shard,
                                             workspace.data());
          ASSERT_TRUE(std::equal(wanted.begin() + own.begin, wanted.begin() + own.end, sum.begin())) << "seed " << seed;
          communicator.all_gather_shards(std::as_bytes(std::span(sum)), std::as_writable_bytes(std::span(all)),
                                         static_cast<std::size_t>(shard) * sizeof(float));
          ASSERT_TRUE(same_bytes(all, wanted)) << "seed " << seed;
        }
      }
    });
    for (const std::string& end : ends) EXPECT_EQ(end, "") << ranks << " ranks";
  }
}

TEST(RankShards, ThatOneRankHasAllOfAreTheSumsOfAPlainLoop) {
  for (const int ranks : {1, 2, 3, 5}) {
    const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
      for (int trial = 0; trial < 6; ++trial) {
        const auto seed = static_cast<std::uint64_t>(300 + trial);
        const int root = trial % ranks;
        const bool is_root = communicator.rank() == root, has_start = trial % 2 == 0;
        const std::int64_t elements = trial == 0 ? 0 : trial == 1 ? 7 : 40000 * trial;
        const std::vector<float> x = random_floats(seed, communicator.rank(), elements);
        const std::vector<float> start = random_floats(seed, 999, elements);
        const std::vector<float> wanted = plain_sum(seed, ranks, elements, has_start ? start.data() : nullptr);
        std::vector<float> sum(start),
            workspace(is_root ? Communicator::reduce_workspace(elements * ranks, ranks) / sizeof(float) : 0);
        communicator.reduce_sum(x.data(), has_start ? sum.data() : nullptr, sum.data(), elements, root,
                                workspace.data());
        ASSERT_TRUE(same_bytes(sum, is_root ? wanted : start)) << "trial " << trial;
      }
      EXPECT_THROW(communicator.reduce_sum(nullptr, nullptr, nullptr, 0, ranks, nullptr), ArgumentError);
    });
    for (const std::string& end : ends) EXPECT_EQ(end, "") << ranks << " ranks";
  }
}

TEST(RankShards, ThatAreNotTheWholeAreRefusedBeforeAnythingIsSent) {
  const Ends ends = run_ranks(2, [](Communicator& communicator) {
    std::vector<float> x(10), sum(10), workspace(1000);
    EXPECT_THROW(communicator.reduce_scatter_shards(x.data(), nullptr, sum.data(), 10, 4, workspace.data()),
                 ArgumentError);
    EXPECT_THROW(communicator.reduce_scatter_shards(x.data(), nullptr, sum.data(), 10, 11, workspace.data()),
                 ArgumentError);
    EXPECT_THROW(communicator.all_gather_shards(std::as_bytes(std::span(x).first(2)),
                                                std::as_writable_bytes(std::span(sum)), 5 * sizeof(float)),
                 ArgumentError);
    communicator.barrier();
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace sectionflow::comm_tests
