// Sequence models: sizes, exactness in every cut, options, and what cutting a recurrent model by time spares.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "examples/models/bert.h"
#include "examples/models/llama.h"
#include "examples/models/recurrent_lm.h"
#include "examples/models/synthetic_batches.h"
#include "examples/models/vit.h"
#include "examples/models/zoo.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

BertOptions small_bert() {
  return {.layers = 3,
          .width = 16,
          .heads = 2,
          .sequence = 12,
          .positions = 20,
          .vocabulary = 31,
          .optimizer = Adam{.learning_rate = 3e-3F}};
}

/// Feeds of masked texts, in whose second half a second segment begins where the model has segments.
TrainingCase bert_training(const BertOptions& options) {
  return {"bert", [options](Graph& graph, GraphSectionManager& manager) {
            const Bert net = build_bert(graph, manager, options);
            return TrainingNet{
                net.loss, [net, options](std::int64_t step, FeedStore& store) {
                  Batch batch = synthetic_masked_tokens(options.sequence, options.vocabulary,
                                                        {.batch = 3, .seed = 5, .step = step});
                  store.reserve(3);
                  store.push_back(std::move(batch.images));
                  store.push_back(std::move(batch.labels));
                  Feeds feeds = {{net.tokens, store[0]}, {net.labels, store[1]}, {net.is_training, true}};
                  if (!options.pairs) return feeds;
                  store.emplace_back(Dtype::i32, Shape{3, options.sequence});
                  const auto segments = store[2].values<std::int32_t>();
                  for (std::size_t i = 0; i < segments.size(); ++i) {
                    segments[i] = static_cast<std::int64_t>(i) % options.sequence >= 7 ? 1 : 0;
                  }
                  feeds.push_back({net.segments, store[2]});
                  return feeds;
                }};
          }};
}

RecurrentLmOptions small_lm(RecurrentCell cell) {
  return {.cell = cell, .width = 12, .sequence = 10, .vocabulary = 23, .optimizer = Adam{.learning_rate = 3e-3F}};
}

TrainingCase lm_training(const RecurrentLmOptions& options) {
  return {"recurrent language model", [options](Graph& graph, GraphSectionManager& manager) {
            const RecurrentLm net = build_recurrent_lm(graph, manager, options);
            return TrainingNet{net.loss, [net, options](std::int64_t step, FeedStore& store) {
                                 Batch batch = synthetic_tokens(options.sequence, options.vocabulary,
                                                                {.batch = 3, .seed = 5, .step = step});
                                 store.reserve(2);
                                 store.push_back(std::move(batch.images));
                                 store.push_back(std::move(batch.labels));
                                 return Feeds{{net.tokens, store[0]}, {net.targets, store[1]}, {net.is_training, true}};
                               }};
          }};
}

/// Trains by every strategy in one section a block, and compares the bytes with those of other cuts.
template <class Options, class Training>
void expect_exact_in_cuts(Options options, const Training& training) {
  const TrainOptions steps{.steps = 2};
  const TrainingState whole = train(training(options), How::whole, steps);
  for (const Cut& cut : {Cut{2}, Cut::blocks}) {
    options.cut = cut;
    EXPECT_EQ(first_difference(whole, train(training(options), How::sections, steps)), "")
        << cut.sections << " sections";
  }
  const auto failure = find_failure(training(options), steps);
  EXPECT_FALSE(failure) << failure->text;
}

TEST(Bert, IsExactInEveryCutWithPairsAndDropout) {
  BertOptions options = small_bert();
  options.dropout = 0.2F;
  expect_exact_in_cuts(options, bert_training);
}

TEST(Bert, HasTheSameVariablesWithoutPairs) {
  BertOptions options = small_bert();
  Graph pairs, texts;
  GraphSectionManager of_pairs(pairs), of_texts(texts);
  (void)build_bert(pairs, of_pairs, options);
  options.pairs = false;
  (void)build_bert(texts, of_texts, options);
  EXPECT_EQ(num_parameters(pairs), num_parameters(texts));
}

TEST(Bert, OfBatchesWithoutAGapHasTheLossZero) {
  Graph graph;
  GraphSectionManager manager(graph);
  BertOptions options = small_bert();
  options.pairs = false;
  const Bert net = build_bert(graph, manager, options);
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor tokens(Dtype::i32, {1, 12}),
      labels = HostTensor::of<std::int32_t>({1, 12}, std::vector<std::int32_t>(12, -100));
  const auto [loss] = manager.run_full_cycle(session, {net.loss},
                                             {{net.tokens, tokens}, {net.labels, labels}, {net.is_training, true}});
  EXPECT_EQ(loss.item<float>(), 0);
}

TEST(RecurrentLm, IsExactInEveryCut) {
  RecurrentLmOptions options = small_lm(RecurrentCell::lstm);  // blocks of 4, 4 and 2 steps
  options.dropout = 0.2F;
  expect_exact_in_cuts(options, lm_training);
}

TEST(RecurrentLm, IsExactWithGruAndAHeadOfItsOwn) {
  RecurrentLmOptions options = small_lm(RecurrentCell::gru);
  options.tied_embeddings = false;
  expect_exact_in_cuts(options, lm_training);
}

TEST(RecurrentLm, HasTheSameLossWhereverItsBlocksEnd) {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    RecurrentLmOptions options = small_lm(cell);
    const float wanted = train(lm_training(options), How::whole, {.steps = 1}).losses[0].item<float>();
    EXPECT_NEAR(wanted, std::log(23.0), 0.2);
    for (const std::int64_t steps : {1, 3, 10}) {
      options.block_steps = steps;
      const float found = train(lm_training(options), How::whole, {.steps = 1}).losses[0].item<float>();
      EXPECT_NEAR(found, wanted, 1e-5F) << steps << " steps a block";
    }
  }
}

TEST(RecurrentLm, HasTheVariablesOfItsLayers) {
  Graph graph;
  GraphSectionManager manager(graph);
  (void)build_recurrent_lm(graph, manager, small_lm(RecurrentCell::lstm));
  EXPECT_EQ(num_parameters(graph), 23 * 12 + 23 + 2 * (2 * 12 * 48 + 48));
}

TEST(RecurrentLm, InSectionsByTimeTakesAQuarterOfTheWhole) {
  // Beside what stays: variables, slots and feeds. 256 steps of 64 texts through 512 units, in 16 sections.
  const auto transient_peak = [](const Cut& cut) {
    Graph graph;
    GraphSectionManager manager(graph);
    const RecurrentLm net = build_recurrent_lm(
        graph, manager, {.layers = 1, .width = 512, .sequence = 256, .block_steps = 16, .vocabulary = 256, .cut = cut});
    Session session(graph, {.threads = 1});
    const FeedTypes types = {{net.tokens, {64, 256}}, {net.targets, {64, 256}}, {net.is_training, true}};
    const ProgramReport plan = cut == Cut{}
                                   ? session.plan({net.loss}, types, {.targets = manager.training_operations()})
                                   : manager.plan(session, {net.loss}, types);
    return static_cast<double>(plan.planned_peak_bytes - plan.persistent_bytes);
  };
  const double whole = transient_peak({}), sections = transient_peak({16});
  RecordProperty("share_of_the_whole", std::to_string(sections / whole));
  EXPECT_LE(sections, 0.25 * whole);
}

TEST(SequenceModels, RefuseOptionsThatDoNotFit) {
  const auto refused_bert = [](const BertOptions& options) {
    Graph graph;
    GraphSectionManager manager(graph);
    EXPECT_THROW(build_bert(graph, manager, options), ArgumentError);
    EXPECT_EQ(graph.num_nodes(), 0);
  };
  BertOptions bert = small_bert();
  bert.heads = 3;
  refused_bert(bert);
  bert = small_bert();
  bert.positions = 11;
  refused_bert(bert);
  bert = small_bert();
  bert.cut = Cut{4};
  refused_bert(bert);

  Graph graph;
  GraphSectionManager manager(graph);
  EXPECT_THROW(build_llama(graph, manager, {.width = 12, .heads = 4, .key_value_heads = 2}), ArgumentError) << "odd";
  EXPECT_THROW(build_llama(graph, manager, {.heads = 32, .key_value_heads = 5}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), 0);
  EXPECT_THROW(vit({.heads = 5}), ArgumentError);
  EXPECT_THROW(vit({.layers = 0}), ArgumentError);
  EXPECT_THROW(zoo_model("vit_small", {.image = 40}).build(graph, manager), ShapeError) << "of patches of 16";
  EXPECT_THROW(zoo_model("lstm_lm", {.heads = 2}), ArgumentError);
  EXPECT_THROW(zoo_model("bert_base", {.classes = 2}), ArgumentError);
  EXPECT_THROW(build_recurrent_lm(graph, manager, {.block_steps = -1}), ArgumentError);
  EXPECT_THROW(build_recurrent_lm(graph, manager, {.sequence = 8, .block_steps = 4, .cut = {3}}), ArgumentError);
}

TEST(SyntheticMaskedTokens, AreTheTextsWithGaps) {
  const BatchAddress address{.batch = 40, .seed = 2, .step = 1};
  const Batch masked = synthetic_masked_tokens(50, 20, address), full = synthetic_tokens(50, 19, address);
  const auto tokens = masked.images.values<std::int32_t>(), labels = masked.labels.values<std::int32_t>();
  const auto texts = full.images.values<std::int32_t>();
  std::int64_t gaps = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_gap = labels[i] != -100;
    EXPECT_EQ(tokens[i], is_gap ? 19 : texts[i]);
    EXPECT_EQ(labels[i], is_gap ? texts[i] : -100);
    gaps += is_gap ? 1 : 0;
    EXPECT_TRUE(is_gap || i % 50 > 0);
  }
  EXPECT_NEAR(static_cast<double>(gaps) / 2000, 1.0 / 7, 0.05);
}

}  // namespace
}  // namespace sectionflow::testing
