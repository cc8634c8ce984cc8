// Ranks that hold their variables in shards, at a server or as copies have the bits of ranks that hold them whole.

#include "graph/variable_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fit/fit_budget.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "runtime/engine.h"
#include "tests/sections/ranked_net.h"
#include "train/checkpoint.h"
#include "train/checkpoints.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// Where variables are held.
struct Held {
  Held(VariableDistribution how, std::optional<int> at = {}) : distribution(how), server(at) {}  // NOLINT: by the first
  VariableDistribution distribution;
  std::optional<int> server;

  TrainingOptions in(TrainingOptions options) const {
    options.distribution = distribution;
    options.server = server;
    return options;
  }
};
constexpr auto kSharded = VariableDistribution::sharded;
constexpr auto kReplicated = VariableDistribution::replicated;
constexpr auto kServer = VariableDistribution::parameter_server;
constexpr auto kCopies = VariableDistribution::distributed_replicated;

std::string text_of(const Held& held) {
  return sectionflow::text_of("distribution ", static_cast<int>(held.distribution), " at ", held.server.value_or(-1));
}

RankedCase sharded_case(int ranks, int micro_batches, const Optimizer& optimizer, const TrainingOptions& options,
                        const Held& held = kSharded) {
  return ranked_case(ranks, micro_batches, optimizer, held.in(options));
}
RankedCase full_sharded_case(int ranks, int micro_batches = 1, const Held& held = kSharded) {
  return sharded_case(ranks, micro_batches, Adam{.learning_rate = 1e-2F}, all_options(1), held);
}

class ShardedRanks : public ::testing::TestWithParam<int> {};

TEST_P(ShardedRanks, HaveTheBitsOfOneProcessByEveryStrategy) {
  for (const How how : {How::whole, How::sections, How::halves, How::mixed}) {
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(GetParam()), how, {.steps = 3}), "") << name_of(how);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, ShardedRanks, ::testing::Values(1, 2, 3, 4));

void PrintTo(const Held& held, std::ostream* out) {
  *out << text_of(held);
}

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

TEST(Sharded, OfSeveralMicroBatchesARankHasTheBitsOfOneProcess) {
  for (const Held& held : {Held(kSharded), Held(kServer, 1), Held(kCopies), Held(kCopies, 0)}) {
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(2, 3, held), How::whole, {.steps = 2}), "") << text_of(held);
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(3, 2, held), How::sections, {.steps = 2}), "")
        << text_of(held);
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
          << optimizer.index() << ", " << text_of(held);
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
        << text_of(held);
    EXPECT_EQ(first_difference_of_ranks(full_sharded_case(3, 2, held), How::halves, {.steps = 2}, options_of), "")
        << text_of(held);
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

/// Layers of 512 KiB of parameters each, a section each, and a narrow head.
struct WideNet {
  explicit WideNet(int ranks, TrainingOptions options = {}, const Optimizer& optimizer = Adam{}) {
    Value x = images;
    for (int k = 0; k < kLayers; ++k) {
      auto section = manager.new_section();
      x = relu(dense(x, {.features = kWidth}));
    }
    {
      auto section = manager.new_section();
      loss = reduce_mean(square(dense(x, {.features = 4})));
    }
    options.ranks = ranks;
    manager.add_training_ops(optimizer, loss, options);
    manager.prepare_training();
  }
  Feeds feeds(HostTensor& batch, int number) const {
    batch = random_images({2, 1, 1, kWidth}, 5, number);
    batch = HostTensor::of<float>({2, kWidth},
                                  std::vector<float>(batch.values<float>().begin(), batch.values<float>().end()));
    return {{images, batch}};
  }

  static constexpr int kLayers = 6;
  static constexpr std::int64_t kWidth = 362;
  static constexpr std::size_t kLayerBytes = (kWidth * kWidth + kWidth) * sizeof(float);
  Graph graph;
  GraphSectionManager manager{graph};
  Value images = placeholder(graph, "images", {2, kWidth}), loss;
};

Variables variables_of(Session& session) {
  Variables variables;
  for (const Value& variable : session.graph().values(kVariables)) {
    variables.emplace(variable.name(), session.read(variable));
  }
  return variables;
}

SessionOptions one_thread(std::shared_ptr<Communicator> communicator = nullptr) {
  return {.threads = 1, .seed = 7, .communicator = std::move(communicator), .check_schedules = true};
}

/// Ranks that each take so many steps behind what `begin` has done; what variables there are then, of rank 0.
Variables trained(int ranks, const Held& held, int steps, const std::function<void(Session&)>& begin,
                  const std::function<void(Session&)>& end = {}) {
  std::vector<Variables> all(static_cast<std::size_t>(ranks));
  const auto thrown = on_ranks(ranks, [&](std::shared_ptr<Communicator> communicator) {
    const auto rank = communicator->rank();
    WideNet net(ranks, held.in({.clip_norm = 0.1F}));
    Session session(net.graph, one_thread(communicator));
    session.initialize();
    if (begin) begin(session);
    HostTensor batch;
    for (int step = 0; step < steps; ++step) {
      (void)net.manager.run_full_cycle(session, {net.loss}, net.feeds(batch, step));
    }
    if (end) end(session);
    all[static_cast<std::size_t>(rank)] = variables_of(session);
    communicator->barrier();
  });
  EXPECT_THAT(thrown, Each("")) << ranks;
  for (const Variables& of_rank : all) EXPECT_EQ(of_rank.size(), all[0].size());
  return std::move(all[0]);
}

void expect_same(const Variables& a, const Variables& b) {
  EXPECT_EQ(changed_names(a, b), std::vector<std::string>());
  EXPECT_EQ(a.size(), b.size());
}

TEST(Sharded, VariablesHaveTheNamesAndTypesOfReplicatedOnes) {
  std::map<std::string, std::string> types[4];
  const Held all[] = {kReplicated, kSharded, kServer, kCopies};
  for (int i = 0; i < 4; ++i) {
    WideNet net(2, all[i].in({.micro_batches = 2, .average = WeightAverageOptions{}}));
    for (const Value& variable : net.graph.values(kVariables)) types[i][variable.name()] = whole_type(variable).text();
  }
  for (int i = 1; i < 4; ++i) EXPECT_EQ(types[i], types[0]) << text_of(all[i]);
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

TEST(Sharded, ServersAndDistributionsThatCannotBeAreRefused) {
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
    EXPECT_THROW((void)training_updates(Sgd{}, net.loss, options), ArgumentError) << text_of(first);
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
