// A language model of two LSTM layers on padded lines of unequal length: cut by time into sections, each with the loss
// of what is there, so that a training step keeps the states between them and the steps of one; then written with.

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;
constexpr const char* kLicenceFolder = "/usr/share/common-licenses";  // every Debian machine has it
constexpr std::int64_t kLongest = 80, kSectionSteps = 20, kBatch = 8, kUnits = 96, kSteps = 400;

/// The characters of each line and its end, filled up to kLongest + 1; and how many of them have another one behind.
Dataset lines_of(const std::filesystem::path& path) {
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const Example whole = text_source({path}, Vocabulary::of_bytes(), {.window = size - 1})->at(0);
  std::vector<std::int32_t> lines, lengths, line;
  for (const std::int32_t token : whole.at("inputs").values<std::int32_t>()) {
    if (std::ssize(line) <= kLongest) line.push_back(token);
    if (token != '\n') continue;
    if (line.size() > 1) lengths.push_back(static_cast<std::int32_t>(line.size() - 1));
    line.resize(line.size() > 1 ? kLongest + 1 : 0);
    lines.insert(lines.end(), line.begin(), line.end());
    line.clear();
  }
  Example rows;
  rows.emplace("tokens", HostTensor::of<std::int32_t>({std::ssize(lengths), kLongest + 1}, lines));
  rows.emplace("lengths", HostTensor::of<std::int32_t>({std::ssize(lengths)}, lengths));
  return Dataset::from(std::move(rows));
}

struct Net {
  Graph graph;
  GraphSectionManager manager{graph};
  SharedVariables variables{graph, "model"};
  Value tokens = placeholder(graph, "tokens", {kDynamic, kLongest + 1}, Dtype::i32);
  Value lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i32);
  Value loss, num_tokens = reduce_sum(cast(lengths, Dtype::f32));
  Value character = placeholder(graph, "character", {1, 1}, Dtype::i32), logits;  // for writing, a step alone
  std::vector<LstmState> before = std::vector<LstmState>(2), after;

  Net() {
    std::vector<LstmState> states(2);  // zeros
    std::vector<Value> sums;
    for (std::int64_t first = 0; first < kLongest; first += kSectionSteps) {
      auto section = manager.new_section();
      const Value part = slice(tokens, {.begin = {0, first}, .size = {-1, kSectionSteps}});
      const Value targets = slice(tokens, {.begin = {0, first + 1}, .size = {-1, kSectionSteps}});
      const Value left = lengths - static_cast<float>(first);  // perhaps less than none
      const Value losses = cross_entropy(logits_of(part, states, left), targets);
      sums.push_back(reduce_sum(select(sequence_mask(left, kSectionSteps), losses, 0.0F)));
    }
    loss = add_n(sums) / num_tokens;
    manager.add_training_ops(Adam{.learning_rate = 8e-3F}, loss);
    manager.prepare_training();
    const auto input = [&](const char* name) { return placeholder(graph, name, {1, kUnits}); };
    for (LstmState& state : before) state = {input("output"), input("cell")};
    logits = logits_of(character, after = before);
  }

  /// [N, T, 256] of characters [N, T], of which `left` are there. Begins with the states, and leaves those behind them.
  Value logits_of(Value characters, std::vector<LstmState>& states, Value left = {}) {
    const auto scope = variables.scope();  // each call finds the variables of the first
    Value x = embedding(characters, {.vocabulary = 256, .width = kUnits});
    for (std::size_t i = 0; i < states.size(); ++i) {
      const LstmResult layer = lstm(x, states[i], {.features = kUnits, .lengths = left, .name = text_of("lstm", i)});
      states[i] = layer.state, x = layer.outputs;
    }
    return dense(x, {.features = 256});
  }

  /// Ends a line, each character drawn by the states that all before it have left.
  std::string ended(Session& session, std::string line) {
    const Vocabulary bytes = Vocabulary::of_bytes();
    std::array<HostTensor, 5> y;  // logits, and two states
    for (HostTensor& state : y) state = HostTensor(Dtype::f32, {1, kUnits});
    for (std::int64_t i = 0, prompt = std::ssize(line); line.back() != '\n' && std::ssize(line) < kLongest; ++i) {
      Feeds feeds = {{character, HostTensor::of<std::int32_t>({1, 1}, bytes.tokens_of(line.substr(i, 1)))}};
      for (int k : {0, 1}) {
        feeds.insert(feeds.end(), {{before[k].output, y[2 * k + 1]}, {before[k].cell, y[2 * k + 2]}});
      }
      y = session.run({logits, after[0].output, after[0].cell, after[1].output, after[1].cell}, feeds);
      if (i + 1 < prompt) continue;  // it is still reading
      line += bytes.text_of_tokens(sample(y[0], {.temperature = 0.7}, i).values<std::int32_t>());
    }
    return line;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Trains an LSTM on lines of a licence.")) return *status;
  start_logging("19_lstm_text");
  const std::filesystem::path text = std::filesystem::path(kLicenceFolder) / "GPL-3";
  if (!std::filesystem::exists(text)) return 77;  // no text, no test
  const SplitDataset lines = lines_of(text).split({.validation = 0.1, .seed = 1});
  DatasetBatches train(lines.train.shuffle({.seed = 1}).batch({.size = kBatch}));
  DatasetBatches test(lines.validation.batch({.size = kBatch}));

  Net net;
  Session session(net.graph, {.device_memory = 16_MiB, .seed = 1});
  session.initialize();
  Trainer trainer(session, net.manager, {.loss = net.loss, .weight = net.num_tokens});
  trainer.fit(train, {.max_steps = kSteps});
  for (const char* beginning : {"The licensor ", "You may "}) std::cout << net.ended(session, beginning) << "\n";
  const double reached = std::exp(trainer.evaluate(test).at("loss"));  // of all characters that are there
  std::cout << "perplexity of lines that it has not seen: " << reached << ", of 256 at first\n";
  return reached < 20 ? 0 : 1;
}
