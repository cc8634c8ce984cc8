// What docs/sequences.md shows is compiled and run here, word for word.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "data/dataset.h"
#include "graph/functions.h"
#include "graph/layers.h"
#include "graph/losses.h"
#include "graph/metrics.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/recurrent.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "train/batch_source.h"
#include "train/trainer.h"

namespace sectionflow::sequences_page {
namespace {

/// Texts of 1, 2, ... 10 tokens and then again, each with a class.
Dataset some_texts() {
  return Dataset::generate("texts", [](std::int64_t index) -> std::optional<Example> {
    if (index == 40) return std::nullopt;
    const std::int64_t length = index % 10 + 1;
    HostTensor tokens(Dtype::i32, {length});
    for (std::int32_t& token : tokens.values<std::int32_t>()) token = static_cast<std::int32_t>(index % 7 + 1);
    Example example;
    example.emplace("tokens", std::move(tokens));
    example.emplace("label", HostTensor::scalar(static_cast<std::int32_t>(index % 7)));
    return example;
  });
}

// The page, from here:
constexpr std::int64_t kLength = 8;

/// A text of kLength tokens: cut off, or filled up with zeros; and how many of them are its own.
Example padded(Example example) {
  const auto tokens = example.at("tokens").values<std::int32_t>();
  const std::int64_t length = std::min<std::int64_t>(tokens.size(), kLength);
  HostTensor row(Dtype::i32, {kLength});
  std::copy_n(tokens.begin(), length, row.values<std::int32_t>().begin());
  example.insert_or_assign("tokens", std::move(row));
  example.insert_or_assign("length", HostTensor::scalar(length));
  return example;
}
// to here.

TEST(SequencesPage, PadsToOneLength) {
  const Dataset texts = some_texts();
  // The page, from here:
  const Dataset batches = texts.map({padded, "padded"}).shuffle({.seed = 1}).batch({.size = 4});
  // to here.
  DatasetIterator iterator = batches.iterate();
  std::int64_t counted = 0;
  while (const auto batch = iterator.next()) {
    EXPECT_EQ(batch->at("tokens").shape(), (Shape{4, kLength}));
    const auto lengths = batch->at("length").values<std::int64_t>();
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto row = batch->at("tokens").values<std::int32_t>().subspan(static_cast<std::size_t>(i * kLength), 8);
      EXPECT_EQ(8 - std::count(row.begin(), row.end(), 0), lengths[static_cast<std::size_t>(i)]);
      ++counted;
    }
  }
  EXPECT_EQ(counted, 40);
}

TEST(SequencesPage, PadsToTheLongestOfABucket) {
  const Dataset texts = some_texts();
  // The page, from here:
  const Dataset batches = texts.batch({.size = 4, .pad = true, .bucket_boundaries = {5, 9}, .bucket_by = "tokens"});
  // to here.
  DatasetIterator iterator = batches.iterate();
  while (const auto batch = iterator.next()) EXPECT_LE(batch->at("tokens").shape()[1], 10);
}

TEST(SequencesPage, TokensArePredictedAndCounted) {
  Graph graph;
  GraphSectionManager manager(graph);
  Value loss, num_tokens, accuracy_of_tokens;
  {
    auto section = manager.new_section();
    // The page, from here:
    const Value tokens = placeholder(graph, "tokens", {kDynamic, kLength}, Dtype::i32);
    const Value tags = placeholder(graph, "tags", {kDynamic, kLength}, Dtype::i32);
    const Value lengths = placeholder(graph, "length", {kDynamic}, Dtype::i64);
    const Value is_there = sequence_mask(lengths, kLength);  // [N, T], boolean

    const Value x = embedding(tokens, {.vocabulary = 8, .width = 12});
    const Value logits = dense(gru(x, {.features = 12}).outputs, {.features = 9});  // [N, T, 9]
    loss = weighted_mean(cross_entropy(logits, tags), is_there);
    // to here.
    // The page, from here:
    const Value hits = cast(equal(argmax(logits), tags), Dtype::f32);  // [N, T]
    accuracy_of_tokens = weighted_mean(hits, is_there);
    const Value wavering = perplexity(weighted_mean(cross_entropy(logits, tags), is_there));
    // to here.
    // The page, from here:
    num_tokens = reduce_sum(cast(is_there, Dtype::f32));
    // to here.
    EXPECT_EQ(wavering.type().text(), "f32[]");
  }
  manager.add_training_ops(Adam{.learning_rate = 0.02F}, loss);
  manager.prepare_training();
  // Tags are the tokens; behind a text they are wrong, and harm nothing.
  const auto tagged = [](Example example) {
    example = padded(std::move(example));
    HostTensor tags(Dtype::i32, {kLength});
    const auto tokens = example.at("tokens").values<std::int32_t>();
    std::replace_copy(tokens.begin(), tokens.end(), tags.values<std::int32_t>().begin(), 0, 8);
    example.erase("label");
    example.emplace("tags", std::move(tags));
    return example;
  };
  Session session(graph, {.threads = 1, .seed = 2, .check_schedules = true});
  session.initialize();
  Trainer trainer(session, manager,
                  {.loss = loss, .metrics = {{"accuracy", accuracy_of_tokens}}, .weight = num_tokens});
  DatasetBatches source(some_texts().map({tagged, "tagged"}).batch({.size = 6}));  // and one of four
  trainer.fit(source, {.epochs = 40});
  // The page, from here:
  const Logs results = trainer.evaluate(source);
  const double perplexity_of_all = std::exp(results.at("loss"));
  // to here.
  EXPECT_LT(perplexity_of_all, 1.5);
  EXPECT_NEAR(results.at("accuracy"), 1, 1e-6);
}

TEST(SequencesPage, LabelsThatAreIgnoredCountAsPadding) {
  Graph graph;
  const Value tags = placeholder(graph, "tags", {kDynamic, kLength}, Dtype::i32);
  const Value lengths = placeholder(graph, "length", {kDynamic}, Dtype::i64);
  const Value is_there = sequence_mask(lengths, kLength);
  // The page, from here:
  const Value labels = select(is_there, tags, -100.0F);
  // to here.
  const Value weights = label_weights(labels);
  Session session(graph, {.threads = 1});
  session.initialize();
  const auto [found] = session.run(
      {weights}, {{tags, HostTensor(Dtype::i32, {1, kLength})}, {lengths, HostTensor::of<std::int64_t>({1}, {3})}});
  EXPECT_EQ(std::vector<float>(found.values<float>().begin(), found.values<float>().end()),
            (std::vector<float>{1, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(SequencesPage, ATextIsToldByItsLastStepOrByAMean) {
  Graph graph;
  const Value outputs = placeholder(graph, "outputs", {kDynamic, kLength, 2});
  const Value lengths = placeholder(graph, "length", {kDynamic}, Dtype::i64);
  // The page, from here:
  const Value is_there = sequence_mask(lengths, kLength), is_before = sequence_mask(lengths - 1.0F, kLength);
  const Value is_last = expand_dims(logical_xor(is_there, is_before), 2);        // [N, T, 1]
  const Value last = reduce_sum(select(is_last, outputs, 0.0F), {.axes = {1}});  // [N, H]

  const Value sum = reduce_sum(select(expand_dims(is_there, 2), outputs, 0.0F), {.axes = {1}});
  const Value average = sum / expand_dims(cast(lengths, Dtype::f32), 1);  // [N, H]
  // to here.
  Session session(graph, {.threads = 1});
  session.initialize();
  HostTensor fed(Dtype::f32, {2, kLength, 2});
  for (std::size_t i = 0; i < 32; ++i) fed.values<float>()[i] = i % 16 < 12 ? static_cast<float>(i) : NAN;
  const auto found =
      session.run({last, average}, {{outputs, fed}, {lengths, HostTensor::of<std::int64_t>({2}, {3, 6})}});
  const auto values = [&](std::size_t i) {
    return std::vector<float>(found[i].values<float>().begin(), found[i].values<float>().end());
  };
  EXPECT_EQ(values(0), (std::vector<float>{4, 5, 26, 27}));
  EXPECT_EQ(values(1), (std::vector<float>{2, 3, 21, 22}));
}

}  // namespace
}  // namespace sectionflow::sequences_page
