// Ranks that hold their variables in shards, at a server or as copies have the bits of ranks that hold them whole.

#include "graph/variable_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "fit/fit_budget.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "tests/sections/held_variables.h"
#include "train/checkpoint.h"
#include "train/checkpoints.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class ShardedRanks : public ::testing::TestWithParam<int> {};

TEST_P(ShardedRanks, HaveTheBitsOfOneProcessByEveryStrategy) {
  for (const How how : {How::whole, How::sections, How::halves, How::mixed}) {
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(GetParam()), how, {.steps = 3}), "") << name_of(how);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, ShardedRanks, ::testing::Values(1, 2, 3, 4));

TEST(Sharded, OfSeveralMicroBatchesARankHasTheBitsOfOneProcess) {
  for (const Held& held : {Held(kSharded), Held(kServer, 1), Held(kCopies), Held(kCopies, 0)}) {
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(2, 3, held), How::whole, {.steps = 2}), "") << held.text();
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(3, 2, held), How::sections, {.steps = 2}), "") << held.text();
  }
}

TEST(Sharded, ByEveryOptimizerOfElementsHasTheBitsOfOneProcess) {
  const std::vector<Optimizer> optimizers = {
      Sgd{.learning_rate = 0.1F},  Momentum{.learning_rate = 0.1F}, Adagrad{}, RmsProp{}, AdamW{},
      Lion{.learning_rate = 1e-3F}};
  for (const Optimizer& optimizer : optimizers) {
    for (const Held& held : {Held(kSharded), Held(kServer), Held(kCopies)}) {
      const RankedCase ranked = sharded_case(2, 1, optimizer, {}, held);
      EXPECT_EQ(first_difference_of_ranks(ranked, How::sections, {.steps = 2}), "")
          << optimizer.index() << ", " << held.text();
    }
  }
}

TEST(Sharded, RanksMayKeepTheirTensorsWhereTheyLike) {
  const auto options_of = [](int rank, TrainOptions& options) {
    options.session.copy_threads = rank == 0;
    options.session.swap_variables = rank == 1;
    options.poison = rank == 2;
    const InteriorPolicy interiors[] = {InteriorPolicy::swap, InteriorPolicy::recompute, InteriorPolicy::keep};
    const auto borders = rank == 1 ? BorderPolicy::host : BorderPolicy::automatic;
    options.sections = SectionOptions{.borders = borders, .interior = interiors[rank]};
    options.session.random_delays = rank == 0 ? 5 : 0;
  };
  for (const Held& held : {Held(kSharded), Held(kServer, 1), Held(kCopies), Held(kCopies, 1)}) {
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(3, 1, held), How::sections, {.steps = 2}, options_of), "")
        << held.text();
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(3, 2, held), How::halves, {.steps = 2}, options_of), "")
        << held.text();
  }
}

class RandomShards : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomShards, HaveTheBitsOfOneProcess) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + 8; ++seed) {
    TrainingSpec spec = spec_of_ranks(seed);
    const bool needs_all =
        spec.optimizer == "lamb" || spec.optimizer.find("ada") == 0 || spec.optimizer.find('8') != std::string::npos;
    if (needs_all) spec.optimizer = "sgd";
    const auto case_of = [spec](int ranks, int micro_batches) {
      TrainingSpec own = spec;
      own.ranks = ranks;
      const Held held[] = {kSharded, kServer, kCopies, {kCopies, ranks - 1}};
      const Held& chosen = held[spec.layers.size() % 4];
      if (ranks > 1) own.distribution = chosen.distribution;
      if (ranks > 1) own.server = chosen.server;
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
INSTANTIATE_TEST_SUITE_P(Seeds, RandomShards, ::testing::Range<std::uint64_t>(1, 17, 8), first_of);
// Of the label `long` (tests/CMakeLists.txt).
INSTANTIATE_TEST_SUITE_P(MoreSeeds, RandomShards, ::testing::Range<std::uint64_t>(101, 301, 8), first_of);

// ---- What it is for.

TEST(Sharded, VariablesHaveTheNamesAndTypesOfReplicatedOnes) {
  std::map<std::string, std::string> types[4];
  const Held all[] = {kReplicated, kSharded, kServer, kCopies};
  for (int i = 0; i < 4; ++i) {
    WideNet net(2, all[i].in({.micro_batches = 2, .average = WeightAverageOptions{}}));
    for (const Value& variable : net.graph.values(kVariables)) types[i][variable.name()] = whole_type(variable).text();
  }
  for (int i = 1; i < 4; ++i) EXPECT_EQ(types[i], types[0]) << all[i].text();
}

class ShardedMemory : public ::testing::TestWithParam<int> {};

TEST_P(ShardedMemory, IsThePlannedOneAndAnNthOfAllBesideTwoSections) {
  const int ranks = GetParam();
  std::size_t replicated_bytes = 0;
  {
    WideNet net(ranks);
    Session session(net.graph, one_thread());
    replicated_bytes =
        net.manager.plan(session, {net.loss}, {{net.images, Shape{2, WideNet::kWidth}}}).persistent_bytes;
  }
  const auto thrown = on_ranks(ranks, [&](std::shared_ptr<Communicator> communicator) {
    WideNet net(ranks, {.distribution = VariableDistribution::sharded});
    Session session(net.graph, one_thread(communicator));
    const ProgramReport report = net.manager.plan(session, {net.loss}, {{net.images, Shape{2, WideNet::kWidth}}});
    session.set_measuring(true);
    session.initialize();
    HostTensor batch;
    (void)net.manager.run_full_cycle(session, {net.loss}, net.feeds(batch, communicator->rank()));
    EXPECT_EQ(session.statistics().measured_peak_bytes, session.statistics().planned_peak_bytes);
    EXPECT_EQ(session.statistics().planned_peak_bytes, report.planned_peak_bytes);
    const auto share = replicated_bytes / static_cast<std::size_t>(ranks);
    EXPECT_LE(report.persistent_bytes, share + 2 * WideNet::kLayerBytes);
    // Parameters of two sections, gradients of two, scratch of sums, and what the layers compute.
    EXPECT_LE(report.planned_peak_bytes,
              report.persistent_bytes + 4 * WideNet::kLayerBytes + 512_KiB * static_cast<std::size_t>(ranks) + 128_KiB);
    EXPECT_LT(report.planned_peak_bytes, replicated_bytes);
  });
  EXPECT_THAT(thrown, Each(""));
}
INSTANTIATE_TEST_SUITE_P(Of, ShardedMemory, ::testing::Values(2, 3));

TEST(Sharded, CheckpointsLoadUnderAnyDistributionAndNumberOfRanks) {
  const std::string path = ::testing::TempDir() + "/sharded.safetensors";
  const auto load = [&](Session& session) { (void)load_variables(session, path); };
  const auto save = [&](Session& session) { save_variables(session, path); };
  const Variables saved = trained(3, kSharded, 2, {}, save);
  expect_same(saved, trained(3, kReplicated, 2, {}));
  for (const int ranks : {1, 2, 3}) {
    expect_same(saved, trained(ranks, kSharded, 0, load));
    expect_same(saved, trained(ranks, kReplicated, 0, load));
  }
  const Variables further = trained(2, kReplicated, 2, load);
  const auto write = [&](Session& session) {
    for (const auto& [name, tensor] : saved) session.write(session.graph().find(name).output(), tensor);
    session.set_completed_cycles(2);
  };
  for (const Held& held : {Held(kSharded), Held(kServer, 1), Held(kCopies), Held(kCopies, 0)}) {
    expect_same(further, trained(2, held, 2, load));
    expect_same(further, trained(2, held, 2, write));
    // The files of each are those of any.
    expect_same(saved, trained(3, held, 2, {}, save));
    expect_same(saved, trained(2, kReplicated, 0, load));
  }
}

// ---- What is refused.

TEST(Sharded, OptimizersThatNeedAllOfAVariableAreRefused) {
  for (const Optimizer& optimizer :
       {Optimizer(Lamb{}), Optimizer(Adafactor{}), Optimizer(Adam{.slots = SlotStorage::eight_bit})}) {
    try {
      WideNet net(2, {.distribution = optimizer.index() == 0 ? kServer : kSharded}, optimizer);
      ADD_FAILURE() << optimizer.index();
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E036"), HasSubstr("shards"), HasSubstr("replicated")));
    }
  }
}

TEST(Sharded, WhatDoesNotFitIsNotPlannedToBeComputedAgain) {
  const auto peak_within = [](std::size_t device_memory, InteriorPolicy interior) {
    WideNet net(2, {.distribution = VariableDistribution::sharded, .sections = {.interior = interior}});
    SessionOptions options = one_thread();
    options.device_memory = device_memory;
    Session session(net.graph, options);
    if (interior == InteriorPolicy::recompute) fit_budget(session);
    return net.manager.plan(session, {net.loss}, {{net.images, Shape{2, WideNet::kWidth}}}).planned_peak_bytes;
  };
  for (const InteriorPolicy interior : {InteriorPolicy::recompute, InteriorPolicy::automatic}) {
    const std::size_t as_it_is = peak_within(64_MiB, interior);
    EXPECT_EQ(peak_within(as_it_is, interior), as_it_is);
    try {
      (void)peak_within(as_it_is - 64, interior);
      ADD_FAILURE();
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E036"), HasSubstr("in shards"), HasSubstr("replicated")));
    }
  }
}

TEST(Sharded, RanksThatReadVariablesInOtherOrdersAllThrow) {
  const auto thrown = on_ranks(2, [](std::shared_ptr<Communicator> communicator) {
    WideNet net(2, {.distribution = VariableDistribution::sharded});
    Session session(net.graph, one_thread(communicator));
    session.initialize();
    // Of one type each.
    const std::vector<Value> all = net.graph.values(kTrainableVariables);
    (void)session.read(all[communicator->rank() == 0 ? 0 : 2]);
  });
  EXPECT_THAT(thrown, Each(HasSubstr("SF-E511")));
}

TEST(Sharded, FoldersOfCheckpointsAreRefused) {
  const auto thrown = on_ranks(2, [](std::shared_ptr<Communicator> communicator) {
    WideNet net(2, {.distribution = VariableDistribution::sharded});
    Session session(net.graph, one_thread(communicator));
    session.initialize();
    (void)Checkpoints(::testing::TempDir() + "/of_shards").save(session, {.step = 1});
  });
  EXPECT_THAT(thrown, Each(AllOf(HasSubstr("SF-E036"), HasSubstr("save_variables"))));
}

TEST(Sharded, SessionsWithoutTheirRanksAreRefusedAndVariablesAreUpdatedByTrainingAlone) {
  WideNet net(2, {.distribution = VariableDistribution::sharded});
  Session session(net.graph, one_thread());
  EXPECT_THROW(session.initialize(), ArgumentError);
  const Value variable = net.graph.values(kTrainableVariables)[0];
  const Operation doubled = assign_add(variable, variable);
  try {
    (void)session.plan({}, {}, {.targets = {doubled}});
    ADD_FAILURE();
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E036"), HasSubstr("in shards")));
  }
}

}  // namespace
}  // namespace sectionflow::testing
