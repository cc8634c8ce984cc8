// Clipping by the global norm needs every gradient before the first update: the sections' updates then wait for the run
// of the lowest, and still give the bytes of training the whole graph.

#include <gtest/gtest.h>

#include <cmath>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "tests/sections/small_net.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

/// A loss behind six layers, so many of them a section, the head in the last; two layers share a kernel.
SmallInputs cut_net(Graph& graph, GraphSectionManager& manager, int layers_per_section, Value& loss) {
  const SmallInputs in(graph);
  std::optional<SectionScope> section;
  Value x = in.images, shared;
  for (int layer = 0; layer < 6; ++layer) {
    if (layer % layers_per_section == 0) {
      section.reset();
      section.emplace(manager.new_section());
    }
    if (layer == 1) shared = variable("shared", random_normal(graph, {3, 3, 4, 4}, {.stddev = 0.2F}));
    const bool shares = layer == 1 || layer == 4;
    const Value y = shares ? conv2d(x, shared) : conv2d(x, {.features = 4});
    x = batch_norm(y, in.is_training, {.decay = 0.9F, .relu = true});
  }
  loss = mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 5}), in.labels));
  return in;
}

TrainingCase clipped(int layers_per_section, const Optimizer& optimizer, std::optional<float> max_norm) {
  return {text_of("layers per section: ", layers_per_section), [=](Graph& graph, GraphSectionManager& manager) {
            Value loss;
            const SmallInputs in = cut_net(graph, manager, layers_per_section, loss);
            manager.add_training_ops(optimizer, loss, {.clip_norm = max_norm});
            manager.prepare_training();
            return TrainingNet{loss, in.random_feeds()};
          }};
}

constexpr float kOftenExceeded = 0.1F;

TEST(Clipped, TrainsTheSameBytesInEveryCut) {
  const Momentum optimizer{.learning_rate = 0.1F};
  const TrainingState whole = train(clipped(6, optimizer, kOftenExceeded), How::whole);
  for (int layers_per_section : {1, 2, 4, 6}) {
    const TrainingCase cut = clipped(layers_per_section, optimizer, kOftenExceeded);
    expect_exact(cut);
    EXPECT_EQ(first_difference(whole, train(cut, How::sections)), "") << cut.name;
  }
}

TEST(Clipped, TrainsTheSameBytesWithSlotsAndStepCounters) {
  expect_exact(clipped(2, Adam{.learning_rate = 1e-2F}, kOftenExceeded));
  expect_exact(clipped(2, AdamW{.learning_rate = 1e-2F}, kOftenExceeded));
}

TEST(Clipped, MaximumThatIsNeverReachedChangesNothingAndALowOneDoes) {
  const Sgd optimizer{.learning_rate = 0.1F};
  const TrainingState plain = train(clipped(2, optimizer, std::nullopt), How::sections);
  EXPECT_EQ(first_difference(plain, train(clipped(2, optimizer, 1e6F), How::sections)), "");
  EXPECT_NE(first_difference(plain, train(clipped(2, optimizer, kOftenExceeded), How::sections)), "");
}

TEST(Clipped, OptionDoesWhatTreatedGradientsDo) {
  const Sgd optimizer{.learning_rate = 0.1F};
  const TrainingCase by_hand{"by hand", [=](Graph& graph, GraphSectionManager& manager) {
                               Value loss;
                               const SmallInputs in = cut_net(graph, manager, 2, loss);
                               const auto clipped = clip_by_global_norm(compute_gradients(loss), kOftenExceeded);
                               manager.add_training_ops(optimizer, clipped.gradients);
                               manager.prepare_training();
                               return TrainingNet{loss, in.random_feeds()};
                             }};
  expect_exact(by_hand);
  EXPECT_EQ(
      first_difference(train(by_hand, How::sections), train(clipped(2, optimizer, kOftenExceeded), How::sections)), "");
}

TEST(Clipped, NormMayBeFetchedAndIsThatOfTheWholeGraph) {
  std::vector<HostTensor> norms;
  for (bool whole : {true, false}) {
    Graph graph;
    GraphSectionManager manager(graph);
    Value loss;
    const SmallInputs in = cut_net(graph, manager, 2, loss);
    const auto clipped = clip_by_global_norm(compute_gradients(loss), kOftenExceeded);
    const auto trained = manager.add_training_ops(Sgd{}, clipped.gradients);
    // All updates wait for the gradients of the lowest section.
    EXPECT_EQ(trained[0].gradient_applications, static_cast<int>(clipped.gradients.size()));
    EXPECT_EQ(trained[1].gradient_applications, 0);
    manager.prepare_training();
    EXPECT_EQ(manager.evaluated_in(clipped.norm), 0);
    Session session(graph, {.threads = 2, .check_schedules = true});
    session.initialize();
    FeedStore store;
    const Feeds feeds = in.random_feeds()(0, store);
    auto [norm] = whole ? session.run({clipped.norm}, feeds, {.targets = manager.training_operations()})
                        : manager.run_full_cycle(session, {clipped.norm}, feeds);
    EXPECT_GT(norm.item<float>(), kOftenExceeded);
    norms.push_back(std::move(norm));
  }
  EXPECT_TRUE(bitwise_equal(norms[0], norms[1]));
}

TEST(Clipped, NumberThatIsNoMaximumIsRefusedAndAddsNothing) {
  Graph graph;
  GraphSectionManager manager(graph);
  const SmallNet net(graph, manager);
  const int before = graph.num_nodes();
  for (float max_norm : {0.0F, -1.0F, NAN}) {
    EXPECT_THROW(manager.add_training_ops(Sgd{}, net.loss, {.clip_norm = max_norm}), ArgumentError);
  }
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow::testing
