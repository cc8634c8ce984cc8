// Ranks that train together have the bits of one process that takes their batches as micro-batches, by every strategy.

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "fit/fit_budget.h"
#include "fit/insert_swaps.h"
#include "swap/lms.h"
#include "tests/sections/ranked_net.h"

namespace sectionflow::testing {
namespace {

class DataParallelRanks : public ::testing::TestWithParam<int> {};

TEST_P(DataParallelRanks, HasTheBitsOfOneProcessByEveryStrategy) {
  for (const How how : {How::whole, How::sections, How::halves, How::mixed}) {
    EXPECT_EQ(first_difference_of_ranks(full_case(GetParam()), how, {.steps = 4}), "") << name_of(how);
  }
}

TEST_P(DataParallelRanks, HasTheBitsOfOneProcessOverTenUpdates) {
  const RankedCase ranked = ranked_case(GetParam(), 1, AdamW{.learning_rate = 1e-2F, .weight_decay = 0.1F}, {});
  EXPECT_EQ(first_difference_of_ranks(ranked, How::sections, {.steps = 10}), "");
}

INSTANTIATE_TEST_SUITE_P(Of, DataParallelRanks, ::testing::Values(1, 2, 3, 4));

TEST(DataParallel, OfSeveralMicroBatchesARankHasTheBitsOfOneProcess) {
  for (const How how : {How::whole, How::sections}) {
    EXPECT_EQ(first_difference_of_ranks(full_case(2, 3), how, {.steps = 3}), "") << name_of(how);
    EXPECT_EQ(first_difference_of_ranks(full_case(3, 2), how, {.steps = 3}), "") << name_of(how);
  }
}

TEST(DataParallel, RanksMayKeepTheirTensorsWhereTheyLike) {
  const auto options_of = [](int rank, TrainOptions& options) {
    options.session.copy_threads = rank == 0;
    options.session.swap_variables = rank == 1;
    options.poison = rank == 2;
    const auto borders = rank == 1 ? BorderPolicy::host : BorderPolicy::automatic;
    options.sections =
        SectionOptions{.borders = borders, .interior = rank == 0 ? InteriorPolicy::swap : InteriorPolicy::recompute};
    options.session.random_delays = rank == 0 ? 5 : 0;
  };
  EXPECT_EQ(first_difference_of_ranks(full_case(3), How::sections, {.steps = 3}, options_of), "");
  EXPECT_EQ(first_difference_of_ranks(full_case(3, 2), How::halves, {.steps = 2}, options_of), "");
}

TEST(DataParallel, InTheSmallestBudgetHasTheBitsOfOneProcess) {
  // The smallest budget is that of a plan, which needs no other rank.
  std::size_t smallest = 0;
  {
    Accumulating training(TrainingOptions{.ranks = 2}, Adam{.learning_rate = 1e-2F}, {.threads = 1, .seed = 7});
    FeedStore store;
    const ProgramReport report =
        training.manager.plan(*training.session, {training.net.loss}, types_of(training.net.feeds()(0, store)));
    smallest = report.planned_peak_bytes;
  }
  const RankedCase ranked = ranked_case(2, 1, Adam{.learning_rate = 1e-2F}, {});
  for (const std::size_t budget : {smallest, smallest * 7 / 8}) {
    TrainOptions options{.steps = 3};
    options.session.device_memory = budget;
    options.session.copy_threads = true;
    EXPECT_EQ(first_difference_of_ranks(ranked, How::sections, options), "") << budget;
  }
}

TEST(DataParallel, WhereTheWholeGraphIsPlannedHasTheBitsOfOneProcess) {
  TrainOptions swaps{.steps = 3};
  swaps.session.device_memory = 400_KiB;
  swaps.on_session = [](How, const Graph&, Session& session) { insert_swaps(session); };
  EXPECT_EQ(first_difference_of_ranks(full_case(2), How::whole, swaps), "");
  TrainOptions fitted = swaps;
  fitted.on_session = [](How, const Graph&, Session& session) {
    (void)fit_budget(session, {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e9}, .effort = 20'000});
  };
  EXPECT_EQ(first_difference_of_ranks(full_case(2), How::whole, fitted), "");
  const LmsOptions lms{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1};
  const RankedCase edited = ranked_case(2, 1, Adam{.learning_rate = 1e-2F}, all_options(1), &lms);
  EXPECT_EQ(first_difference_of_ranks(edited, How::whole, {.steps = 3}), "");
}

// ---- Random models with random cuts.

class RandomRanks : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomRanks, HaveTheBitsOfOneProcess) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + 10; ++seed) {
    const TrainingSpec spec = spec_of_ranks(seed);
    const auto case_of = [spec](int ranks, int micro_batches) {
      TrainingSpec own = spec;
      own.ranks = ranks;
      own.micro_batches = micro_batches;
      return training_case(own);
    };
    const RankedCase ranked{case_of, 2 + static_cast<int>(seed % 2), spec.micro_batches};
    TrainOptions options = train_options(spec);
    options.steps = 2;
    options.budget = -1;
    const How how = seed % 3 == 0 ? How::whole : seed % 3 == 1 ? How::sections : How::halves;
    EXPECT_EQ(first_difference_of_ranks(ranked, how, options), "") << name_of(how) << "\n" << listing(spec);
  }
}
std::string first_of(const ::testing::TestParamInfo<std::uint64_t>& info) {
  return "From" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomRanks, ::testing::Range<std::uint64_t>(1, 31, 10), first_of);
// Of the label `long` (tests/CMakeLists.txt).
INSTANTIATE_TEST_SUITE_P(MoreSeeds, RandomRanks, ::testing::Range<std::uint64_t>(31, 301, 10), first_of);

TEST(ManyUpdatesOfRanks, HaveTheBitsOfOneProcess) {
  for (const int ranks : {2, 3, 4}) {
    for (const How how : {How::whole, How::mixed}) {
      EXPECT_EQ(first_difference_of_ranks(full_case(ranks), how, {.steps = 50}), "") << ranks << ", " << name_of(how);
    }
  }
}

}  // namespace
}  // namespace sectionflow::testing
