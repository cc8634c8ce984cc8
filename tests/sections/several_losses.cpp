// Losses in different sections, and groups of variables, train the same bits by every strategy.

#include <gtest/gtest.h>

#include <vector>

#include "tests/sections/small_net.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

/// Three sections; the first has a loss of its own, the last one too, and the sum stands outside of all.
struct TwoHeads : SmallInputs {
  TwoHeads(Graph& graph, GraphSectionManager& manager) : SmallInputs(graph) {
    Value x = images;
    for (int k = 0; k < 3; ++k) {
      const auto section = manager.new_section();
      x = relu(batch_norm(conv2d(x, {.features = 4}), is_training, {.decay = 0.9F}));
      if (k == 0) early = mean(square(reduce_mean(x, {.axes = {1, 2}})));
      if (k < 2) continue;
      late = mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 5}), labels));
    }
    loss = weighted_sum({{late}, {early, 0.25}});
  }
  Value early, late, loss;
};

/// By the whole graph, cycles, halves and all by turns.
void expect_same(const TrainingCase& training_case, const TrainOptions& options) {
  const auto failure = find_failure(training_case, options);
  EXPECT_FALSE(failure) << failure->text;
}

TEST(SeveralLosses, InDifferentSectionsTrainTheSameBitsByEveryStrategy) {
  expect_exact(
      {"two heads",
       [](Graph& graph, GraphSectionManager& manager) {
         const TwoHeads net(graph, manager);
         manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss, {.micro_batches = 2});
         manager.prepare_training();
         return TrainingNet{
             .loss = net.loss, .feeds = net.random_feeds(), .evaluated = {net.early, net.late}, .micro_batches = 2};
       }},
      {.steps = 6});
}

TEST(SeveralLosses, EachMayBeFetchedBesideTheirSum) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TwoHeads net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 2, .check_schedules = true});
  session.initialize();
  for (std::int64_t step = 0; step < 2; ++step) {
    FeedStore store;
    const auto [sum, early, late] =
        manager.run_full_cycle(session, {net.loss, net.early, net.late}, net.random_feeds()(step, store));
    EXPECT_EQ(sum.item<float>(), late.item<float>() + early.item<float>() * 0.25F);
  }
}

TEST(SeveralLosses, ParameterGroupsTrainTheSameBitsByEveryStrategy) {
  expect_same({"groups",
               [](Graph& graph, GraphSectionManager& manager) {
                 const TwoHeads net(graph, manager);
                 const auto trained = manager.add_training_ops(
                     {{.variables = "conv2d/*", .frozen = true},
                      {.variables = {"conv2d_?/kernel"}, .optimizer = Momentum{}, .weight_decay = 0.1F},
                      {.variables = "dense/*", .optimizer = AdamW{}},
                      {.optimizer = Sgd{}}},
                     net.loss, {.clip_norm = 0.1F, .average = WeightAverageOptions{.decay = 0.9F}});
                 EXPECT_EQ(trained.size(), 3U);
                 manager.prepare_training();
                 return TrainingNet{.loss = net.loss, .feeds = net.random_feeds()};
               }},
              {.steps = 5});
}

TEST(SeveralLosses, WithoutAGroupForAVariableNothingIsAdded) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TwoHeads net(graph, manager);
  const int before = graph.num_nodes();
  EXPECT_THROW(manager.add_training_ops({{.variables = "dense/*", .optimizer = Sgd{}}}, net.loss), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(manager.training_operations().empty());
  EXPECT_TRUE(manager.updates().gradients.empty());
  manager.add_training_ops({{.optimizer = Sgd{}}}, net.loss);
  EXPECT_FALSE(manager.updates().gradients.empty());
}

}  // namespace
}  // namespace sectionflow::testing
