// Borders that are placed by themselves: the same bits, the budget kept, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "sections/forward_places.h"
#include "tests/sections/image_nets.h"
#include "tests/support/budget_grid.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Convolutions with batch norm, dropout and skips, and no scope.
Value deep_loss(const Inputs& in, int layers = 6) {
  Value x = conv_norm_relu(in.images, in.is_training, 8);
  const Value early = x;
  for (int i = 0; i < layers; ++i) {
    x = x + conv_norm_relu(x, in.is_training, 8);
    x = dropout(x, in.is_training, {.rate = 0.2F});
  }
  return head_loss(x + early, in.labels);
}

TrainingCase placed_net(const PlaceCutsOptions& cuts, const TrainingOptions& training = {}) {
  return {"placed", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            const Value loss = deep_loss(in);
            manager.place_cuts(cuts);
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, training);
            manager.prepare_training();
            return TrainingNet{loss, in.feeds()};
          }};
}

PlaceCutsOptions so_many(int sections) {
  PlaceCutsOptions options;
  options.sections = sections;
  options.batch = kBatch;
  options.session.threads = 1;
  return options;
}

PlaceCutsOptions within(std::size_t bytes) {
  PlaceCutsOptions options = so_many(0);
  options.session.device_memory = bytes;
  options.may_swap = false;
  return options;
}

/// A net that has been cut, and what its cycle takes with all borders on the device.
struct Placed {
  explicit Placed(const PlaceCutsOptions& cuts, const TrainingOptions& training = {})
      : net(placed_net(cuts, training).build(graph, manager)) {
    manager.set_section_options({.borders = BorderPolicy::keep});
    Session session(graph, {.threads = 1});
    FeedStore store;
    report = manager.plan(session, {net.loss}, types_of(net.feeds(0, store)));
  }
  std::vector<GroupId> groups() const {
    std::vector<GroupId> all;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) all.push_back(graph.node(id).group());
    return all;
  }

  Graph graph;
  GraphSectionManager manager{graph};
  TrainingNet net;
  ProgramReport report;
};

TEST(PlacedCuts, TrainToTheBytesOfTheWholeGraphByCyclesAndHalves) {
  for (const int sections : {1, 2, 4, 9}) {
    SCOPED_TRACE(text_of(sections, " sections"));
    const auto failure = find_failure(placed_net(so_many(sections)), {.steps = 3, .threads = 1});
    EXPECT_FALSE(failure.has_value()) << (failure ? failure->text : "");
    EXPECT_EQ(Placed(so_many(sections)).manager.sections().size(), static_cast<std::size_t>(sections));
  }
}

void expect_exact_random_models(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    TrainingSpec spec = random_spec(seed);
    spec.placed = 1 + static_cast<int>(seed % 4);
    const auto failure = find_failure(training_case(spec), train_options(spec));
    EXPECT_FALSE(failure.has_value()) << "seed " << seed << ": " << (failure ? failure->text : "") << "\n"
                                      << listing(spec);
  }
}

TEST(PlacedCuts, OfRandomModelsTrainToTheBytesOfTheWholeGraph) {
  expect_exact_random_models(1, 10);
}

// Of the label `long` (tests/CMakeLists.txt).
TEST(MorePlacedCuts, OfRandomModelsTrainToTheBytesOfTheWholeGraph) {
  expect_exact_random_models(11, 200);
}

TEST(PlacedCuts, OfOneModelAreAlwaysTheSame) {
  EXPECT_EQ(Placed(so_many(4)).groups(), Placed(so_many(4)).groups());
  const std::size_t half = Placed(so_many(1)).report.planned_peak_bytes * 2 / 3;
  EXPECT_EQ(Placed(within(half)).groups(), Placed(within(half)).groups());
}

TEST(PlacedCuts, WithABudgetTakeTheLeastTimeThatFitsToTheByte) {
  const std::size_t whole = Placed(so_many(1)).report.planned_peak_bytes;
  const Placed ample(within(whole));
  EXPECT_EQ(ample.manager.sections().size(), 1U) << "what fits is not cut";
  int cuts = 0;
  for (const std::size_t percent : {95, 85, 75, 70}) {
    const std::size_t budget = whole * percent / 100;
    SCOPED_TRACE(text_of("budget ", budget, " of ", whole));
    try {
      const Placed placed(within(budget));
      EXPECT_LE(placed.report.planned_peak_bytes, budget);
      EXPECT_GT(placed.manager.sections().size(), 1U);
      ++cuts;
    } catch (const BudgetError& error) {
      EXPECT_EQ(error.code(), ErrorCode::cuts_misfit);
      EXPECT_GT(error.minimum_bytes, budget);
    }
  }
  EXPECT_GE(cuts, 2);
}

TEST(PlacedCuts, WhatIsPlannedIsMeasuredWithinTheBudget) {
  const std::size_t budget = Placed(so_many(1)).report.planned_peak_bytes * 8 / 10;
  TrainOptions options{.steps = 2, .threads = 1};
  options.session.device_memory = budget;
  // record_training compares peaks, and a budget that is too small would be refused.
  const TrainingRecord record = record_training(placed_net(within(budget)), How::sections, options);
  EXPECT_THAT(record.complaints, ::testing::IsEmpty());
}

TEST(PlacedCuts, WhereNoneFitsTheErrorTellsTheLowestPeakThatWasFoundWhichDoes) {
  std::size_t lowest = 0;
  try {
    Placed placed(within(20'000));
    ADD_FAILURE() << "20 kB do";
  } catch (const BudgetError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E213"), HasSubstr("device_memory of 20000 bytes"),
                                    HasSubstr(std::to_string(error.minimum_bytes)), HasSubstr("sections")));
    EXPECT_EQ(error.budget_bytes, 20'000U);
    lowest = error.minimum_bytes;
  }
  EXPECT_LE(Placed(within(lowest)).report.planned_peak_bytes, lowest);
}

TEST(PlacedCuts, WhatIsToldToDoDoesAndNoLessIsRefusedFromThereOn) {
  for (const int micro_batches : {1, 3}) {
    const TrainingOptions training{.micro_batches = micro_batches};
    std::size_t least = 0;
    try {
      Placed placed(within(1), training);
    } catch (const BudgetError& error) {
      least = error.minimum_bytes;
    }
    const std::size_t whole = Placed(so_many(1), training).report.planned_peak_bytes;
    ASSERT_LT(least, whole);
    for (std::size_t i = 0; i <= 12; ++i) {
      const std::size_t budget = least + (whole - least) / 12 * i;
      SCOPED_TRACE(text_of(budget, " bytes, ", micro_batches, " micro-batches"));
      EXPECT_LE(Placed(within(budget), training).report.planned_peak_bytes, budget);
    }
  }
}

TEST(PlacedCuts, AreRefusedWhereInteriorsThatAreKeptDoNotFit) {
  const std::size_t whole = Placed(so_many(1)).report.planned_peak_bytes;
  EXPECT_NO_THROW(Placed(within(whole * 8 / 10)));
  const TrainingOptions keeps{.sections = {.borders = BorderPolicy::keep, .interior = InteriorPolicy::keep}};
  EXPECT_THROW(Placed(within(whole * 8 / 10), keeps), BudgetError);
  EXPECT_EQ(Placed(within(whole), keeps).manager.sections().size(), 1U);
}

TEST(PlacedCuts, WhatNoCutBringsDownIsOffloadedWhereTheOptionsAllowIt) {
  std::size_t lowest = 0;
  try {
    Placed placed(within(20'000));
  } catch (const BudgetError& error) {
    lowest = error.minimum_bytes;
  }
  PlaceCutsOptions options = within(lowest - lowest / 50);
  EXPECT_THROW(Placed{options}, BudgetError);
  options.may_swap = true;
  EXPECT_GT(Placed(options).manager.sections().size(), 1U);
  EXPECT_THROW(Placed(options, {.sections = {.borders = BorderPolicy::keep}}), BudgetError);
}

TEST(PlacedCuts, TheLowestPeakIsToldWithWhatCanBeOffloaded) {
  const auto told = [](bool may_swap) {
    PlaceCutsOptions options = within(20'000);
    options.may_swap = may_swap;
    try {
      Placed placed(options);
    } catch (const BudgetError& error) {
      EXPECT_EQ(::testing::Value(std::string(error.what()), HasSubstr("with what can be offloaded")), may_swap);
      return error.minimum_bytes;
    }
    ADD_FAILURE() << "20 kB do";
    return std::size_t{0};
  };
  const std::size_t kept = told(false), offloaded = told(true);
  EXPECT_LT(offloaded, kept);
  PlaceCutsOptions options = within(offloaded);
  options.may_swap = true;
  EXPECT_GE(Placed(options).manager.sections().size(), 1U);
}

TEST(PlacedCuts, OfAnUpdateOverMicroBatchesWithClippingAndAveragesTrainExactly) {
  TrainingOptions training;
  training.clip_norm = 0.5F;
  training.micro_batches = 2;
  training.average = WeightAverageOptions{.decay = 0.75F, .start = 1};
  TrainingCase net = placed_net(so_many(3), training);
  const TrainingCase accumulated{"accumulated", [net](Graph& graph, GraphSectionManager& manager) {
                                   TrainingNet built = net.build(graph, manager);
                                   built.micro_batches = 2;
                                   return built;
                                 }};
  const auto failure = find_failure(accumulated, {.steps = 4, .threads = 1});
  EXPECT_FALSE(failure.has_value()) << (failure ? failure->text : "");
}

TEST(PlacedCuts, ShareVariablesReadInputsLateAndMayBeAskedForBeforeAnythingIsBuilt) {
  const TrainingCase net{"tied", [](Graph& graph, GraphSectionManager& manager) {
                           manager.place_cuts(so_many(4));
                           const Inputs in(graph);
                           const Value tied = variable("tied", fill(graph, {3, 3}, 0.3));
                           // Made first, and read by the last layers alone.
                           const Value late = in.images * 0.5F;
                           Value x = in.images;
                           for (int i = 0; i < 5; ++i) {
                             x = tanh(reshape(matmul(reshape(x, {-1, 3}), tied), {-1, 8, 8, 3}));
                           }
                           const Value loss = head_loss(conv_norm_relu(x + late, in.is_training, 4), in.labels);
                           finish(manager, loss);
                           return TrainingNet{loss, in.feeds()};
                         }};
  const auto failure = find_failure(net, {.steps = 3, .threads = 1});
  EXPECT_FALSE(failure.has_value()) << (failure ? failure->text : "");
}

TEST(PlacedCuts, AreToldByTheNotesOfAPlan) {
  const Placed placed(so_many(3));
  EXPECT_THAT(placed.report.notes, ::testing::Contains(HasSubstr("cuts: 3 sections, which begin at")));
}

TEST(PlacedCuts, BelongTogetherAsScopesWouldHaveItToo) {
  const Placed placed(so_many(3));
  std::size_t num_operations = 0;
  for (const auto& section : placed.manager.sections()) {
    EXPECT_FALSE(section->operations().empty());
    num_operations += section->operations().size();
    // What crosses comes from earlier sections, or is fed.
    for (const Value& value : section->incoming()) {
      EXPECT_LT(value.node().group(), section->group()) << value.name();
    }
  }
  EXPECT_GE(static_cast<int>(num_operations), forward_places(placed.graph, placed.net.loss).num_places());
  for (Value variable : placed.graph.values(kTrainableVariables)) EXPECT_NE(variable.node().group(), kNoGroup);
}

TEST(PlacedCuts, OfMoreMemoryAreNeverPredictedToBeSlower) {
  for (const int layers : {4, 6, 9}) {
    const auto placed = [&](std::size_t budget) {
      Graph graph;
      GraphSectionManager manager(graph);
      const Inputs in(graph);
      const Value loss = deep_loss(in, layers);
      manager.place_cuts(within(budget));
      manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
      manager.prepare_training();
      manager.set_section_options({.borders = BorderPolicy::automatic});
      Session session(graph, {.device_memory = budget, .threads = 1});
      FeedStore store;
      return manager.plan(session, {loss}, types_of(in.feeds()(0, store)));
    };
    std::size_t least = 0;
    try {
      (void)placed(1);
    } catch (const BudgetError& error) {
      least = error.minimum_bytes;
    }
    const std::size_t whole = placed(1_GiB).planned_peak_bytes;
    double before = std::numeric_limits<double>::infinity();
    std::set<double> seen;
    for (const std::size_t budget : even_steps(least, whole, 50)) {
      SCOPED_TRACE(text_of(layers, " layers, ", budget, " bytes of ", least, " to ", whole));
      const ProgramReport report = placed(budget);
      EXPECT_TRUE(report.fits);
      EXPECT_LE(report.predicted_seconds, before * (1 + 1e-12));
      before = report.predicted_seconds;
      seen.insert(before);
    }
    EXPECT_GT(seen.size(), 3U) << "shows nothing";
  }
}

// ---- What is refused leaves everything as it was.

TEST(PlacedCuts, AndScopesExcludeEachOther) {
  Graph graph;
  GraphSectionManager manager(graph);
  { auto section = manager.new_section(); }
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { manager.place_cuts({}); }),
              AllOf(HasSubstr("SF-E211"), HasSubstr("has 1 sections already"), HasSubstr("place_cuts.cpp")));
  Graph other;
  GraphSectionManager placing(other);
  placing.place_cuts(so_many(2));
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { auto section = placing.new_section("stem"); }),
              AllOf(HasSubstr("SF-E211"), HasSubstr("new_section('stem') after place_cuts()")));
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { placing.restore_sections(); }), HasSubstr("SF-E211"));
  const Inputs in(other);
  const Value loss = deep_loss(in, 2);
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { placing.add_training_ops(Sgd{}, compute_gradients(loss)); }),
              AllOf(HasSubstr("SF-E211"), HasSubstr("give the loss instead")));
}

TEST(PlacedCuts, AreNoMoreThanOperationsAndAnotherNumberDoesAfterwards) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Inputs in(graph);
  const Value loss = deep_loss(in, 1);
  manager.place_cuts(so_many(1000));
  const int num_nodes = graph.num_nodes(), num_groups = graph.num_groups();
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { manager.add_training_ops(Sgd{}, loss); }),
              AllOf(HasSubstr("SF-E212"), HasSubstr("1000 sections of the"), HasSubstr("ask for fewer")));
  manager.place_cuts(within(1000));
  EXPECT_THROW(manager.add_training_ops(Sgd{}, loss), BudgetError);
  EXPECT_EQ(graph.num_nodes(), num_nodes);
  EXPECT_EQ(graph.num_groups(), num_groups);
  EXPECT_TRUE(manager.sections().empty());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) EXPECT_EQ(graph.node(id).group(), kNoGroup);
  manager.place_cuts(so_many(2));
  manager.add_training_ops(Sgd{}, loss);
  EXPECT_EQ(manager.sections().size(), 2U);
}

TEST(PlacedCuts, WantNumbersThatAreSomeAndTheBatchWhereABudgetDecides) {
  Graph graph;
  GraphSectionManager manager(graph);
  PlaceCutsOptions options;
  options.sections = -1;
  EXPECT_THAT(error_text<ArgumentError>([&] { manager.place_cuts(options); }), HasSubstr("-1 sections"));
  options.sections = 0;
  options.batch = -2;
  EXPECT_THAT(error_text<ArgumentError>([&] { manager.place_cuts(options); }), HasSubstr("a batch of -2"));
  const Inputs in(graph);
  const Value loss = deep_loss(in, 1);
  manager.place_cuts({});
  EXPECT_THAT(error_text<ArgumentError>([&] { manager.add_training_ops(Sgd{}, loss); }),
              AllOf(HasSubstr("'images'"), HasSubstr("PlaceCutsOptions::batch")));
  Graph other;
  const Value foreign = placeholder(other, "x", {2});
  options.batch = 1;
  options.feeds.emplace_back(foreign, Shape{2});
  EXPECT_THAT(error_text<ArgumentError>([&] { manager.place_cuts(options); }), HasSubstr("does not belong"));
}

}  // namespace
}  // namespace sectionflow::testing
