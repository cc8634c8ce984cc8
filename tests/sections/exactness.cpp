// Training by sections gives the same bytes as training the whole graph: parameters, slots, statistics, losses.

#include <gtest/gtest.h>

#include "examples/models/mnist_resnet.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

TEST(Exactness, MnistResnetInEveryCutAndThreadCount) {
  for (int threads : {1, 2}) {
    TrainingState whole;
    for (const char* cut : {"1", "2", "4", "blocks"}) {
      const TrainingCase mnist{
          std::string("mnist_resnet, cut ") + cut, [&](Graph& graph, GraphSectionManager& manager) {
            const MnistResnet net = build_mnist_resnet(
                graph, manager, {.cut = cut_named(cut), .optimizer = Adam{.learning_rate = 1e-3F}, .decay = 0.9F});
            return TrainingNet{net.loss, [net](std::int64_t step, FeedStore& store) {
                                 store.reserve(2);
                                 store.push_back(random_images({3, 28, 28, 1}, 5, step));
                                 store.push_back(random_classes(3, 10, 5, step));
                                 return Feeds{{net.images, store[0]}, {net.labels, store[1]}, {net.is_training, true}};
                               }};
          }};
      const TrainOptions options{.steps = 20, .threads = threads};
      if (whole.losses.empty()) whole = train(mnist, How::whole, options);
      EXPECT_EQ(first_difference(whole, train(mnist, How::sections, options)), "")
          << cut << ", " << threads << " threads";
    }
  }
}

TEST(Exactness, SkipConnectionsAcrossSeveralSections) {
  expect_exact({"skips", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value a, b, c, loss;
                  {
                    auto section = manager.new_section();
                    a = conv_norm_relu(in.images, in.is_training, 4);
                  }
                  {
                    auto section = manager.new_section();
                    b = conv_norm_relu(a, in.is_training, 4);
                  }
                  {
                    auto section = manager.new_section();
                    c = conv_norm_relu(b + a, in.is_training, 4);
                  }
                  {
                    auto section = manager.new_section();
                    loss = head_loss(conv_norm_relu(c * a + b, in.is_training, 4), in.labels);
                  }
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(Exactness, VariableUsedInSeveralSectionsIsUpdatedAfterItsLastReader) {
  expect_exact({"shared variable", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value shared, x, loss;
                  {
                    auto section = manager.new_section();
                    x = conv_norm_relu(in.images, in.is_training, 4);
                    shared = variable("shared", random_normal(graph, {3, 3, 4, 4}, {.stddev = 0.1F}));
                    x = relu(conv2d(x, shared));
                  }
                  for (int i = 0; i < 2; ++i) {
                    auto section = manager.new_section();
                    x = relu(conv2d(x, shared)) + x;
                  }
                  {
                    auto section = manager.new_section();
                    loss = head_loss(conv2d(x, shared), in.labels);
                  }
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(Exactness, RandomOperationsReplayTheSameNumbers) {
  expect_exact({"noise", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  // One random tensor outside of all sections, one in each.
                  const Value mask = random_uniform(graph, {8, 8, 4}, {.low = 0.5F, .high = 1.5F});
                  Value x = in.images, loss;
                  for (int i = 0; i < 3; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4) * random_normal(graph, {8, 8, 4}, {.mean = 1.0F});
                    x = x * mask;
                  }
                  loss = head_section(manager, x, in.labels);
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(Exactness, LossAndInputOperationsOutsideOfEverySection) {
  expect_exact({"outside", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  // A trained variable before, operations between and a trained layer after the sections.
                  const Value gain = variable("gain", fill(graph, {3}, 1.5));
                  Value x = in.images * gain;
                  {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4);
                  }
                  x = x * 0.5F + 0.1F;
                  {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 6, 2);
                  }
                  const Value loss = head_loss(relu(conv2d(x, {.features = 4})), in.labels);
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(Exactness, PreprocessedGradientsThatNeedAllSections) {
  expect_exact({"global norm", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value x = in.images, loss;
                  for (int i = 0; i < 3; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4);
                  }
                  loss = head_section(manager, x, in.labels);
                  auto pairs = compute_gradients(loss);
                  Value squares;
                  for (const auto& pair : pairs) {
                    const Value square = reduce_sum(pair.gradient * pair.gradient);
                    squares = squares.valid() ? squares + square : square;
                  }
                  for (auto& pair : pairs) pair.gradient = pair.gradient / (squares + 1.0F);
                  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, pairs);
                  manager.prepare_training();
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(Exactness, SectionWithoutVariablesAndUpdateOperationsInTheMiddle) {
  expect_exact({"no variables", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value x, loss;
                  {
                    auto section = manager.new_section();
                    x = conv_norm_relu(in.images, in.is_training, 4);
                  }
                  {
                    auto section = manager.new_section();
                    x = relu(x * x + 0.5F);
                  }
                  {
                    auto section = manager.new_section();
                    const Value sum = variable("running_sum", fill(graph, {4}, 0), {.trainable = false});
                    graph.add_to_collection(kUpdateOperations, assign_add(sum, reduce_sum(x, {.axes = {0, 1, 2}})));
                    x = relu(x * 2.0F);
                  }
                  loss = head_section(manager, x, in.labels);
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(Exactness, FedLearningRateAndGlobalStep) {
  expect_exact({"fed rate", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  const Value rate = placeholder(graph, "learning_rate", {});
                  const Value step = variable("global_step", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
                  Value x = in.images, loss;
                  for (int i = 0; i < 2; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4);
                  }
                  loss = head_section(manager, x, in.labels);
                  manager.add_training_ops(Adam{.learning_rate = rate}, loss, {.global_step = step});
                  manager.prepare_training();
                  const auto feeds = in.feeds();
                  return TrainingNet{loss, [=](std::int64_t step_index, FeedStore& store) {
                                       Feeds all = feeds(step_index, store);
                                       all.push_back({rate, 0.01F / static_cast<float>(step_index + 1)});
                                       return all;
                                     }};
                }});
}

TEST(Exactness, SmallerLastBatchAndEvaluationBetweenSteps) {
  expect_exact({"last batch", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value x = in.images, loss;
                  for (int i = 0; i < 3; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4);
                  }
                  loss = head_section(manager, x, in.labels);
                  finish(manager, loss);
                  const auto batch_of = [](std::int64_t step) { return step % 4 == 3 ? 2 : kBatch; };
                  // Evaluation normalises by the moving averages, which training has just changed.
                  return TrainingNet{loss, in.feeds(batch_of), {loss}, in.feeds(batch_of, false)};
                }});
}

TEST(Exactness, OneSectionAndAsManySectionsAsLayers) {
  for (int layers_per_section : {1, 100}) {
    expect_exact({"layers per section: " + std::to_string(layers_per_section),
                  [layers_per_section](Graph& graph, GraphSectionManager& manager) {
                    const Inputs in(graph);
                    Value x = in.images, loss;
                    std::optional<SectionScope> section;
                    for (int layer = 0; layer < 6; ++layer) {
                      if (layer % layers_per_section == 0) {
                        section.reset();
                        section.emplace(manager.new_section());
                      }
                      x = layer % 2 == 0 ? conv_norm_relu(x, in.is_training, 4) : x + relu(x);
                    }
                    loss = head_loss(x, in.labels);
                    section.reset();
                    finish(manager, loss, Sgd{.learning_rate = 0.05F});
                    return TrainingNet{loss, in.feeds()};
                  }});
  }
}

TEST(Exactness, PoisonModeChangesNoBit) {
  const TrainingCase poisoned{"poison", [](Graph& graph, GraphSectionManager& manager) {
                                const Inputs in(graph);
                                Value x = in.images, loss;
                                for (int i = 0; i < 3; ++i) {
                                  auto section = manager.new_section();
                                  x = conv_norm_relu(x, in.is_training, 4) + 0.1F;
                                }
                                loss = head_section(manager, x, in.labels);
                                finish(manager, loss);
                                return TrainingNet{loss, in.feeds()};
                              }};
  const TrainingState plain = train(poisoned, How::sections);
  EXPECT_EQ(first_difference(plain, train(poisoned, How::sections, {.poison = true})), "");
  EXPECT_EQ(first_difference(plain, train(poisoned, How::whole, {.poison = true})), "");
  EXPECT_EQ(first_difference(plain, train(poisoned, How::halves, {.poison = true})), "");
}

}  // namespace
}  // namespace sectionflow::testing
