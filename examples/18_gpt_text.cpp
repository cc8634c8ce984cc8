// A small gpt on a text, from the library's layers: cut into windows of characters, trained in sections under a budget
// that the whole graph does not fit, and asked to go on with a text, for which it keeps the keys and values of what
// stands before.

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

constexpr const char* kLicenceFolder = "/usr/share/common-licenses";  // every Debian machine has it
constexpr int kNoText = 77;
constexpr std::int64_t kWindow = 64, kBatch = 8, kWidth = 64, kSteps = 300, kBlocks = 4, kLongest = 256;

/// The same characters in, the next ones out: of windows that it is trained on, and of one character at a position.
struct Net {
  Graph graph;
  GraphSectionManager manager{graph};
  SharedVariables shared{graph, "gpt"};
  Value inputs = placeholder(graph, "inputs", {kDynamic, kWindow}, Dtype::i32);
  Value targets = placeholder(graph, "targets", {kDynamic, kWindow}, Dtype::i32);
  Value loss, next, rate = placeholder(graph, "learning_rate", {});
  Value character = placeholder(graph, "character", {1, 1}, Dtype::i32);
  Value position = placeholder(graph, "position", {}, Dtype::i64);
  std::vector<KeyValueCache> caches;

  Net() {
    const Value logits = logits_of(inputs);
    {
      auto section = manager.new_section("loss");
      loss = mean(cross_entropy(logits, targets));
    }
    manager.add_training_ops(Adam{.learning_rate = rate}, loss);
    manager.prepare_training();
    for (int block = 0; block < kBlocks; ++block) {
      caches.push_back(key_value_cache(graph, {.heads = 2, .head_width = kWidth / 2, .capacity = kLongest}));
    }
    next = logits_of(character);
  }

  /// [N, T, 256] of tokens [N, T]; with caches, of tokens at `position`. Each part is a section of training.
  Value logits_of(Value tokens) {
    const auto names = shared.scope();
    std::optional<SectionScope> section;
    const auto next_section = [&] {
      section.reset();
      if (caches.empty()) section.emplace(manager.new_section());
    };
    next_section();
    Value x = embedding(tokens, {.vocabulary = 256, .width = kWidth});  // [N, T, C]
    for (std::size_t block = 0; block < kBlocks; ++block) {
      next_section();
      MultiHeadAttentionOptions attention{.heads = 2, .causal = true, .window = kWindow, .rotary = RotaryOptions{}};
      if (!caches.empty()) attention.cache = caches[block], attention.position = position;
      x = transformer_block(x, {.attention = attention, .activation = Activation::gelu_tanh});
    }
    return dense(layer_norm(x), {.features = 256});
  }

  /// What a training step takes, whole and in sections.
  void print_peaks() {
    const FeedTypes types = {{inputs, {kBatch, kWindow}}, {targets, {kBatch, kWindow}}, {rate, Shape{}}};
    Session ample(graph);
    const auto whole = ample.plan({loss}, types, {.targets = manager.training_operations()});
    std::cout << "a step of the whole graph takes " << bytes_text(whole.planned_peak_bytes) << ", in "
              << manager.sections().size() << " sections "
              << bytes_text(manager.plan(ample, {loss}, types).planned_peak_bytes) << "\n";
  }
};

/// Goes on with a text, character by character, each drawn by what the net makes of the ones before it.
std::string continued(Net& net, Session& session, std::string text, std::size_t characters) {
  const Vocabulary bytes = Vocabulary::of_bytes();
  const std::size_t length = text.size() + characters;
  for (std::size_t i = 0; text.size() < length; ++i) {
    const HostTensor character = HostTensor::of<std::int32_t>({1, 1}, bytes.tokens_of(text.substr(i, 1)));
    auto [logits] = session.run({net.next}, {{net.character, character}, {net.position, static_cast<std::int64_t>(i)}});
    if (i + 1 < text.size()) continue;  // of what it was asked to go on with
    text += bytes.text_of_tokens(sample(logits, {.temperature = 0.7}, i).values<std::int32_t>());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Trains a small gpt on a licence and lets it write.")) {
    return *status;
  }
  start_logging("18_gpt_text");
  const std::filesystem::path text = std::filesystem::path(kLicenceFolder) / "GPL-3";
  if (!std::filesystem::exists(text)) return kNoText;
  const Dataset windows = Dataset::from(text_source({text}, Vocabulary::of_bytes(), {.window = kWindow}));
  const std::int64_t nine_tenths = *windows.size() * 9 / 10;
  const Dataset train = windows.take(nine_tenths).shuffle({.seed = 1}).batch({.size = kBatch});
  const Dataset test = windows.skip(nine_tenths).batch({.size = kBatch});

  Net net;
  net.print_peaks();
  Session session(net.graph, {.device_memory = 8_MiB, .seed = 1});
  session.initialize();
  Trainer trainer(session, net.manager, {.loss = net.loss, .metrics = {{"perplexity", perplexity(net.loss)}}});
  LearningRate schedule(net.rate, warm_up(20, cosine_rate(3e-3, kSteps)));
  DatasetBatches training(train), testing(test);
  trainer.fit(training, {.max_steps = kSteps, .callbacks = {&schedule}});

  std::cout << continued(net, session, "The licensor ", 100) << "\n";
  const double reached = trainer.evaluate(testing).at("perplexity");
  std::cout << "perplexity of what it has not seen: " << reached << ", of 256 at first\n";
  return reached < 20 ? 0 : 1;
}
