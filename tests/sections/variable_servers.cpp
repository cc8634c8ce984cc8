// Ranks whose variables are at a server, or are copies of a master copy, have the bits of ranks that hold them whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autodiff/updates.h"
#include "base/bytes.h"
#include "fit/fit_budget.h"
#include "fit/insert_swaps.h"
#include "runtime/engine.h"
#include "tests/sections/held_variables.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class RanksWithServersOrCopies : public ::testing::TestWithParam<std::pair<int, Held>> {};

TEST_P(RanksWithServersOrCopies, HaveTheBitsOfOneProcessByEveryStrategy) {
  const auto& [ranks, held] = GetParam();
  for (const How how : {How::whole, How::sections, How::halves, How::mixed}) {
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(ranks, 1, held), how, {.steps = 2}), "") << name_of(how);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, RanksWithServersOrCopies,
                         ::testing::Values(std::pair(2, Held(kServer)), std::pair(3, Held(kServer, 1)),
                                           std::pair(2, Held(kCopies)), std::pair(3, Held(kCopies, 2))));

TEST(DistributedReplicated, WhereItIsPlannedHasTheBitsOfOneProcess) {
  for (const Held& held : {Held(kCopies), Held(kCopies, 1)}) {
    const RankedCase ranked = full_sharded_case(2, 1, held);
    TrainOptions swaps{.steps = 2};
    swaps.session.device_memory = 400_KiB;
    swaps.on_session = [](How, const Graph&, Session& session) { insert_swaps(session); };
    EXPECT_EQ(first_difference_of_ranks(ranked, How::whole, swaps), "") << held.text();
    TrainOptions fitted = swaps;
    fitted.on_session = [](How, const Graph&, Session& session) {
      (void)fit_budget(session, {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e9}, .effort = 20'000});
    };
    for (const How how : {How::whole, How::sections}) {
      EXPECT_EQ(first_difference_of_ranks(ranked, how, fitted), "") << held.text();
    }
  }
}

struct RankBytes {
  std::size_t persistent = 0, peak = 0;
};

/// Of each rank of a WideNet, behind a cycle, whose measured peaks are the planned ones.
std::vector<RankBytes> bytes_of_ranks(int ranks, const Held& held) {
  std::vector<RankBytes> bytes(static_cast<std::size_t>(ranks));
  const auto thrown = on_ranks(ranks, [&](std::shared_ptr<Communicator> communicator) {
    WideNet net(ranks, held.in({}));
    Session session(net.graph, one_thread(communicator));
    const ProgramReport report = net.manager.plan(session, {net.loss}, {{net.images, Shape{2, WideNet::kWidth}}});
    session.set_measuring(true);
    session.initialize();
    HostTensor batch;
    for (int cycle = 0; cycle < 2; ++cycle) {
      (void)net.manager.run_full_cycle(session, {net.loss}, net.feeds(batch, communicator->rank()));
    }
    EXPECT_EQ(session.statistics().measured_peak_bytes, report.planned_peak_bytes) << communicator->rank();
    bytes[static_cast<std::size_t>(communicator->rank())] = {report.persistent_bytes, report.planned_peak_bytes};
  });
  EXPECT_THAT(thrown, Each(""));
  return bytes;
}

TEST(ParameterServer, HasAllOfTheVariablesAndTheOtherRanksHaveNone) {
  const std::vector<RankBytes> bytes = bytes_of_ranks(3, {kServer, 1});
  const std::size_t variables = 3 * WideNet::kLayers * WideNet::kLayerBytes;  // with Adam's slots
  EXPECT_GE(bytes[1].persistent, variables);
  EXPECT_LE(bytes[1].persistent, variables + WideNet::kLayerBytes);
  for (const int other : {0, 2}) {
    EXPECT_LT(bytes[static_cast<std::size_t>(other)].persistent, 4_KiB);
    // Parameters of two sections and gradients of two, and what the layers compute.
    EXPECT_LE(bytes[static_cast<std::size_t>(other)].peak, 4 * WideNet::kLayerBytes + 128_KiB);
  }
}

TEST(DistributedReplicated, EveryRankHasACopyAndItsShardOfTheMasterCopyAndTheSlots) {
  const std::size_t parameters = WideNet::kLayers * WideNet::kLayerBytes;
  for (const RankBytes& bytes : bytes_of_ranks(2, kCopies)) {
    EXPECT_GE(bytes.persistent, parameters + 3 * parameters / 2);
    EXPECT_LE(bytes.persistent, parameters + 3 * parameters / 2 + WideNet::kLayerBytes);
  }
  const std::vector<RankBytes> at_server = bytes_of_ranks(2, {kCopies, 0});
  EXPECT_GE(at_server[0].persistent, 4 * parameters);
  EXPECT_LE(at_server[1].persistent, parameters + WideNet::kLayerBytes);
}

TEST(DistributedReplicated, EvaluatesWithoutTheOthers) {
  const auto thrown = on_ranks(2, [&](std::shared_ptr<Communicator> communicator) {
    WideNet net(2, {.distribution = kCopies});
    Session session(net.graph, one_thread(communicator));
    session.initialize();
    HostTensor batch;
    if (communicator->rank() == 1) (void)session.run({net.loss}, net.feeds(batch, 0));
    (void)net.manager.run_full_cycle(session, {net.loss}, net.feeds(batch, communicator->rank()));
    if (communicator->rank() == 0) (void)session.read(net.graph.values(kTrainableVariables)[0]);
  });
  EXPECT_THAT(thrown, Each(""));
}

TEST(Servers, AndDistributionsThatCannotBeAreRefused) {
  const auto refusal = [](const Held& held) -> std::string {
    try {
      WideNet net(2, held.in({}));
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({kServer, 2}), AllOf(HasSubstr("SF-E036"), HasSubstr("server is 2; wanted a rank, 0 to 1")));
  EXPECT_THAT(refusal({kCopies, -1}), AllOf(HasSubstr("SF-E036"), HasSubstr("server is -1")));
  for (const auto distribution : {kReplicated, kSharded}) {
    EXPECT_THAT(refusal({distribution, 0}), AllOf(HasSubstr("SF-E036"), HasSubstr("has none")));
  }
  EXPECT_THAT(refusal(static_cast<VariableDistribution>(7)),
              AllOf(HasSubstr("SF-E036"), HasSubstr("none of its values")));
  // A second update of the graph.
  for (const auto& [first, second] : {std::pair<Held, Held>{kServer, kSharded},
                                      {{kServer, 0}, {kServer, 1}},
                                      {kCopies, kSharded},
                                      {kReplicated, kCopies}}) {
    WideNet net(2, first.in({.average = WeightAverageOptions{}}));
    UpdateOptions options{.ranks = 2, .distribution = second.distribution, .server = second.server};
    EXPECT_THROW((void)training_updates(Sgd{}, net.loss, options), ArgumentError) << first.text();
  }
}

TEST(DistributedReplicated, CopiesAreSetByTheirMasterCopyAlone) {
  const auto thrown = on_ranks(2, [](std::shared_ptr<Communicator> communicator) {
    WideNet net(2, {.distribution = kCopies});
    Session session(net.graph, one_thread(communicator));
    session.initialize();
    const Value variable = net.graph.values(kTrainableVariables)[0];
    session.run({}, {.targets = {assign_add(variable, variable)}});
  });
  EXPECT_THAT(thrown, Each(AllOf(HasSubstr("SF-E036"), HasSubstr("is a copy"))));
}

}  // namespace
}  // namespace sectionflow::testing
