// A small gpt on a text, from the library's layers: cut into windows of characters, trained in sections under a budget
// that the whole graph does not fit, and asked to go on with a text.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

constexpr const char* kLicenceFolder = "/usr/share/common-licenses";  // every Debian machine has it
constexpr int kNoText = 77;
constexpr std::int64_t kWindow = 64, kBatch = 8, kWidth = 64, kSteps = 300;

/// The same characters in, the next ones out.
struct Net {
  Graph graph;
  GraphSectionManager manager{graph};
  Value inputs = placeholder(graph, "inputs", {kDynamic, kWindow}, Dtype::i32);
  Value targets = placeholder(graph, "targets", {kDynamic, kWindow}, Dtype::i32);
  Value rate = placeholder(graph, "learning_rate", {});
  Value logits, loss;

  Net() {
    Value x;
    {
      auto section = manager.new_section("embedding");
      x = embedding(inputs, {.vocabulary = 256, .width = kWidth});  // [N, T, C]
    }
    MultiHeadAttentionOptions attention{.heads = 2, .causal = true, .rotary = RotaryOptions{}};
    for (int block = 0; block < 4; ++block) {
      auto section = manager.new_section();
      x = transformer_block(x, {.attention = attention, .activation = Activation::gelu_tanh});
    }
    {
      auto section = manager.new_section("head");
      logits = dense(layer_norm(x), {.features = 256});  // [N, T, 256]
      loss = mean(cross_entropy(logits, targets));
    }
    manager.add_training_ops(Adam{.learning_rate = rate}, loss);
    manager.prepare_training();
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

/// Goes on with a text, character by character, each drawn by what the net makes of the window before it.
std::string continued(Net& net, Session& session, std::string text, std::int64_t characters) {
  const Vocabulary bytes = Vocabulary::of_bytes();
  for (std::int64_t i = 0; i < characters; ++i) {
    const std::size_t seen = std::min<std::size_t>(text.size(), kWindow);
    std::vector<std::int32_t> window = bytes.tokens_of(text.substr(text.size() - seen));
    window.resize(kWindow);  // what stands behind the text does not matter: nothing looks ahead
    auto [logits] = session.run({net.logits}, {{net.inputs, HostTensor::of<std::int32_t>({1, kWindow}, window)}});
    const HostTensor next = sample(logits, {.temperature = 0.7}, static_cast<std::uint64_t>(i));  // [1, T]
    text += bytes.text_of_tokens(next.values<std::int32_t>().subspan(seen - 1, 1));
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
