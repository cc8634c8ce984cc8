// A small GPT learns, and learns the same bytes in every cut.

#include "examples/models/gpt.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

constexpr std::int64_t kGptSequence = 12;
constexpr int kGptVocabulary = 29;

GptOptions small_gpt() {
  return {.layers = 3,
          .width = 24,
          .heads = 3,
          .sequence = kGptSequence,
          .vocabulary = kGptVocabulary,
          .optimizer = Adam{.learning_rate = 3e-3F}};
}

/// Tokens [N, T] and the token behind each: along each row the token grows by a step of that row's own, so that what
/// comes next is to be read off the tokens before.
void push_sequences(std::int64_t batch, std::int64_t step, FeedStore& store) {
  const HostTensor drawn = random_classes(2 * batch, kGptVocabulary, 3, step);
  HostTensor tokens(Dtype::i32, {batch, kGptSequence}), targets(Dtype::i32, {batch, kGptSequence});
  for (std::int64_t n = 0; n < batch; ++n) {
    const std::int32_t first = drawn.values<std::int32_t>()[2 * n],
                       by = drawn.values<std::int32_t>()[2 * n + 1] % 3 + 1;
    for (std::int64_t t = 0; t < kGptSequence; ++t) {
      const auto at = [&](std::int64_t i) { return static_cast<std::int32_t>((first + by * i) % kGptVocabulary); };
      tokens.values<std::int32_t>()[n * kGptSequence + t] = at(t);
      targets.values<std::int32_t>()[n * kGptSequence + t] = at(t + 1);
    }
  }
  store.push_back(std::move(tokens));
  store.push_back(std::move(targets));
}

TrainingCase training_of(const GptOptions& options, const std::string& name) {
  return {name, [options](Graph& graph, GraphSectionManager& manager) {
            const Gpt net = build_gpt(graph, manager, options);
            return TrainingNet{net.loss, [net](std::int64_t step, FeedStore& store) {
                                 store.reserve(2);
                                 push_sequences(4, step, store);
                                 return Feeds{{net.tokens, store[0]}, {net.targets, store[1]}, {net.is_training, true}};
                               }};
          }};
}

TEST(Gpt, IsExactInEveryCut) {
  TrainingState whole;
  for (const Cut& cut : {Cut{1}, Cut{2}, Cut::blocks}) {
    GptOptions options = small_gpt();
    options.cut = cut;
    const TrainingCase gpt = training_of(options, "gpt, sections " + std::to_string(cut.sections));
    expect_exact(gpt, {.steps = 5});
    TrainingState state = train(gpt, How::sections, {.steps = 5});
    if (cut == Cut{1})
      whole = std::move(state);
    else
      EXPECT_EQ(first_difference(whole, state), "") << gpt.name;
  }
}

TEST(Gpt, IsExactWithDropoutAndAHeadOfItsOwn) {
  for (int threads : {1, 2}) {
    GptOptions options = small_gpt();
    options.cut = Cut::blocks;
    options.dropout = 0.2F;
    options.tied_embeddings = threads == 1;
    expect_exact(training_of(options, "gpt with dropout"), {.steps = 5, .threads = threads, .poison = true});
  }
}

TEST(Gpt, LearnsToContinueSequences) {
  GptOptions options = small_gpt();
  options.cut = Cut{2};
  const TrainingState state = train(training_of(options, "gpt"), How::sections, {.steps = 150});
  const auto loss = [&](std::size_t step) { return state.losses.at(step).item<float>(); };
  // At first all tokens are alike: log 29 = 3.37.
  EXPECT_NEAR(loss(0), 3.37, 0.1);
  EXPECT_LT(loss(149), loss(0) / 2);
}

TEST(Gpt, TrainsTheGroupsThatAreGivenAlone) {
  Graph graph;
  GraphSectionManager manager(graph);
  GptOptions options = small_gpt();
  options.groups = {{.variables = {"block_2/*", "final_norm/*"}, .optimizer = Sgd{}}, {.frozen = true}};
  build_gpt(graph, manager, options);
  ASSERT_FALSE(manager.updates().gradients.empty());
  for (const GradientAndVariable& pair : manager.updates().gradients) {
    const std::string name = pair.variable.name();
    EXPECT_TRUE(name.starts_with("block_2/") || name.starts_with("final_norm/")) << name;
  }
}

TEST(Gpt, RefusesOptionsThatDoNotFit) {
  const auto refused = [](const GptOptions& options, const std::string& wanted) {
    Graph graph;
    GraphSectionManager manager(graph);
    const std::string text = error_text<ArgumentError>([&] { build_gpt(graph, manager, options); });
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    EXPECT_EQ(graph.num_nodes(), 0);
  };
  GptOptions options = small_gpt();
  options.heads = 5;
  refused(options, "width 24 with 5 heads");
  options = small_gpt();
  options.vocabulary = 0;
  refused(options, "vocabulary 0; wanted > 0");
  options = small_gpt();
  options.cut = Cut{4};
  refused(options, "3 blocks cannot be cut into 4 sections");
}

}  // namespace
}  // namespace sectionflow::testing
