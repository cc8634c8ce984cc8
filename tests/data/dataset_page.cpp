// What docs/data.md shows is compiled and run here, word for word.

#include <gtest/gtest.h>

#include <iostream>

#include "sectionflow.h"
#include "tests/support/temporary_folder.h"

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

TEST(DatasetPage, AShareIsKeptApartForValidation) {
  const LabeledImages images = synthetic_mnist({.train_size = 250}).train;
  // The page, from here:
  const SplitDataset parts = Dataset::from(images).split({.validation = 0.1, .seed = 1});
  const Dataset train = parts.train.shuffle({.seed = 1}).batch({.size = 100});
  const Dataset validation = parts.validation.batch({.size = 100});
  // to here.
  EXPECT_EQ(train.size(), 3);
  EXPECT_EQ(validation.size(), 1);
  EXPECT_EQ(parts.validation.size(), 25);
}

TEST(DatasetPage, ATableThatIsReadAsOneBatchIsSplit) {
  const TemporaryFolder folder;
  std::string text = "length,species\n";
  for (int row = 0; row < 20; ++row) text += std::to_string(row) + ",1\n";
  const auto flowers = csv_source(folder.file("flowers.csv", text), {{.name = "length", .columns = {"length"}},
                                                                     {.name = "species", .columns = {"species"}}});
  // The page, from here:
  DatasetIterator table = Dataset::from(flowers).batch({.size = 1'000'000}).iterate();
  const SplitDataset kept = Dataset::from(*table.next()).split({.validation = 0.2, .seed = 1});
  // to here.
  EXPECT_EQ(kept.train.size(), 16);
  EXPECT_EQ(kept.validation.size(), 4);
  DatasetIterator first = kept.validation.iterate();
  EXPECT_TRUE(first.next()->contains("species"));
  EXPECT_FALSE(table.next());
}

TEST(DatasetPage, ExamplesAndMapsAreMadeByHand) {
  // The page, from here:
  const Dataset points = Dataset::generate("points", [](std::int64_t index) -> std::optional<Example> {
    if (index == 100) return std::nullopt;
    Example example;
    example.emplace("features", HostTensor::of<float>({2}, {static_cast<float>(index), 0.5F}));
    example.emplace("label", HostTensor::scalar<std::int32_t>(index < 50 ? 0 : 1));
    return example;
  });
  const auto halve = [](Example example) {
    for (float& feature : example.at("features").values<float>()) feature /= 2;
    return example;
  };
  const Dataset halves = points.map({halve, "halve"}).batch({.size = 10});
  // to here.
  DatasetIterator batches = halves.iterate();
  (void)batches.next();
  const auto second = batches.next();
  EXPECT_EQ(second->at("features").shape(), (Shape{10, 2}));
  EXPECT_EQ(second->at("features").values<float>()[0], 5.0F);
  EXPECT_EQ(second->at("features").values<float>()[1], 0.25F);
  EXPECT_EQ(second->at("label").values<std::int32_t>()[9], 0);
}

}  // namespace
}  // namespace sectionflow
