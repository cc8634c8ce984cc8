// Towers have the bits of one session that takes their parts of a batch as micro-batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "fit/fit_budget.h"
#include "fit/insert_swaps.h"
#include "tests/sections/accumulated_net.h"
#include "tests/support/ranked_training.h"
#include "tests/support/training_spec.h"
#include "train/towers.h"

namespace sectionflow::testing {
namespace {

/// What tensors are of one name, one behind the other; of a number the last.
HostTensor whole_of(const std::vector<FeedData>& parts) {
  std::vector<std::int64_t> dims = parts.front().type().shape.dims();
  if (dims.empty()) {
    HostTensor number(parts.back().type());
    std::memcpy(number.bytes(), parts.back().bytes(), number.num_bytes());
    return number;
  }
  dims[0] *= static_cast<std::int64_t>(parts.size());
  HostTensor whole(parts.front().type().dtype, Shape(dims));
  std::byte* to = whole.bytes();
  for (const FeedData& part : parts) {
    std::memcpy(to, part.bytes(), part.type().bytes());
    to += part.type().bytes();
  }
  return whole;
}

/// A training of towers, and the batches that it is fed: those of as many micro-batches of one session.
struct TowerTraining {
  explicit TowerTraining(const RankedCase& given, const SessionOptions& session, std::vector<std::size_t> budgets)
      : ranked(given), of_feeds(ranked.training_case(ranked.ranks, ranked.micro_batches).build(graph, manager)) {
    std::vector<SessionOptions> devices;
    for (int t = 0; t < ranked.ranks; ++t) {
      devices.push_back(cpu(t, session));
      devices.back().threads = 1;
      if (!budgets.empty()) devices.back().device_memory = budgets[static_cast<std::size_t>(t) % budgets.size()];
    }
    FeedStore store;
    std::vector<std::string> inputs;
    for (const Feed& feed : of_feeds.feeds(0, store)) {
      if (feed.data.type().shape.rank() > 0) inputs.push_back(feed.value.name());
    }
    towers.emplace(
        [&](Graph& of_tower, GraphSectionManager& of_sections) {
          const TrainingNet net = ranked.training_case(ranked.ranks, ranked.micro_batches).build(of_tower, of_sections);
          return TowerOutputs{{"loss", net.loss}};
        },
        devices, inputs);
  }

  Example batch(std::int64_t round) const {
    std::vector<FeedStore> stores(static_cast<std::size_t>(ranked.ranks));
    std::map<std::string, std::vector<FeedData>> parts;
    for (int t = 0; t < ranked.ranks; ++t) {
      for (const Feed& feed : of_feeds.feeds(round * ranked.ranks + t, stores[static_cast<std::size_t>(t)])) {
        parts[feed.value.name()].push_back(feed.data);
      }
    }
    Example batch;
    for (const auto& [name, of_towers] : parts) batch.emplace(name, whole_of(of_towers));
    return batch;
  }

  RankedCase ranked;
  Graph graph;
  GraphSectionManager manager{graph};
  TrainingNet of_feeds;
  std::optional<Towers> towers;
};

std::string difference_in_variables(TowerTraining& training, const std::map<std::string, HostTensor>& wanted) {
  std::vector<std::string> differences(static_cast<std::size_t>(training.towers->size()));
  // All together: of variables in shards towers read what all have.
  training.towers->on_each([&](Tower& tower) {
    std::string& first = differences[static_cast<std::size_t>(tower.number())];
    for (const Value variable : tower.graph().values(kVariables)) {
      const std::string difference = first_difference(wanted.at(variable.name()), tower.session().read(variable));
      if (!difference.empty() && first.empty())
        first = text_of("tower ", tower.number(), ": '", variable.name(), "' differs ", difference);
    }
  });
  for (const std::string& difference : differences) {
    if (!difference.empty()) return difference;
  }
  return "";
}

/// The first difference to one session, in any loss or, behind an update, any variable of any tower; "" where none is.
std::string first_difference_of_towers(TowerTraining& training, std::int64_t updates, TrainOptions options) {
  const RankedCase& ranked = training.ranked;
  options.steps = updates * ranked.ranks * ranked.micro_batches;
  options.threads = 1;
  options.budget = -1;
  const TrainingRecord one =
      record_training(ranked.training_case(1, ranked.ranks * ranked.micro_batches), How::whole, options);
  training.towers->initialize();
  std::size_t step = 0;
  for (std::int64_t round = 0; round < updates * ranked.micro_batches; ++round) {
    const Example given = training.towers->train(training.batch(round), {"loss"});
    const auto losses = given.at("loss").values<float>();
    if (losses.size() != static_cast<std::size_t>(ranked.ranks)) return "not one loss a tower";
    for (const float loss : losses) {
      const float wanted = one.steps[step++].loss.values<float>()[0];
      if (std::memcmp(&loss, &wanted, sizeof loss) != 0) return text_of("the loss of step ", step - 1, " differs");
    }
    if ((round + 1) % ranked.micro_batches != 0) continue;
    const std::string difference = difference_in_variables(training, one.steps[step - 1].variables);
    if (!difference.empty()) return text_of("behind round ", round, ": ", difference);
  }
  return "";
}

/// Dropout, batch norm, Adam, clipping, skipping, averages.
RankedCase full_case(int towers, int micro_batches = 1,
                     VariableDistribution distribution = VariableDistribution::replicated) {
  const auto case_of = [distribution](int of_ranks, int of_micro_batches) {
    return TrainingCase{"towers", [=](Graph& graph, GraphSectionManager& manager) {
                          const AccumulatedNet net(graph, manager);
                          TrainingOptions options = all_options(of_micro_batches);
                          options.ranks = of_ranks;
                          options.distribution = distribution;
                          manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss, options);
                          manager.prepare_training();
                          return TrainingNet{.loss = net.loss, .feeds = net.feeds(), .micro_batches = of_micro_batches};
                        }};
  };
  return {case_of, towers, micro_batches};
}

/// The same layers without a section.
RankedCase whole_case(int towers) {
  const auto case_of = [](int of_ranks, int of_micro_batches) {
    return TrainingCase{"towers of whole graphs", [=](Graph& graph, GraphSectionManager& manager) {
                          // Sections are what records are made by; towers have none.
                          std::optional<SectionScope> section;
                          if (of_ranks == 1) section.emplace(manager.new_section());
                          const Inputs in(graph);
                          Value x = conv_norm_relu(in.images, in.is_training, 4);
                          x = dropout(x, {.rate = 0.3F});
                          const Value loss = head_loss(x, in.labels);
                          section.reset();
                          const Adam adam{.learning_rate = 1e-2F};
                          if (of_ranks == 1) {
                            manager.add_training_ops(adam, loss,
                                                     {.clip_norm = 0.5F, .micro_batches = of_micro_batches});
                            manager.prepare_training();
                          } else {
                            (void)training_updates(
                                adam, loss, {.clip_norm = 0.5F, .micro_batches = of_micro_batches, .ranks = of_ranks});
                          }
                          return TrainingNet{.loss = loss, .feeds = in.feeds(), .micro_batches = of_micro_batches};
                        }};
  };
  return {case_of, towers, 1};
}

class TowersOf : public ::testing::TestWithParam<int> {};

TEST_P(TowersOf, SectionsHaveTheBitsOfOneSession) {
  TowerTraining training(full_case(GetParam()), {.seed = 7}, {});
  EXPECT_EQ(first_difference_of_towers(training, 4, {}), "");
  EXPECT_EQ(training.towers->completed_cycles(), 4U);
}

TEST_P(TowersOf, WholeGraphsHaveTheBitsOfOneSession) {
  TowerTraining training(whole_case(GetParam()), {.seed = 7}, {});
  EXPECT_EQ(first_difference_of_towers(training, 4, {}), "");
}

INSTANTIATE_TEST_SUITE_P(Number, TowersOf, ::testing::Values(2, 3, 4));

TEST(TowerBits, OfOneTowerAreThoseOfASession) {
  TowerTraining training(full_case(1), {.seed = 7}, {});
  EXPECT_EQ(first_difference_of_towers(training, 3, {}), "");
}

TEST(TowerBits, OfAnyDistributionAreThoseOfOneSession) {
  for (const auto distribution : {VariableDistribution::sharded, VariableDistribution::parameter_server,
                                  VariableDistribution::distributed_replicated}) {
    TowerTraining training(full_case(2, 1, distribution), {.seed = 7}, {});
    EXPECT_EQ(first_difference_of_towers(training, 2, {}), "") << static_cast<int>(distribution);
  }
}

TEST(TowerBits, OfSeveralMicroBatchesATowerAreThoseOfOneSession) {
  TowerTraining training(full_case(2, 3), {.seed = 7}, {});
  EXPECT_EQ(first_difference_of_towers(training, 2, {}), "");
}

TEST(TowerBits, InBudgetsOfTheirOwnAreThoseOfOneSession) {
  std::size_t smallest = 0;
  {
    TowerTraining training(full_case(2), {.seed = 7}, {});
    for (const ProgramReport& report : training.towers->plan(training.batch(0), {"loss"})) {
      smallest = std::max(smallest, report.planned_peak_bytes);
    }
  }
  TowerTraining training(full_case(2), {.copy_threads = true, .seed = 7, .check_schedules = true},
                         {smallest, smallest * 7 / 8});
  EXPECT_EQ(first_difference_of_towers(training, 3, {}), "");
  for (int t = 0; t < 2; ++t) {
    const Statistics& statistics = training.towers->tower(t).session().statistics();
    EXPECT_LE(statistics.planned_peak_bytes, statistics.bytes_limit);
  }
  EXPECT_GT(training.towers->tower(1).session().statistics().bytes_reclaimed, 0U);
}

TEST(TowerBits, OfPlannedWholeGraphsAreThoseOfOneSession) {
  for (const bool searches : {false, true}) {
    TowerTraining training(whole_case(2), {.device_memory = 96_KiB, .seed = 7}, {});
    training.towers->on_each([&](Tower& tower) {
      if (!searches) return insert_swaps(tower.session());
      (void)fit_budget(tower.session(), {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e9}, .effort = 20'000});
    });
    EXPECT_EQ(first_difference_of_towers(training, 3, {}), "") << searches;
    EXPECT_LE(training.towers->tower(1).session().statistics().planned_peak_bytes, 96_KiB);
  }
}

// ---- Random models with random cuts.

class RandomTowers : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomTowers, HaveTheBitsOfOneSession) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + 10; ++seed) {
    TrainingSpec spec = random_spec(seed);
    // Layers that keep what each rank has for itself are refused.
    std::erase_if(spec.layers, [](const LayerSpec& layer) { return layer.kind == "count"; });
    spec.smaller_last_batch = false;
    const auto case_of = [spec](int ranks, int micro_batches) {
      TrainingSpec own = spec;
      own.ranks = ranks;
      own.micro_batches = micro_batches;
      return training_case(own);
    };
    const TrainOptions options = train_options(spec);
    SessionOptions session = options.session;
    session.seed = options.seed;
    TowerTraining training({case_of, 2 + static_cast<int>(seed % 3), spec.micro_batches}, session, {});
    EXPECT_EQ(first_difference_of_towers(training, 2, options), "") << "seed " << seed << "\n" << listing(spec);
  }
}
std::string first_of(const ::testing::TestParamInfo<std::uint64_t>& info) {
  return "From" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomTowers, ::testing::Range<std::uint64_t>(401, 421, 10), first_of);

}  // namespace
}  // namespace sectionflow::testing
