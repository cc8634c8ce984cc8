// What docs/data.md shows is compiled and run here, word for word.

#include <gtest/gtest.h>

#include <iostream>

#include "sectionflow.h"

namespace sectionflow {
namespace {

TEST(DatasetPage, ATrainingLoopTakesItsBatches) {
  const LabeledImages images = synthetic_mnist({.train_size = 250}).train;
  Graph graph;
  const Value x = placeholder(graph, "images", {kDynamic, 24, 24, 1});
  const Value y = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  const Value loss = mean(softmax_cross_entropy(dense(flatten(x), {.features = 10}), y));
  const std::vector<Operation> training = minimize(Sgd{.learning_rate = 0.1}, loss);
  Session session(graph, {.device_memory = 16_MiB});
  session.initialize();
  // The page, from here:
  const Dataset batches = Dataset::from(images)
                              .shuffle({.seed = 1})
                              .map(maps::random_crop({.height = 24, .width = 24}), {.seed = 1})
                              .map(maps::normalize(), {.threads = 2})
                              .batch({.size = 100})
                              .repeat(3)
                              .prefetch();
  DatasetIterator iterator = batches.iterate();
  while (const auto batch = iterator.next()) {
    session.run({loss}, {{x, batch->at("image")}, {y, batch->at("label")}}, {.targets = training});
  }
  std::cout << "waited for data: " << iterator.statistics().seconds_waited << " s\n";
  // to here.
  EXPECT_EQ(iterator.statistics().examples, 750);
}

}  // namespace
}  // namespace sectionflow
