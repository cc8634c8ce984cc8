// Chains of operations that run in parts, so that what they hand on is never whole: what a session does with them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <random>

#include "base/error.h"
#include "fit/explain.h"
#include "fit/plan_file.h"
#include "swap/measure_profile.h"
#include "swap/step_profile.h"
#include "tests/fit/parts_case.h"
#include "tests/support/budget_grid.h"
#include "tests/support/emulated_device.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

const Buffer* buffer_of(const Program& program, const Value& value) {
  for (const Buffer& buffer : program.schedule.buffers) {
    if (buffer.value == value) return &buffer;
  }
  return nullptr;
}

TEST(Parts, TrainAWideHeadInLessThanItsLogitsToTheSameBits) {
  for (const WideHead& head : {WideHead{.tied = true}, WideHead{.tied = false, .optimizer = Sgd{}},
                               WideHead{.tied = false, .optimizer = Sgd{}, .is_capped = true}}) {
    const TrainingCase net = wide_head(head);
    SCOPED_TRACE(text_of(net.name, head.is_capped ? ", capped" : ""));
    const std::size_t least = least_in_parts(net, by_recomputing());
    EXPECT_LT(least, head.is_capped ? 2 * kLogitsBytes : kLogitsBytes);
    EXPECT_GT(least_in_parts(net, whole_only()), kLogitsBytes);
    const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
    for (const std::size_t budget : {least, std::max(least, kLogitsBytes)}) {
      const TrainingRecord in_parts = record_training(net, How::whole, training_in(budget, by_recomputing()));
      EXPECT_EQ(first_difference(plain, in_parts), "");
      EXPECT_THAT(in_parts.complaints, IsEmpty()) << "measured is planned";
    }
  }
}

TEST(Parts, AreAsManyAsTheRowsHaveBlocksWhereTheseAreOdd) {
  for (const std::int64_t blocks : {3, 5}) {
    WideHead head;
    head.rows = 256 * blocks;
    SCOPED_TRACE(head.rows);
    const TrainingCase net = wide_head(head);
    const std::size_t logits = static_cast<std::size_t>(head.rows * kWideClasses) * sizeof(float);
    EXPECT_LT(least_in_parts(net, by_recomputing()), logits);
    EXPECT_GT(least_in_parts(net, whole_only()), logits);
  }
}

TEST(Parts, TouchNothingThatIsNotTheirs) {
  const TrainingCase net = wide_head();
  const TrainingRecord plain = record_training(net, How::whole, {.steps = 2, .threads = 2});
  TrainOptions poisoned = training_in(kLogitsBytes, by_recomputing(), true);
  poisoned.steps = 2;
  poisoned.threads = 2;
  const TrainingRecord in_parts = record_training(net, How::whole, poisoned);
  EXPECT_EQ(first_difference(plain, in_parts), "");
  EXPECT_THAT(in_parts.complaints, IsEmpty());
}

TEST(Parts, ReadVariablesThatLiveOnTheHost) {
  const TrainingCase net = wide_head({.tied = false});
  const SessionOptions on_host{.swap_variables = true};
  const std::size_t least = least_in_parts(net, by_recomputing(), on_host);
  EXPECT_LT(least, least_in_parts(net, whole_only(), on_host));
  TrainOptions options = training_in(least, by_recomputing());
  options.session.swap_variables = true;
  const TrainingRecord in_parts = record_training(net, How::whole, options);
  EXPECT_EQ(first_difference(record_training(net, How::whole, {.steps = 3, .threads = 1}), in_parts), "");
  EXPECT_THAT(in_parts.complaints, IsEmpty());
}

TEST(Parts, AreTakenWhereTheyAreNeededAlone) {
  const TrainingCase net = wide_head();
  Fitted roomy(net, checked({}, 1_GiB), by_recomputing());
  EXPECT_THAT(roomy.plan().notes, Not(Contains(HasSubstr("parts"))));
  EXPECT_EQ(parts_of(roomy.session()), 1);
  Fitted tight(net, checked({}, kLogitsBytes), by_recomputing());
  EXPECT_THAT(tight.plan().notes, Contains(AllOf(HasSubstr("run in 2 parts"), HasSubstr("never whole"))));
  EXPECT_EQ(parts_of(tight.session()), 2);
  Fitted whole(net, checked({}, kLogitsBytes), whole_only());
  EXPECT_FALSE(whole.plan().fits);
}

TEST(Parts, AreWholeWhereTheirValuesAreFetched) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = wide_head().build(graph, manager);
  Session session(graph, checked({}, kLogitsBytes));
  fit_budget(session, by_recomputing());
  FeedStore store;
  const FeedTypes types = types_of(net.feeds(0, store));
  const RunOptions trains{.targets = manager.training_operations()};
  EXPECT_TRUE(session.plan({net.loss}, types, trains).fits);
  const ProgramReport fetching = session.plan({net.loss, net.values[0]}, types, trains);
  EXPECT_FALSE(fetching.fits);
  EXPECT_GT(fetching.planned_peak_bytes, kLogitsBytes);
}

TEST(Parts, AreNeitherSlowerNorRefusedWithMoreMemory) {
  for (const TrainingCase& net : {wide_head(), concatenation()}) {
    const std::size_t least = least_in_parts(net, by_recomputing());
    const std::size_t whole = Fitted(net, checked({}, 1_GiB), by_recomputing()).plan().planned_peak_bytes;
    const PlanInBudgets plan = [&](std::size_t device, std::size_t) {
      return Fitted(net, checked({}, device), by_recomputing()).plan();
    };
    EXPECT_GT(expect_monotone(plan, even_steps(least - least / 50, whole, 7), {1}), 4) << net.name;
  }
}

TEST(Parts, ByOffloadingAloneAreRefusedAByteBelowTheMinimum) {
  const FitBudgetOptions fit{.may_recompute = false, .effort = kPartsEffort};
  const TrainingCase net = concatenation();
  const std::size_t least = least_in_parts(net, fit);
  EXPECT_LT(least, least_in_parts(net, whole_only(fit)));
  const auto plan = [&](std::size_t device_memory) { return Fitted(net, checked({}, device_memory), fit).plan(); };
  EXPECT_TRUE(plan(least).fits);
  const ProgramReport refused = plan(least - 1);
  EXPECT_FALSE(refused.fits);
  EXPECT_EQ(refused.planned_peak_bytes, least);
  EXPECT_EQ(first_difference(record_training(net, How::whole, {.steps = 3, .threads = 1}),
                             record_training(net, How::whole, training_in(least, fit))),
            "");
}

TEST(Parts, OfAConcatenationAndItsReadersAreNeverWhole) {
  const TrainingCase net = concatenation();
  const std::size_t least = least_in_parts(net, by_recomputing());
  EXPECT_LT(least, least_in_parts(net, whole_only()) * 3 / 4);
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = net.build(graph, manager);
  Session session(graph, checked({}, least));
  fit_budget(session, by_recomputing());
  FeedStore store;
  (void)session.plan({built.loss}, types_of(built.feeds(0, store)), {.targets = manager.training_operations()});
  const Buffer* const joined = buffer_of(*engine(session).latest_program(), built.values[0]);
  ASSERT_NE(joined, nullptr);
  EXPECT_GT(joined->parts, 1);
  EXPECT_EQ(joined->bytes * static_cast<std::size_t>(joined->parts), built.values[0].type().bytes());
  const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
  const TrainingRecord in_parts = record_training(net, How::whole, training_in(least, by_recomputing()));
  EXPECT_EQ(first_difference(plain, in_parts), "");
  EXPECT_THAT(in_parts.complaints, IsEmpty());
}

// Rows that are weighted column by column with what they have lost: each part of that reads all losses.
TEST(Parts, OfWhatReadsAllOfAnothersOutputAreNotOfThatsChain) {
  constexpr std::int64_t kRows = 96;
  Graph graph;
  const Value data = placeholder(graph, "data", {kRows, kRows}),
              labels = placeholder(graph, "labels", {kRows}, Dtype::i32);
  const Value wide = silu(concat({tanh(data), sigmoid(data), square(data), exp(data)}, 1));
  const Value rows = slice(wide, {.begin = {0, 7}, .size = {kRows, kRows}});
  const Value sum = reduce_sum(square(rows * softmax_cross_entropy(rows, labels)));
  FeedStore store;
  store.push_back(random_images({kRows, kRows}, 5, 0));
  store.push_back(random_classes(kRows, int{kRows}, 6, 0));
  const Feeds feeds{{data, store[0]}, {labels, store[1]}};
  const auto least = [&](const FitBudgetOptions& fit) {
    std::size_t needed = 1;
    for (int i = 0; i < 4; ++i) {
      Session session(graph, checked({}, needed));
      fit_budget(session, fit);
      needed = std::max(needed, session.plan({sum}, types_of(feeds)).planned_peak_bytes);
    }
    return needed;
  };
  Session whole(graph, checked({}, 1_GiB));
  whole.initialize();
  const HostTensor wanted = whole.run(sum, feeds);
  const std::size_t in_parts = least(by_recomputing());
  EXPECT_LT(in_parts, least(whole_only()));
  Session session(graph, checked({}, in_parts));
  fit_budget(session, by_recomputing());
  session.initialize();
  const HostTensor found = session.run(sum, feeds);
  EXPECT_EQ(std::memcmp(found.bytes(), wanted.bytes(), wanted.num_bytes()), 0);
  EXPECT_GT(parts_of(session), 1);
}

TEST(Parts, ChangeNoBitOfRandomChains) {
  int in_parts = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const TrainingCase net = random_chain(seed);
    SCOPED_TRACE(net.name);
    const FitBudgetOptions fit = seed % 3 == 0   ? FitBudgetOptions{.may_recompute = false, .effort = kPartsEffort}
                                 : seed % 3 == 1 ? by_recomputing()
                                                 : FitBudgetOptions{.effort = kPartsEffort};
    const std::size_t least = least_in_parts(net, fit);
    const std::size_t whole = Fitted(net, checked({}, 1_GiB), fit).plan().planned_peak_bytes;
    EXPECT_LE(least, least_in_parts(net, whole_only(fit)));
    const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
    std::mt19937_64 random(seed);
    for (const std::size_t budget : {least, least + random() % (whole - least + 1)}) {
      SCOPED_TRACE(text_of(budget, " bytes, of ", least, " to ", whole));
      const TrainingRecord fitted = record_training(net, How::whole, training_in(budget, fit));
      EXPECT_EQ(first_difference(plain, fitted), "");
      EXPECT_THAT(fitted.complaints, IsEmpty());
      Fitted again(net, checked({}, budget), fit);
      EXPECT_TRUE(again.plan().fits);
      in_parts += parts_of(again.session()) > 1 ? 1 : 0;
    }
  }
  std::cout << in_parts << " of 12 plans run in parts\n";
  EXPECT_GT(in_parts, 1);
}

TEST(Parts, AreLeftToTheCpu) {
  const testing_support::EmulatedCuda emulated;
  const std::size_t least = least_in_parts(concatenation(), by_recomputing());
  SessionOptions options = checked({}, least);
  options.device = cuda(0);
  Fitted searched(concatenation(), options, by_recomputing());
  EXPECT_FALSE(searched.plan().fits);
  EXPECT_EQ(parts_of(searched.session()), 1);
  FitBudgetOptions given = by_recomputing();
  given.plan = FitPlan::from_text(plan_in_parts(), "the plan: ");
  Fitted by_plan(concatenation(), options, given);
  EXPECT_THAT([&] { by_plan.plan(); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("cannot be executed"), HasSubstr("only kernels of a CPU"))));
}

TEST(Parts, AreToldByAnExplanation) {
  const TrainingCase net = concatenation();
  Fitted fitted(net, checked({}, least_in_parts(net, by_recomputing())), by_recomputing());
  (void)fitted.plan();
  const Explanation explanation = explain(fitted.session(), {.fit = by_recomputing(), .price = true});
  int in_parts = 0;
  for (const ExplainedTensor& tensor : explanation.tensors) {
    if (tensor.fate != Fate::in_parts) continue;
    ++in_parts;
    EXPECT_THAT(tensor.reason, HasSubstr("never there as a whole: one of "));
    EXPECT_GT(tensor.stays.size(), 1U);
  }
  EXPECT_GT(in_parts, 3);
  EXPECT_THAT(explanation.text(), AllOf(HasSubstr("in parts"), HasSubstr("never there as a whole")));
  EXPECT_THAT(explanation.json(), HasSubstr("\"in parts\""));
}

TEST(Parts, AreBelowNoBoundOfAFrontier) {
  for (const TrainingCase& net : {concatenation(), wide_head()}) {
    SCOPED_TRACE(net.name);
    const std::size_t least = least_in_parts(net, by_recomputing());
    Fitted fitted(net, checked({}, least), by_recomputing());
    (void)fitted.plan();
    const Explanation explanation = explain(fitted.session(), {.fit = by_recomputing(), .num_budgets = 5});
    ASSERT_TRUE(explanation.frontier);
    const BudgetFrontier& frontier = *explanation.frontier;
    EXPECT_LE(frontier.points.front().budget_bytes, least);
    EXPECT_GE(frontier.points.front().budget_bytes, frontier.working_set_bytes);
    for (const BudgetPoint& point : frontier.points) {
      EXPECT_TRUE(point.fits);
      EXPECT_LE(point.bound_seconds, point.seconds * (1 + 1e-9)) << point.budget_bytes;
    }
  }
}

TEST(Parts, OfAMeasuredProfileArePlannedByItsSeconds) {
  const TrainingCase net = concatenation();
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = net.build(graph, manager);
  Session session(graph, checked({}, least_in_parts(net, by_recomputing())));
  fit_budget(session, by_recomputing());
  session.initialize();
  FeedStore store;
  const FeedTypes types = types_of(built.feeds(0, store));
  const Profile profile = measure_profile(session, {built.loss}, types, {.targets = manager.training_operations()});
  const auto names_parts = [](const auto& known) { return known.first.find(", one of ") != std::string::npos; };
  EXPECT_TRUE(std::ranges::any_of(profile.kernel_seconds, names_parts));
  FitBudgetOptions fit = by_recomputing();
  fit.profile = profile;
  const std::size_t least = least_in_parts(net, fit);
  EXPECT_EQ(first_difference(record_training(net, How::whole, {.steps = 3, .threads = 1}),
                             record_training(net, How::whole, training_in(least, fit))),
            "");
}

TEST(Parts, CountAsMeasuredWhereTheirWholesAre) {
  const TrainingCase net = concatenation();
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = net.build(graph, manager);
  FeedStore store;
  const FeedTypes types = types_of(built.feeds(0, store));
  const auto targets = manager.training_operations();
  Session whole(graph, checked({}, 1_GiB));
  whole.initialize();
  const Profile profile = measure_profile(whole, {built.loss}, types, {.targets = targets});
  Session session(graph, checked({}, least_in_parts(net, by_recomputing())));
  fit_budget(session, by_recomputing());
  (void)session.plan({built.loss}, types, {.targets = targets});
  const auto program = engine(session).latest_program();
  EXPECT_GT(parts_of(session), 1);
  const ConcreteGraph concrete(graph, program->signature);
  const ExecutedSchedule executed{program->schedule, concrete, program->kernels, CopyCarrier::team, 0};
  EXPECT_EQ(measured_share(executed, profile), 1);
  EXPECT_EQ(measured_share(executed, Profile::nominal()), 0);
}

TEST(Parts, AValueThatIsNoNumberIsFoundAtItsPlaceInTheWhole) {
  const TrainingCase net = concatenation();
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = net.build(graph, manager);
  const auto message = [&](std::size_t device_memory) -> std::string {
    Session session(graph, checked({}, device_memory));
    fit_budget(session, by_recomputing());
    session.initialize();
    session.set_value_checks({.nan = true, .infinity = true});
    FeedStore store;
    Feeds feeds = built.feeds(0, store);
    // exp(0.5 * 1e4) is infinite, in the last row alone.
    store[0].values<float>()[store[0].values<float>().size() - 3] = 1e4F;
    try {
      (void)session.run(built.loss, feeds, {.targets = manager.training_operations()});
    } catch (const Error& error) {
      return error.message().substr(0, error.message().find('\n'));
    }
    return "nothing";
  };
  const std::string whole = message(1_GiB);
  EXPECT_THAT(whole, HasSubstr("63"));
  EXPECT_EQ(message(least_in_parts(net, by_recomputing())), whole);
}

}  // namespace
}  // namespace sectionflow::testing
