// Networks whose parts share variables train to the same bits in every strategy, and to those of sharing by hand.

#include "graph/shared_variables.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "graph/parameter.h"
#include "tests/sections/image_nets.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint.h"

namespace sectionflow::testing {
namespace {

// ---- A siamese net.

enum class SiameseCut { towers_apart, layers_apart };

/// Two towers of convolution, batch norm and dropout, and the distance of what they give.
TrainingCase siamese(SiameseCut cut, std::optional<Dtype> precision = std::nullopt) {
  return {"siamese", [=](Graph& graph, GraphSectionManager& manager) {
            const Value left = placeholder(graph, "left", {kDynamic, 8, 8, 3});
            const Value right = placeholder(graph, "right", {kDynamic, 8, 8, 3});
            std::optional<MixedPrecision> layers;
            if (precision) layers.emplace(graph, *precision);
            SharedVariables encoder(graph, "encoder"), head(graph, "head");
            const auto encode = [&](Value x) {
              const auto scope = encoder.scope();
              x = batch_norm(conv2d(x, {.features = 4}), {.decay = 0.9F, .relu = true});
              return dropout(x, {.rate = 0.2F});
            };
            const auto describe = [&](Value x) {
              const auto scope = head.scope();
              return dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 3});
            };
            const auto distance = [](Value a, Value b) {
              return mean(square(cast(a, Dtype::f32) - cast(b, Dtype::f32)));
            };
            Value a, b, loss;
            if (cut == SiameseCut::towers_apart) {
              {
                auto section = manager.new_section("left");
                a = describe(encode(left));
              }
              {
                auto section = manager.new_section("right");
                b = describe(encode(right));
              }
              auto section = manager.new_section("loss");
              loss = distance(a, b);
            } else {
              {
                auto section = manager.new_section("encode");
                a = encode(left);
                b = encode(right);
              }
              auto section = manager.new_section("describe");
              loss = distance(describe(a), describe(b));
            }
            finish(manager, loss);
            const auto feeds = [=](std::int64_t step, FeedStore& store) {
              store.reserve(2);
              store.push_back(random_images({kBatch, 8, 8, 3}, 31, step));
              store.push_back(random_images({kBatch, 8, 8, 3}, 32, step));
              return Feeds{{left, store[0]}, {right, store[1]}};
            };
            return TrainingNet{loss, feeds, {loss}};
          }};
}

TEST(SharedVariables, ASiameseNetTrainsAlikeInEveryStrategy) {
  for (const SiameseCut cut : {SiameseCut::towers_apart, SiameseCut::layers_apart})
    expect_exact(siamese(cut), {.steps = 8});
}

TEST(SharedVariables, ASiameseNetInBf16TrainsAlikeInEveryStrategy) {
  expect_exact(siamese(SiameseCut::towers_apart, Dtype::bf16), {.steps = 6});
}

/// Both towers' dense layer, whose variables are shared by SharedVariables or by hand.
struct DenseTowers {
  explicit DenseTowers(bool by_hand) {
    SharedVariables shared(graph, "tower");
    Value kernel, bias;
    if (by_hand) {
      kernel = parameter("kernel", glorot_uniform(), {graph, {5, 4}, 5, 4});
      bias = parameter("bias", zeros(), {graph, {4}, 5, 4});
    }
    const auto tower = [&](Value x) {
      const auto scope = shared.scope();
      return tanh(by_hand ? bias_add(matmul(x, kernel), bias) : dense(x, {.features = 4}));
    };
    const Value a = tower(left), b = tower(right);
    loss = mean(square(a - b)) + mean(a * b * 0.5F);
    found = gradients(loss, graph.values(kTrainableVariables));
    training = minimize(Adam{.learning_rate = 1e-2F}, loss);
  }

  Graph graph;
  Value left = placeholder(graph, "left", {6, 5}), right = placeholder(graph, "right", {6, 5});
  Value loss;
  std::vector<Value> found;
  std::vector<Operation> training;
};

TEST(SharedVariables, HaveTheGradientsAndTrainingOfOneVariableThatIsUsedTwice) {
  DenseTowers shared(false), by_hand(true);
  Session one(shared.graph, {.threads = 2, .seed = 5}), other(by_hand.graph, {.threads = 2, .seed = 5});
  one.initialize();
  other.initialize();
  for (int step = 0; step < 4; ++step) {
    const HostTensor left = random_images({6, 5}, 1, step), right = random_images({6, 5}, 2, step);
    std::vector<std::vector<HostTensor>> fetched;
    for (auto [towers, session] : {std::pair{&shared, &one}, {&by_hand, &other}}) {
      std::vector<Value> fetches = towers->found;
      fetches.push_back(towers->loss);
      fetched.push_back(
          session->run(fetches, {{towers->left, left}, {towers->right, right}}, {.targets = towers->training}));
    }
    ASSERT_EQ(fetched[0].size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(bitwise_equal(fetched[0][i], fetched[1][i])) << step << " " << i;
  }
}

// ---- A recurrent net.

/// Four steps of one cell over the columns of an image, each step a section or all in one.
TrainingCase recurrent_net(bool one_section_a_step) {
  return {"recurrent", [=](Graph& graph, GraphSectionManager& manager) {
            const Value rows = placeholder(graph, "rows", {kBatch, 4, 6});
            SharedVariables cell(graph, "cell");
            const Value start = fill(graph, {kBatch, 5}, 0);
            const auto step = [&](Value state, int t) {
              const auto scope = cell.scope();
              const Value input = reshape(slice(rows, {{0, t, 0}, {-1, 1, -1}}), {-1, 6});
              const Value both = concat({input, state}, -1);
              const Value gate = sigmoid(dense(both, {.features = 5, .name = "gate"}));
              return gate * state + (1.0F - gate) * tanh(dense(both, {.features = 5}));
            };
            Value state = start, loss;
            if (one_section_a_step) {
              for (int t = 0; t < 4; ++t) {
                auto section = manager.new_section();
                state = step(state, t);
              }
            }
            {
              auto section = manager.new_section();
              for (int t = 0; t < 4 && !one_section_a_step; ++t) state = step(state, t);
              loss = mean(square(dense(state, {.features = 3}) - 1.0F));
            }
            EXPECT_EQ(cell.variables().size(), 4U);
            EXPECT_EQ(graph.values(kTrainableVariables).size(), 6U);
            EXPECT_EQ(state.node().name().substr(0, 7), "cell_3/");
            finish(manager, loss);
            const auto feeds = [=](std::int64_t at, FeedStore& store) {
              store.push_back(random_images({kBatch, 4, 6}, 41, at));
              return Feeds{{rows, store[0]}};
            };
            return TrainingNet{loss, feeds, {loss}};
          }};
}

TEST(SharedVariables, ARecurrentNetOfFourStepsTrainsAlikeInEveryStrategy) {
  expect_exact(recurrent_net(true), {.steps = 8});
  const TrainOptions options{.steps = 8};
  EXPECT_EQ(first_difference(record_training(recurrent_net(true), How::sections, options),
                             record_training(recurrent_net(false), How::whole, options)),
            "");
}

// ---- Averages.

std::vector<float> values_of(const HostTensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

TEST(SharedVariables, MovingAveragesAreUpdatedOnceAScopeInTheOrderOfTheScopes) {
  Graph graph;
  const Value a = placeholder(graph, "a", {2, 1}), b = placeholder(graph, "b", {2, 1});
  SharedVariables shared(graph, "norm");
  Value loss;
  for (const Value& x : {a, b}) {
    const auto scope = shared.scope();
    const Value y = mean(batch_norm(x, {.decay = 0.5F}));
    loss = loss.valid() ? loss + y : y;
  }
  std::vector<Operation> training = minimize(Sgd{}, loss);
  for (const Operation& update : graph.operations(kUpdateOperations)) training.push_back(update);
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor of_a = HostTensor::of<float>({2, 1}, {2, 6}), of_b = HostTensor::of<float>({2, 1}, {0, 16});
  (void)session.run({loss}, {{a, of_a}, {b, of_b}}, {.targets = training});
  // 0 -> (0 + 4) / 2 = 2 -> (2 + 8) / 2.
  EXPECT_EQ(values_of(session.read(graph.find("norm/batch_norm/moving_mean").output())), std::vector<float>{5});
  // 1 -> (1 + 4) / 2 -> (2.5 + 64) / 2.
  EXPECT_EQ(values_of(session.read(graph.find("norm/batch_norm/moving_variance").output())), std::vector<float>{33.25});
}

/// A net with batch norm that is evaluated by averages of its variables too.
struct Averaged {
  Averaged() {
    Value logits;
    const auto classify = [&](Value x) {
      x = batch_norm(dense(x, {.features = 4}), {.decay = 0.5F, .relu = true});
      return mean(square(dense(x, {.features = 2})));
    };
    {
      auto section = manager.new_section();
      const auto scope = net.scope();
      loss = classify(x);
    }
    for (const Value& variable : net.variables()) {
      averages[variable] =
          sectionflow::variable("average/" + variable.name(), initial_value_of(variable), {.trainable = false});
      graph.add_to_collection(kUpdateOperations, update_moving_average(averages[variable], variable, 0.75F));
    }
    // Open to the end: the variables of an optimiser are none of the scope's.
    const auto scope = net.scope([&](Value variable) { return averages.at(variable); });
    by_averages = classify(x);
    manager.add_training_ops(Adam{.learning_rate = 0.1F}, loss);
    manager.prepare_training();
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {6, 3});
  SharedVariables net{graph, "net"};
  std::map<Value, Value> averages;
  Value loss, by_averages;
};

TEST(SharedVariables, EvaluationByAveragesIsThatOfANetWithTheseValues) {
  Averaged averaged, plain;
  Session session(averaged.graph, {.threads = 1}), other(plain.graph, {.threads = 1});
  session.initialize();
  other.initialize();
  for (int step = 0; step < 5; ++step) {
    const HostTensor data = random_images({6, 3}, 9, step);
    (void)averaged.manager.run_full_cycle(session, {averaged.loss}, {{averaged.x, data}});
    const auto [by_averages] = session.run({averaged.by_averages}, {{averaged.x, data}});
    for (const auto& [variable, average] : averaged.averages) {
      other.write(plain.graph.find(variable.name()).output(), session.read(average));
    }
    const auto [by_values] = other.run({plain.loss}, {{plain.x, data}});
    EXPECT_TRUE(bitwise_equal(by_averages, by_values)) << step;
    EXPECT_FALSE(bitwise_equal(by_averages, session.run({averaged.loss}, {{averaged.x, data}})[0]));
  }
  // Two of the net itself; the scope of averages has none of its own.
  EXPECT_EQ(averaged.graph.operations(kUpdateOperations).size(), 2U + averaged.averages.size());
}

// ---- Files.

TEST(SharedVariables, SavedVariablesAndGraphsOfANetWithSharingAreLoaded) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "siamese.safetensors").string();
  const TrainingCase net = siamese(SiameseCut::towers_apart);
  Graph first_graph, second_graph, loaded;
  GraphSectionManager first_manager(first_graph), second_manager(second_graph);
  const TrainingNet first = net.build(first_graph, first_manager), second = net.build(second_graph, second_manager);
  load_graph_text(loaded, graph_text(first_graph));
  Session one(first_graph, {.threads = 2}), other(second_graph, {.threads = 2}), third(loaded, {.threads = 2});
  for (Session* session : {&one, &other, &third}) session->initialize();
  const auto cycle = [&](std::int64_t step) {
    FeedStore store;
    auto [loss] = first_manager.run_full_cycle(one, {first.loss}, first.feeds(step, store));
    return std::move(loss);
  };
  for (std::int64_t step = 0; step < 3; ++step) (void)cycle(step);
  save_variables(one, path);
  load_variables(other, path);
  load_variables(third, path);
  std::vector<Operation> training = loaded.operations(kTrainingOperations);
  for (const Operation& update : loaded.operations(kUpdateOperations)) training.push_back(update);
  for (std::int64_t step = 3; step < 6; ++step) {
    FeedStore store;
    const Feeds feeds = second.feeds(step, store);
    Feeds of_loaded;
    for (const Feed& feed : feeds) of_loaded.push_back({loaded.find(feed.value.name()).output(), feed.data});
    const HostTensor wanted = cycle(step);
    EXPECT_TRUE(bitwise_equal(wanted, second_manager.run_full_cycle(other, {second.loss}, feeds)[0]));
    const Value loss = loaded.node(first.loss.node().id()).output();
    EXPECT_TRUE(bitwise_equal(wanted, third.run({loss}, of_loaded, {.targets = training})[0]));
  }
}

}  // namespace
}  // namespace sectionflow::testing
