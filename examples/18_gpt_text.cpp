// A small gpt on lines of unequal length, padded to one, where padding counts nowhere: trained in sections under a
// budget that the whole graph does not fit, and asked to end lines, for which it keeps the keys and values of what
// stands before.

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
constexpr std::int64_t kLongest = 80, kBatch = 8, kWidth = 64, kSteps = 300, kBlocks = 4;

/// The characters of each line and its end, filled up to kLongest + 1 with zeros, which no text has.
Dataset lines_of(const std::filesystem::path& path) {
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const Example whole = text_source({path}, Vocabulary::of_bytes(), {.window = size - 1})->at(0);
  std::vector<std::int32_t> lines, line;
  for (const std::int32_t token : whole.at("inputs").values<std::int32_t>()) {
    if (std::ssize(line) <= kLongest) line.push_back(token);
    if (token != '\n') continue;
    line.resize(line.size() > 1 ? kLongest + 1 : 0);
    lines.insert(lines.end(), line.begin(), line.end());
    line.clear();
  }
  Example rows;
  rows.emplace("tokens", HostTensor::of<std::int32_t>({std::ssize(lines) / (kLongest + 1), kLongest + 1}, lines));
  return Dataset::from(std::move(rows));
}

/// Characters in, the next ones out: of lines that it is trained on, and of one character at a position.
struct Net {
  Graph graph;
  GraphSectionManager manager{graph};
  SharedVariables shared{graph, "gpt"};
  Value tokens = placeholder(graph, "tokens", {kDynamic, kLongest + 1}, Dtype::i32);
  Value loss, num_tokens, next, rate = placeholder(graph, "learning_rate", {});
  Value character = placeholder(graph, "character", {1, 1}, Dtype::i32);
  Value position = placeholder(graph, "position", {}, Dtype::i64);
  std::vector<KeyValueCache> caches;

  Net() {
    const Value logits = logits_of(slice(tokens, {.begin = {0, 0}, .size = {-1, kLongest}}));
    {
      auto section = manager.new_section("loss");
      const Value targets = slice(tokens, {.begin = {0, 1}, .size = {-1, kLongest}});
      const CrossEntropyOptions of_text{.ignore_index = 0};
      const Value is_there = label_weights(targets, of_text);  // [N, T]
      loss = weighted_mean(cross_entropy(logits, targets, of_text), is_there);
      num_tokens = reduce_sum(is_there);
    }
    manager.add_training_ops(Adam{.learning_rate = rate}, loss);
    manager.prepare_training();
    const KeyValueCacheOptions cache{.heads = 2, .head_width = kWidth / 2, .capacity = kLongest};
    for (int block = 0; block < kBlocks; ++block) caches.push_back(key_value_cache(graph, cache));
    next = logits_of(character);
  }

  /// [N, T, 256] of characters [N, T]; with caches, of those at `position`. Each part is a section of training. Padding
  /// is behind, so that causal attention does not see it; any other would want `.key_lengths`.
  Value logits_of(Value characters) {
    const auto names = shared.scope();
    const auto in_section = [&](auto&& part) {
      if (!caches.empty()) return part();
      const auto section = manager.new_section();
      return part();
    };
    Value x = in_section([&] { return embedding(characters, {.vocabulary = 256, .width = kWidth}); });  // [N, T, C]
    for (std::size_t block = 0; block < kBlocks; ++block) {
      MultiHeadAttentionOptions attention{.heads = 2, .causal = true, .rotary = RotaryOptions{}};
      if (!caches.empty()) attention.cache = caches[block], attention.position = position;
      x = in_section([&] { return transformer_block(x, {.attention = attention}); });
    }
    return in_section([&] { return dense(layer_norm(x), {.features = 256}); });
  }

  /// Ends a line, character by character, each drawn by what the net makes of the ones before it.
  std::string ended(Session& session, std::string line) {
    const Vocabulary bytes = Vocabulary::of_bytes();
    for (std::int64_t i = 0, prompt = std::ssize(line); line.back() != '\n' && std::ssize(line) < kLongest; ++i) {
      const HostTensor token = HostTensor::of<std::int32_t>({1, 1}, bytes.tokens_of(line.substr(i, 1)));
      const auto [logits] = session.run({next}, {{character, token}, {position, i}});
      if (i + 1 >= prompt) line += bytes.text_of_tokens(sample(logits, {.temperature = 0.7}, i).values<std::int32_t>());
    }
    return line;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Trains a small gpt on lines of a licence.")) return *status;
  start_logging("18_gpt_text");
  const std::filesystem::path text = std::filesystem::path(kLicenceFolder) / "GPL-3";
  if (!std::filesystem::exists(text)) return 77;  // no text, no test
  const SplitDataset lines = lines_of(text).split({.validation = 0.1, .seed = 1});
  DatasetBatches train(lines.train.shuffle({.seed = 1}).batch({.size = kBatch}));
  DatasetBatches test(lines.validation.batch({.size = kBatch}));

  Net net;
  Session session(net.graph, {.device_memory = 8_MiB, .seed = 1});
  session.initialize();
  Trainer trainer(session, net.manager, {.loss = net.loss, .weight = net.num_tokens});
  LearningRate schedule(net.rate, warm_up(20, cosine_rate(3e-3, kSteps)));
  trainer.fit(train, {.max_steps = kSteps, .callbacks = {&schedule}});
  for (const char* beginning : {"The licensor ", "You may "}) std::cout << net.ended(session, beginning) << "\n";
  const double reached = std::exp(trainer.evaluate(test).at("loss"));  // of all characters that are there
  std::cout << "perplexity of lines that it has not seen: " << reached << ", of 256 at first\n";
  return reached < 20 ? 0 : 1;
}
