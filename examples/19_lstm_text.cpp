// A language model of two LSTM layers on a text: cut by time into sections, with the loss in each, so that a training
// step keeps the states between sections and the steps of one; then written with step by step, the state carried on.

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
constexpr std::int64_t kWindow = 32, kSectionSteps = 8, kBatch = 16, kUnits = 96, kSteps = 500;

/// Two layers over some steps, and what they make of the next character.
struct Stack {
  explicit Stack(Graph& graph) : variables(graph, "model") {}

  /// Logits [N, steps, 256] of tokens [N, steps]; begins with the states, and leaves those behind the last step.
  Value operator()(Value tokens, std::vector<LstmState>& states) {
    const auto scope = variables.scope();  // each call finds the variables of the first
    Value x = embedding(tokens, {.vocabulary = 256, .width = kUnits});
    for (std::size_t layer = 0; layer < states.size(); ++layer) {
      const LstmResult result = lstm(x, states[layer], {.features = kUnits, .name = "lstm" + std::to_string(layer)});
      states[layer] = result.state;
      x = result.outputs;
    }
    return dense(x, {.features = 256});
  }

  SharedVariables variables;
};

struct Net {
  Graph graph;
  GraphSectionManager manager{graph};
  Stack stack{graph};
  Value inputs = placeholder(graph, "inputs", {kDynamic, kWindow}, Dtype::i32);
  Value targets = placeholder(graph, "targets", {kDynamic, kWindow}, Dtype::i32);
  Value loss;
  // A step alone, for writing: a character and the states before it, and what comes of them.
  Value character = placeholder(graph, "character", {1, 1}, Dtype::i32), logits;
  std::vector<LstmState> before, after;

  Net() {
    std::vector<LstmState> states(2);  // zeros
    std::vector<Value> losses;
    for (std::int64_t first = 0; first < kWindow; first += kSectionSteps) {
      auto section = manager.new_section();
      const SliceOptions part{.begin = {0, first}, .size = {-1, kSectionSteps}};
      losses.push_back(mean(cross_entropy(stack(slice(inputs, part), states), slice(targets, part))));
      if (first + kSectionSteps == kWindow) loss = add_n(losses) / static_cast<float>(losses.size());
    }
    manager.add_training_ops(Adam{.learning_rate = 8e-3F}, loss);
    manager.prepare_training();

    for (int layer = 0; layer < 2; ++layer) {
      before.push_back({placeholder(graph, "output", {1, kUnits}), placeholder(graph, "cell", {1, kUnits})});
    }
    after = before;
    logits = stack(character, after);
  }

  /// Goes on with a text, each character drawn by the states that all before it have left.
  std::string continued(Session& session, std::string text, std::size_t characters) {
    const Vocabulary bytes = Vocabulary::of_bytes();
    const std::vector<Value> fetches = {logits, after[0].output, after[0].cell, after[1].output, after[1].cell};
    std::vector<HostTensor> found(5);
    for (HostTensor& state : found) state = HostTensor(Dtype::f32, {1, kUnits});
    for (std::size_t i = 0, prompt = text.size(); i + 1 < prompt + characters; ++i) {
      const HostTensor token = HostTensor::of<std::int32_t>({1, 1}, bytes.tokens_of(text.substr(i, 1)));
      found = session.run(fetches, {{character, token},
                                    {before[0].output, found[1]},
                                    {before[0].cell, found[2]},
                                    {before[1].output, found[3]},
                                    {before[1].cell, found[4]}});
      if (i + 1 < prompt) continue;  // it is still reading
      text += bytes.text_of_tokens(sample(found[0], {.temperature = 0.7}, i).values<std::int32_t>());
    }
    return text;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Trains an LSTM on a licence and lets it write.")) {
    return *status;
  }
  start_logging("19_lstm_text");
  const std::filesystem::path text = std::filesystem::path(kLicenceFolder) / "GPL-3";
  if (!std::filesystem::exists(text)) return kNoText;
  const Dataset windows = Dataset::from(text_source({text}, Vocabulary::of_bytes(), {.window = kWindow}));
  const std::int64_t nine_tenths = *windows.size() * 9 / 10;
  DatasetBatches train(windows.take(nine_tenths).shuffle({.seed = 1}).batch({.size = kBatch}));
  DatasetBatches test(windows.skip(nine_tenths).batch({.size = kBatch}));

  Net net;
  Session session(net.graph, {.device_memory = 16_MiB, .seed = 1});
  session.initialize();
  Trainer trainer(session, net.manager, {.loss = net.loss, .metrics = {{"perplexity", perplexity(net.loss)}}});
  trainer.fit(train, {.max_steps = kSteps});

  std::cout << net.continued(session, "The licensor ", 100) << "\n";
  const double reached = trainer.evaluate(test).at("perplexity");
  std::cout << "perplexity of what it has not seen: " << reached << ", of 256 at first\n";
  return reached < 20 ? 0 : 1;
}
