// Training steps of several ranks that are refused, since variables would differ from rank to rank or from those of one
// process, and graphs whose communications are not of its ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/nodes/update.h"
#include "graph/ops/control.h"
#include "sectionflow.h"
#include "tests/support/ranked_training.h"

namespace sectionflow::equal_updates_tests {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// A weight, and what is kept beside it.
struct Kept {
  /// The text with which a step of the updates, of kUpdateOperations and of `others` is refused; "" where it is not.
  std::string refusal(const UpdateOptions& options, const std::vector<Operation>& others = {}) {
    std::vector<Operation> targets = training_updates(Sgd{}, mean(w * x), options, {w}).operations;
    for (const Operation& update : graph.operations(kUpdateOperations)) targets.push_back(update);
    targets.insert(targets.end(), others.begin(), others.end());
    return refusal_of({}, targets);
  }
  std::string refusal_of(const std::vector<Value>& fetches, const std::vector<Operation>& targets) {
    Session session(graph, {.threads = 1});
    try {
      (void)session.plan(fetches, {{x, Shape{2}}}, {.targets = targets});
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  }
  Operation count() { return assign_add(kept, fill(graph, {2}, 1.0F)); }

  Graph graph;
  Value x = placeholder(graph, "x", {2}), w = variable("w", fill(graph, {2}, 1.0F)),
        kept = variable("kept", fill(graph, {2}, 0.0F), {.trainable = false});
};

TEST(EqualUpdates, WhatOneProcessDoesWithEveryMicroBatchIsRefused) {
  Kept in_collection, as_target, alone;
  in_collection.graph.add_to_collection(kUpdateOperations, in_collection.count());
  EXPECT_THAT(in_collection.refusal({.ranks = 2}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("assign_add"), HasSubstr("updates 'kept'"), HasSubstr("2 times"),
                    HasSubstr("global_step")));
  EXPECT_THAT(as_target.refusal({.micro_batches = 2, .ranks = 3}, {as_target.count()}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("updates 'kept'")));
  // By a run of its own.
  EXPECT_EQ(alone.refusal({.ranks = 2}), "");
  EXPECT_EQ(alone.refusal_of({}, {alone.count()}), "");
}

TEST(EqualUpdates, OfOneRankMayBeAny) {
  Kept net;
  net.graph.add_to_collection(kUpdateOperations, net.count());
  EXPECT_EQ(net.refusal({.micro_batches = 2}), "");
}

TEST(EqualUpdates, WhatHappensOnceAnUpdateIsWell) {
  Kept net;
  const Value steps = variable("steps", fill(net.graph, {}, 0, Dtype::i64), {.trainable = false});
  net.graph.add_to_collection(kUpdateOperations, update_moving_average(net.kept, net.x, 0.5F));
  EXPECT_EQ(net.refusal({.global_step = steps,
                         .clip_norm = 1.0F,
                         .micro_batches = 2,
                         .ranks = 2,
                         .skip_non_finite = true,
                         .average = WeightAverageOptions{}}),
            "");
}

TEST(EqualUpdates, MovingAveragesThatTakeNoRowOfEachRankAreRefused) {
  Kept net;
  const Operation late = update_moving_average(net.kept, net.w, 0.5F);
  EXPECT_THAT(net.refusal({.ranks = 2}, {late}), AllOf(HasSubstr("SF-E036"), HasSubstr("updates 'kept'")));
}

TEST(EqualUpdates, WhatBringsTheOldUpdateOfAnAverageAlongIsToldWhatToFollow) {
  Kept net;
  const Operation update = update_moving_average(net.kept, net.x, 0.5F), follower = group(net.graph, {update});
  net.graph.add_to_collection(kUpdateOperations, update);
  EXPECT_THAT(net.refusal({.ranks = 2}, {follower}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("takes 'x'"), HasSubstr("control edge")));
  EXPECT_EQ(net.refusal({.ranks = 2}, {group(net.graph, net.graph.operations(kUpdateOperations))}), "");
}

// ---- Communications, of graphs from files.

TEST(Communications, OfOtherRanksThanTheGraphsAreRefused) {
  for (const bool says_three : {false, true}) {
    Kept net;
    if (says_three) net.graph.add_to_collection(kRanks, constant(net.graph, HostTensor::scalar(std::int64_t{3})));
    for (const Value value : {all_reduced(net.x, 2), all_gathered(net.x, 2), of_last_rank(net.x, 2)}) {
      EXPECT_THAT(net.refusal_of({value}, {}),
                  AllOf(HasSubstr("SF-E036"), HasSubstr("is of 2 ranks"), HasSubstr(says_three ? "of 3" : "of 1")));
    }
    EXPECT_EQ(net.refusal_of({all_reduced(net.x, says_three ? 3 : 1)}, {}), "");
  }
}

TEST(Communications, WithoutACommunicatorAreRefused) {
  Kept net;
  const Value sum = all_reduced(net.x, 1);
  Session session(net.graph, {.threads = 1});
  session.initialize();
  try {
    (void)session.run({sum}, {{net.x, HostTensor(Dtype::f32, {2})}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E036"), HasSubstr("no communicator")));
  }
}

TEST(Communications, OfACommunicatorOfOtherRanksAreRefused) {
  EXPECT_THAT(testing::on_ranks(3,
                                [](std::shared_ptr<Communicator> communicator) {
                                  Kept net;
                                  const Value sum = all_reduced(net.x, 1);
                                  Session session(net.graph, {.threads = 1, .communicator = std::move(communicator)});
                                  session.initialize();
                                  (void)session.run({sum}, {{net.x, HostTensor(Dtype::f32, {2})}});
                                }),
              Each(AllOf(HasSubstr("SF-E036"), HasSubstr("communicator of 3"))));
}

}  // namespace
}  // namespace sectionflow::equal_updates_tests
