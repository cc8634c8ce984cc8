#include "fit/fit_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "examples/models/zoo.h"
#include "fit/insert_swaps.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/fit/fit_case.h"
#include "tests/support/budget_grid.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Convolutions with batch norm and dropout, no scope: activations lie idle between forward and backward.
TrainingCase deep_net(int layers = 6) {
  return {"deep net", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images;
            for (int i = 0; i < layers; ++i) {
              x = conv_norm_relu(x, in.is_training, 8);
              x = dropout(x, in.is_training, {.rate = 0.2F});
            }
            Value loss;
            {
              auto section = manager.new_section();
              loss = head_loss(x, in.labels);
            }
            finish(manager, loss);
            return TrainingNet{loss, in.feeds()};
          }};
}

struct Way {
  const char* name;
  SessionOptions session;
  FitBudgetOptions fit;
  friend void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"Recompute", {}, {.may_swap = false}},
      {"Swap", {.copy_threads = true}, {.may_recompute = false}},
      {"Both",
       {.copy_threads = true},
       // Of three ways at once: less of each. JointLists have tests of their own with more.
       {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e8, .link_out = 2e8, .link_in = 2e8}, .effort = 100'000}},
      {"BothByTheTeamWithADisk",
       {.disk = 64_MiB},
       {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e9, .disk_out = 2e8, .disk_in = 2e8}, .effort = 100'000}},
  };
  return all;
}

/// What a step takes as it is, and the least that the way brings it down to, evaluations of the network included.
struct Span {
  std::size_t whole = 0, least = 0;
  std::size_t at(int percent) const { return least + (whole - least) * static_cast<std::size_t>(percent) / 100; }
};
Span span_of(const TrainingCase& training_case, const Way& way) {
  const auto needed = [&](std::size_t device_memory) {
    Fitted fitted(training_case, checked(way.session, device_memory), few(way.fit));
    return std::max(fitted.plan().planned_peak_bytes, fitted.plan_evaluation().planned_peak_bytes);
  };
  // Below what one operation alone needs nothing is searched for.
  return {needed(1_GiB), needed(needed(1))};
}

class FitBudget : public ::testing::TestWithParam<Way> {
 protected:
  TrainOptions options(std::size_t device_memory) const {
    TrainOptions options{.steps = 3, .threads = 1};
    options.session = GetParam().session;
    options.session.device_memory = device_memory;
    options.on_session = [](How, const Graph&, Session& session) { fit_budget(session, few(GetParam().fit)); };
    return options;
  }

  /// That no plan is slower than one for less memory, and none refused where one for less is not; how many fit.
  int expect_monotone_plans(const TrainingCase& net, int devices, int hosts) const {
    const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
      SessionOptions options = checked(GetParam().session, device);
      options.host_memory = host;
      return Fitted(net, options, few(GetParam().fit)).plan();
    };
    const Span span = span_of(net, GetParam());
    return expect_monotone(plan, even_steps(span.least - span.least / 50, span.whole, devices),
                           even_steps(1, span.whole, hosts));
  }

  /// That a training in these budgets leaves the bytes of the one without any; how many operations it repeats.
  int expect_exact(const TrainingCase& training_case, How how, const Span& span) const {
    const TrainingRecord plain = record_training(training_case, How::whole, {.steps = 3, .threads = 1});
    int repeated = 0;
    for (const int percent : {0, 30, 70}) {
      SCOPED_TRACE(text_of(training_case.name, ", ", percent, " %"));
      const TrainingRecord fitted = record_training(training_case, how, options(span.at(percent)));
      EXPECT_EQ(first_difference(plain, fitted), "");
      EXPECT_THAT(fitted.complaints, IsEmpty());
      Fitted again(training_case, checked(GetParam().session, span.at(percent)), few(GetParam().fit));
      const ProgramReport report = again.plan();
      EXPECT_TRUE(report.fits);
      repeated += report.recomputed_operations;
    }
    return repeated;
  }
};

TEST_P(FitBudget, ChangesNoBitOfADeepNetwork) {
  const TrainingCase net = deep_net();
  const Span span = span_of(net, GetParam());
  EXPECT_LT(span.least, span.whole - span.whole / 5);
  const int repeated = expect_exact(net, How::whole, span);
  if (!GetParam().fit.may_swap) {
    EXPECT_GT(repeated, 0);
  } else if (!GetParam().fit.may_recompute) {
    EXPECT_EQ(repeated, 0);
  }
}

TEST_P(FitBudget, ChangesNoBitOfRandomNetworks) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    TrainingCase net = training_case(random_spec(seed));
    expect_exact(net, How::whole, span_of(net, GetParam()));
  }
}

TEST_P(FitBudget, IsNeverSlowerWithMoreMemory) {
  EXPECT_GT(expect_monotone_plans(deep_net(4), 6, 2), 5);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    EXPECT_GT(expect_monotone_plans(training_case(random_spec(seed)), 4, 2), 1);
  }
}

TEST_P(FitBudget, IsNeverSlowerWithMoreMemoryInAFineGrid) {
  EXPECT_GT(expect_monotone_plans(deep_net(5), 50, 3), 40);
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    EXPECT_GT(expect_monotone_plans(training_case(random_spec(seed)), 20, 3), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FitBudget, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FitBudget, TakesTheSmallestBudgetThatItTellsOf) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    const TrainingCase net = deep_net();
    const Span span = span_of(net, way);
    EXPECT_TRUE(Fitted(net, checked(way.session, span.least), few(way.fit)).plan().fits);
  }
}

TEST(FitBudget, LeavesAProgramThatFitsAsItIs) {
  Fitted fitted(deep_net(), checked({}, 1_GiB));
  const ProgramReport report = fitted.plan();
  EXPECT_EQ(report.recomputed_operations, 0);
  EXPECT_EQ(report.bytes_out, 0U);
  EXPECT_GT(report.predicted_seconds, 0);
}

TEST(FitBudget, SaysWhatItHasChosen) {
  const Span span = span_of(deep_net(), ways()[0]);
  Fitted fitted(deep_net(), checked({}, span.at(40)), few({.may_swap = false}));
  const ProgramReport report = fitted.plan();
  ASSERT_GE(report.notes.size(), 3U);
  EXPECT_THAT(report.notes[0], HasSubstr(text_of("fit_budget: ")));
  EXPECT_THAT(report.notes[0], HasSubstr("more time than everything once"));
  EXPECT_THAT(report.notes[1], HasSubstr("more would save"));
  EXPECT_THAT(report.notes[2],
              AllOf(HasSubstr("is dropped behind"), HasSubstr("and computed again for"), HasSubstr("not there for")));
}

TEST(FitBudget, RefusesABudgetThatNothingFits) {
  const std::size_t least = span_of(deep_net(), ways()[0]).least;
  Fitted fitted(deep_net(), checked({}, least - least / 8), few({.may_swap = false}));
  fitted.session().initialize();
  EXPECT_THROW(fitted.run(0), BudgetError);
}

TEST(FitBudget, RefusesAtOnceWhatOneOperationAloneExceeds) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    const std::size_t alone = Fitted(deep_net(), checked(way.session, 1), few(way.fit)).plan().planned_peak_bytes;
    // An effort that would take longer than any test may.
    FitBudgetOptions endless = way.fit;
    endless.effort = std::int64_t{1} << 40;
    Fitted fitted(deep_net(), checked(way.session, alone - 1), endless);
    fitted.session().initialize();
    try {
      fitted.run(0);
      FAIL() << "it fits where one operation alone does not";
    } catch (const BudgetError& error) {
      EXPECT_EQ(error.minimum_bytes, alone);
      EXPECT_THAT(error.fact("hint"), HasSubstr("alone needs"));
    }
    const ProgramReport report = fitted.plan();
    EXPECT_EQ(round_up(report.persistent_bytes) + report.largest_operation.bytes, alone);
    EXPECT_FALSE(report.minimum_is_exact);
  }
}

TEST(FitBudget, RefusesOptionsThatAreNone) {
  Graph graph;
  Session session(graph, {});
  EXPECT_THROW(fit_budget(session, {.effort = -1}), ArgumentError);
  EXPECT_THROW(fit_budget(session, {.may_recompute = false, .may_swap = false}), ArgumentError);
}

/// The least that a cycle comes down to. Below what one operation alone needs nothing is searched for.
std::size_t least_of_cycle(const TrainingCase& net, const FitBudgetOptions& fit = few()) {
  const auto needed = [&](std::size_t device_memory) {
    return Fitted(net, checked({}, device_memory), fit).plan_cycle().planned_peak_bytes;
  };
  return needed(needed(1));
}

/// Cycles over sections: the cut is where computing again is written, but what is computed again is the planner's.
TEST(FitBudget, ChangesNoBitOfCyclesOverSections) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    TrainingSpec spec = random_spec(seed);
    spec.sections = {};
    spec.sections_differ = false;
    const TrainingCase net = training_case(spec);
    const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
    const std::size_t least = least_of_cycle(net);
    const std::size_t whole = Fitted(net, checked({}, 1_GiB)).plan_cycle().planned_peak_bytes;
    for (const int percent : {0, 50}) {
      SCOPED_TRACE(text_of(percent, " %"));
      TrainOptions options{.steps = 3, .threads = 1};
      options.session.device_memory = least + (whole - least) * static_cast<std::size_t>(percent) / 100;
      options.on_session = [](How, const Graph&, Session& session) { fit_budget(session, few()); };
      for (const How how : {How::sections, How::halves}) {
        const TrainingRecord fitted = record_training(net, how, options);
        EXPECT_EQ(first_difference(plain, fitted), "") << name_of(how);
        EXPECT_THAT(fitted.complaints, IsEmpty()) << name_of(how);
      }
    }
  }
}

/// Of many layers a section: its own values are the most of what a cycle takes.
TrainingCase long_sections() {
  return {"long sections", [](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images, loss;
            for (int k = 0; k < 3; ++k) {
              const auto section = manager.new_section();
              for (int i = 0; i < 4; ++i) x = tanh(conv2d(x, {.features = 8}));
              if (k == 2) loss = head_loss(x, in.labels);
            }
            finish(manager, loss);
            return TrainingNet{loss, in.feeds()};
          }};
}

/// What a cycle over its sections takes that nobody fits.
std::size_t peak_by_cuts(const TrainingCase& net) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = net.build(graph, manager);
  Session session(graph, checked({}, 1_GiB));
  FeedStore store;
  return manager.plan(session, {built.loss}, types_of(built.feeds(0, store))).planned_peak_bytes;
}

TEST(FitBudget, ComputesAgainBelowWhatSectionsNeedByThemselves) {
  const TrainingCase net = long_sections();
  const std::size_t by_cuts = peak_by_cuts(net);
  const FitBudgetOptions alone = few({.may_swap = false});
  const std::size_t least = least_of_cycle(net, alone);
  EXPECT_LT(least, by_cuts - by_cuts / 10);
  const ProgramReport report = Fitted(net, checked({}, least), alone).plan_cycle();
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.bytes_out, 0U);
  TrainOptions options{.steps = 3, .threads = 1};
  const TrainingRecord plain = record_training(net, How::whole, options);
  options.session.device_memory = least;
  options.on_session = [&](How, const Graph&, Session& fitted) { fit_budget(fitted, alone); };
  const TrainingRecord fitted = record_training(net, How::sections, options);
  EXPECT_EQ(first_difference(plain, fitted), "");
  EXPECT_THAT(fitted.complaints, IsEmpty());
}

TEST(FitBudget, IsNeverSlowerWithMoreMemoryWhereTheCutWouldFitToo) {
  const TrainingCase net = long_sections();
  const std::size_t by_cuts = peak_by_cuts(net);
  const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
    SessionOptions options = checked({}, device);
    options.host_memory = host;
    return Fitted(net, options, few({})).plan_cycle();
  };
  EXPECT_GT(expect_monotone(plan, even_steps(by_cuts - by_cuts / 5, by_cuts + by_cuts / 5, 6), {1_GiB}), 2);
}

TEST(FitBudget, TakesACycleAsItIsCutWhereItMayNotComputeAgainByItself) {
  const TrainingCase net = long_sections();
  const std::size_t by_cuts = peak_by_cuts(net);
  SessionOptions options = checked({}, by_cuts);
  options.host_memory = 1;
  EXPECT_TRUE(Fitted(net, options, few({.may_recompute = false})).plan_cycle().fits);
}

TEST(FitBudget, RefusesProfilesOfNumbersThatNoneCanHave) {
  Graph graph;
  Session session(graph, {.threads = 1});
  const double infinite = std::numeric_limits<double>::infinity();
  for (const Profile& profile :
       {Profile{.flops = 0}, Profile{.flops = -1}, Profile{.memory_bandwidth = infinite}, Profile{.link_out = 1e-300},
        Profile{.link_in = std::nan("")}, Profile{.copy_drag = 1e300}, Profile{.kernel_seconds = {{"relu", -1}}}}) {
    EXPECT_THROW(fit_budget(session, {.profile = profile}), ArgumentError);
    EXPECT_THROW(insert_swaps(session, {.profile = profile}), ArgumentError);
  }
  try {
    fit_budget(session, {.profile = Profile{.disk_out = 0}});
    ADD_FAILURE() << "a disk that writes nothing";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'disk_out' is 0"), HasSubstr("wanted 1 to")));
  }
}

/// A value that two operations read, of which the second writes over it.
TEST(FitBudget, IsNeverSlowerWithMoreMemoryWhereKernelsWriteInPlace) {
  Graph graph;
  const Value x = placeholder(graph, "x", {1, 256, 256});
  std::vector<Value> small;
  for (int i = 0; i < 12; ++i)
    small.push_back(tanh(reduce_sum(x * (0.01F * static_cast<float>(i + 1)), {.axes = {1}})));
  const Value wide = x + 1.0F;
  Value y = reduce_sum(tanh(wide) * sigmoid(wide));
  for (const Value& value : small) y = y + reduce_sum(value);
  const HostTensor data(Dtype::f32, {1, 256, 256});
  const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
    SessionOptions options = checked({.copy_threads = true}, device);
    options.host_memory = host;
    Session session(graph, options);
    fit_budget(session, few({.profile = Profile{.link_out = 1e9, .link_in = 1e9}}));
    return session.plan({y}, {{x, data.shape()}});
  };
  EXPECT_GT(expect_monotone(plan, even_steps(500'000, 1'500'000, 21), {1_GiB}), 5);
}

}  // namespace
}  // namespace sectionflow::testing
