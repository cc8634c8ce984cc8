// Sessions that train together: what each refuses, and how all end where one does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "graph/ops/control.h"
#include "graph/ops/matmul.h"
#include "sectionflow.h"
#include "tests/runtime/variables.h"
#include "tests/support/error_of.h"
#include "tests/support/ranked_training.h"

namespace sectionflow::rank_tests {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::on_ranks;

/// Three sections of a product each. The gradient of the first weight may be asserted to be small.
struct Products {
  explicit Products(std::shared_ptr<Communicator> communicator, TrainingOptions training = {.ranks = 2},
                    float rate = 0.125F, std::optional<float> most = {}) {
    Value y = x;
    for (const char* name : {"a", "b", "c"}) {
      const auto section = manager.new_section(name);
      y = matmul(y, variable(name, fill(graph, {2, 2}, 0.5F)));
    }
    {
      const auto section = manager.new_section("loss");
      loss = mean(square(y));
    }
    std::vector<GradientAndVariable> pairs = compute_gradients(loss);
    if (most) {
      const auto group = graph.enter_group(pairs[0].variable.node().group());
      pairs[0].gradient = assert_that(pairs[0].gradient, pairs[0].gradient < *most, {.text = "gradients are small"});
    }
    manager.add_training_ops(Sgd{.learning_rate = rate}, pairs, training);
    manager.prepare_training();
    session.emplace(graph, SessionOptions{.threads = 1, .communicator = std::move(communicator)});
    session->initialize();
  }
  void cycle(float number = 1, std::int64_t rows = 3) {
    HostTensor numbers(Dtype::f32, {rows, 2});
    for (float& each : numbers.values<float>()) each = number;
    (void)manager.run_full_cycle(*session, {loss}, {{x, numbers}});
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {kDynamic, 2}), loss;
  std::optional<Session> session;
};

using testing_support::error_of;

// ---- Refusals before anything has happened.

TEST(Ranks, WithoutACommunicatorNothingTrains) {
  Products training(nullptr);
  const auto before = variables_of(*training.session);
  EXPECT_THAT(error_of([&] { training.cycle(); }),
              AllOf(HasSubstr("SF-E036"), HasSubstr("2 ranks"), HasSubstr("no communicator")));
  EXPECT_THAT(differing(before, variables_of(*training.session)), IsEmpty());
  // What does not train needs no other rank.
  (void)training.session->run({training.loss}, {{training.x, HostTensor(Dtype::f32, {1, 2})}});
}

TEST(Ranks, WithACommunicatorOfAnotherSizeNothingTrains) {
  EXPECT_THAT(on_ranks(3, [](auto communicator) { Products(std::move(communicator)).cycle(); }),
              Each(AllOf(HasSubstr("SF-E036"), HasSubstr("2 ranks"), HasSubstr("communicator of 3"))));
  EXPECT_THAT(on_ranks(2, [](auto communicator) { Products(std::move(communicator), {}).cycle(); }),
              Each(AllOf(HasSubstr("SF-E036"), HasSubstr("1 rank"), HasSubstr("communicator of 2"))));
}

TEST(Ranks, OneRankTrainsAsNone) {
  Products alone(nullptr, {});
  alone.cycle();
  EXPECT_THAT(on_ranks(1,
                       [&](auto communicator) {
                         Products training(std::move(communicator), {.ranks = 1});
                         training.cycle();
                         EXPECT_THAT(differing(variables_of(*alone.session), variables_of(*training.session)),
                                     IsEmpty());
                       }),
              Each(""));
}

TEST(Ranks, OtherShapesAreToldByAllRanksWhichMayGoOn) {
  EXPECT_THAT(on_ranks(2,
                       [](auto communicator) {
                         const int rank = communicator->rank();
                         Products training(std::move(communicator));
                         const auto before = variables_of(*training.session);
                         EXPECT_THAT(error_of([&] { training.cycle(1, 3 + rank); }),
                                     AllOf(HasSubstr("SF-E512"), HasSubstr("x f32[4,2]"), HasSubstr("x f32[3,2]")));
                         EXPECT_THAT(differing(before, variables_of(*training.session)), IsEmpty());
                         training.cycle();
                         EXPECT_EQ(training.session->completed_cycles(), 1U);
                       }),
              Each(""));
}

TEST(Ranks, AnotherGraphIsToldByAllRanks) {
  EXPECT_THAT(on_ranks(2,
                       [](auto communicator) {
                         const float rate = communicator->rank() == 0 ? 0.5F : 0.25F;
                         Products(std::move(communicator), {.ranks = 2}, rate).cycle();
                       }),
              Each(AllOf(HasSubstr("SF-E512"), HasSubstr("graph"))));
}

TEST(Ranks, AnotherNumberOfCompletedCyclesIsToldByAllRanks) {
  EXPECT_THAT(on_ranks(2,
                       [](auto communicator) {
                         const int rank = communicator->rank();
                         Products training(std::move(communicator));
                         training.session->set_completed_cycles(static_cast<std::uint64_t>(rank));
                         training.cycle();
                       }),
              Each(AllOf(HasSubstr("SF-E512"), HasSubstr("completed cycles: 1"))));
}

TEST(Ranks, ARankThatBeginsAnewIsToldBeforeAnyByteMoves) {
  EXPECT_THAT(on_ranks(2,
                       [](auto communicator) {
                         const int rank = communicator->rank();
                         Products training(std::move(communicator));
                         training.cycle();
                         if (rank == 1) training.session->initialize();
                         const auto before = variables_of(*training.session);
                         EXPECT_THAT(error_of([&] { training.cycle(); }),
                                     AnyOf(HasSubstr("SF-E511"), HasSubstr("for other work")));
                         EXPECT_THAT(differing(before, variables_of(*training.session)), IsEmpty());
                       }),
              Each(""));
}

TEST(Ranks, ShapesThatDifferFromRankToRankAreToldThoughAllHaveTrainedWithEach) {
  EXPECT_THAT(on_ranks(2,
                       [](auto communicator) {
                         const int rank = communicator->rank();
                         Products training(std::move(communicator));
                         training.cycle(1, 3);
                         training.cycle(1, 4);
                         EXPECT_THAT(error_of([&] { training.cycle(1, 3 + rank); }), HasSubstr("for other work"));
                       }),
              Each(""));
}

TEST(Ranks, AStepThatOneRankAloneHasNewIsTold) {
  EXPECT_THAT(on_ranks(2,
                       [](auto communicator) {
                         const int rank = communicator->rank();
                         Products training(std::move(communicator));
                         training.cycle(1, 3);
                         EXPECT_THAT(error_of([&] { training.cycle(1, 3 + rank); }),
                                     AllOf(HasSubstr("SF-E511"), HasSubstr("expect_same")));
                       }),
              Each(""));
}

TEST(Ranks, WhatOneRankAddsToItsGraphAndFetchesIsItsOwnAffair) {
  EXPECT_THAT(
      on_ranks(2,
               [](auto communicator) {
                 const int rank = communicator->rank();
                 Products training(std::move(communicator));
                 training.cycle();
                 const HostTensor numbers = HostTensor::of<float>({1, 2}, {1, 2});
                 if (rank == 0) {
                   const Value twice = training.loss * 2.0F;
                   (void)training.manager.run_full_cycle(*training.session, {twice}, {{training.x, numbers}});
                 } else {
                   (void)training.manager.run_full_cycle(*training.session, {training.loss}, {{training.x, numbers}});
                 }
                 training.cycle();
                 EXPECT_EQ(training.session->completed_cycles(), 3U);
               }),
      Each(""));
}

TEST(Ranks, ARankThatIsRefusedItsFeedsKeepsNobodyWaiting) {
  const auto thrown = on_ranks(
      2,
      [](auto communicator) {
        const int rank = communicator->rank();
        Products training(std::move(communicator));
        if (rank == 0) return training.cycle();
        EXPECT_NE(error_of([&] { (void)training.manager.run_full_cycle(*training.session, {training.loss}, {}); }),
                  "nothing was thrown");
      },
      std::chrono::minutes(60));
  EXPECT_THAT(thrown[0], HasSubstr("SF-E510"));
}

TEST(Ranks, UpdatesByWhatARankHasForItselfAreRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), w = variable("w", fill(graph, {2}, 1.0F));
  const Value seen = variable("seen", fill(graph, {2}, 0.0F), {.trainable = false});
  const Operation own = assign_add(seen, x);
  const Updates updates = training_updates(Sgd{}, mean(w * x), {.ranks = 2});
  std::vector<Operation> targets = updates.operations;
  Session session(graph, {.threads = 1});
  session.initialize();
  const FeedTypes types = {{x, Shape{2}}};
  (void)session.plan({}, types, {.targets = targets});
  targets.push_back(own);
  EXPECT_THAT(error_of([&] { (void)session.plan({}, types, {.targets = targets}); }),
              AllOf(HasSubstr("SF-E036"), HasSubstr("takes 'x'")));
}

TEST(Ranks, MovingAveragesThatTheStepReadsAreRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), w = variable("w", fill(graph, {2}, 1.0F));
  const Value average = variable("average", fill(graph, {2}, 0.0F), {.trainable = false});
  graph.add_to_collection(kUpdateOperations, update_moving_average(average, x, 0.5F));
  const Updates updates = training_updates(Sgd{}, mean(square(w * x + average)), {.ranks = 2});
  std::vector<Operation> targets = updates.operations;
  for (const Operation update : graph.operations(kUpdateOperations)) targets.push_back(update);
  Session session(graph, {.threads = 1});
  EXPECT_THAT(error_of([&] {
                (void)session.plan({}, {{x, Shape{2}}}, {.targets = targets});
              }),
              AllOf(HasSubstr("SF-E036"), HasSubstr("reads the moving average 'average'")));
}

// ---- Ends.

TEST(Ranks, AnExceptionOnOneRankEndsAllWithItsText) {
  for (const int thrower : {0, 2}) {
    const auto thrown = on_ranks(
        3,
        [&](auto communicator) {
          const int rank = communicator->rank();
          Products training(std::move(communicator), {.ranks = 3}, 0.125F, 100.0F);
          training.cycle();
          for (int i = 0; i < 3; ++i) training.cycle(i == 1 && rank == thrower ? 1000 : 1);
        },
        std::chrono::minutes(60));
    for (int rank = 0; rank < 3; ++rank) {
      const char* const code = rank == thrower ? "SF-E312" : "SF-E510";
      EXPECT_THAT(thrown[static_cast<std::size_t>(rank)], AllOf(HasSubstr(code), HasSubstr("gradients are small")));
    }
  }
}

TEST(Ranks, BehindTheFirstUpdateAFailureOfAnotherRankTearsTheSession) {
  const auto thrown = on_ranks(2, [](auto communicator) {
    const int rank = communicator->rank();
    Products training(std::move(communicator), {.ranks = 2}, 0.125F, 100.0F);
    training.cycle();
    EXPECT_NE(error_of([&] { training.cycle(rank == 0 ? 1000 : 1); }), "nothing was thrown");
    // The updates of c came before the last gradients, on the other rank unless it was told before.
    const std::string error = error_of([&] { training.cycle(); });
    EXPECT_THAT(error, AnyOf(HasSubstr("SF-E323"), HasSubstr(rank == 0 ? "SF-E323" : "SF-E510")));
  });
  EXPECT_THAT(thrown, Each(""));
}

TEST(Ranks, BeforeTheFirstUpdateAFailureOfAnotherRankHasChangedNothing) {
  const auto thrown = on_ranks(2, [](auto communicator) {
    const int rank = communicator->rank();
    // All gradients of all ranks are there before the first update.
    Products training(std::move(communicator), {.clip_norm = 1.0F, .ranks = 2}, 0.125F, 100.0F);
    training.cycle();
    const auto before = variables_of(*training.session);
    EXPECT_NE(error_of([&] { training.cycle(rank == 0 ? 1000 : 1); }), "nothing was thrown");
    EXPECT_THAT(differing(before, variables_of(*training.session)), IsEmpty());
    EXPECT_EQ(training.session->completed_cycles(), 1U);
    EXPECT_THAT(error_of([&] { training.cycle(); }), HasSubstr("SF-E510"));
  });
  EXPECT_THAT(thrown, Each(""));
}

TEST(Ranks, AnExceptionOutsideOfASessionEndsAll) {
  const auto thrown = on_ranks(
      2,
      [](const std::shared_ptr<Communicator>& communicator) {
        Products training(communicator);
        training.cycle();
        if (communicator->rank() == 1) throw std::runtime_error("no data");
        training.cycle();
      },
      std::chrono::minutes(60));
  EXPECT_THAT(thrown[0], HasSubstr("SF-E510"));
  EXPECT_EQ(thrown[1], "no data");
}

TEST(Ranks, ARankThatStaysAwayIsNotWaitedForLongerThanTheDeadline) {
  const auto communicators = in_process_communicators(2, {.deadline = milliseconds(50)});
  Products training(communicators[0]);
  EXPECT_THAT(error_of([&] { training.cycle(); }), AllOf(HasSubstr("SF-E510"), HasSubstr("rank 1")));
}

TEST(Ranks, ReportsTellWhatRanksGetInCommon) {
  Products training(nullptr);
  const ProgramReport report = training.manager.plan(*training.session, {training.loss}, {{training.x, Shape{3, 2}}});
  EXPECT_EQ(report.bytes_communicated, 3 * 4 * sizeof(float));
  EXPECT_THAT(report.text(), HasSubstr("in common:  48 B of all ranks"));
}

}  // namespace
}  // namespace sectionflow::rank_tests
