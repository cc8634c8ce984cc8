#include "examples/models/recurrent_lm.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/parameter.h"
#include "graph/recurrent.h"
#include "graph/shared_variables.h"

namespace sectionflow {
namespace {

void check_recurrent_lm(const RecurrentLmOptions& o) {
  SF_CHECK(o.layers > 0 && o.width > 0 && o.sequence > 0 && o.block_steps >= 0 && o.vocabulary > 0, ArgumentError,
           "recurrent language model of ", o.layers, " layers, width ", o.width, ", sequence ", o.sequence,
           ", blocks of ", o.block_steps, " steps, vocabulary ", o.vocabulary,
           "; wanted > 0 of each, or 0 steps of a block");
}

/// Blocks of fewer steps have products of fewer rows, which take longer.
std::int64_t steps_of_block(const RecurrentLmOptions& o) {
  constexpr std::int64_t kSteps = 16, kLeastBlocks = 3;
  return o.block_steps > 0 ? o.block_steps : std::clamp<std::int64_t>(o.sequence / kLeastBlocks, 1, kSteps);
}

/// A stack of recurrent layers over a sequence that comes part by part.
class RecurrentLmBuilder {
 public:
  RecurrentLmBuilder(Graph& graph, const RecurrentLm& net, const RecurrentLmOptions& options)
      : net_(net),
        options_(options),
        variables_(graph, "model"),
        lstm_states_(static_cast<std::size_t>(options.layers)),
        gru_states_(static_cast<std::size_t>(options.layers)) {}

  /// The mean cross entropy of the next `count` steps, from `first` on.
  Value part_loss(std::int64_t first, std::int64_t count) {
    const auto scope = variables_.scope();
    const auto steps = [&](Value x) { return slice(x, {.begin = {0, first}, .size = {-1, count}}); };
    const Value table = tokens_table("token_table");
    Value x = drop(in_layer_dtype(gather(table, steps(net_.tokens))));
    for (std::size_t layer = 0; layer < lstm_states_.size(); ++layer) x = drop(recur(x, layer));
    return mean(softmax_cross_entropy(logits(x, table), reshape(steps(net_.targets), {-1})));
  }

 private:
  Value tokens_table(const char* name) const {
    return parameter(name, truncated_normal_initializer(0.05F),
                     {net_.tokens.graph(), {options_.vocabulary, options_.width}});
  }
  Value drop(Value x) const { return dropout(x, net_.is_training, {.rate = options_.dropout}); }

  Value recur(Value x, std::size_t layer) {
    const std::string name = "layer" + std::to_string(layer);
    if (options_.cell == RecurrentCell::gru) {
      const GruResult result = gru(x, gru_states_[layer], {.features = options_.width, .name = name});
      gru_states_[layer] = result.state;
      return result.outputs;
    }
    const LstmResult result = lstm(x, lstm_states_[layer], {.features = options_.width, .name = name});
    lstm_states_[layer] = result.state;
    return result.outputs;
  }

  /// x [N, steps, C] -> [N steps, vocabulary]
  Value logits(Value x, Value table) const {
    const Value rows = reshape(x, {-1, options_.width});
    const Value kernel = in_dtype(options_.tied_embeddings ? table : tokens_table("head"), x.dtype());
    const Value bias = parameter("head_bias", zeros(), {x.graph(), {options_.vocabulary}});
    return bias_add(matmul(rows, kernel, {.transpose_b = true}), in_dtype(bias, x.dtype()));
  }

  const RecurrentLm& net_;
  const RecurrentLmOptions& options_;
  SharedVariables variables_;
  std::vector<LstmState> lstm_states_;
  std::vector<Value> gru_states_;
};

}  // namespace

RecurrentLm build_recurrent_lm(Graph& graph, GraphSectionManager& manager, const RecurrentLmOptions& options) {
  check_recurrent_lm(options);
  const std::int64_t steps = options.sequence, of_block = steps_of_block(options);
  const std::int64_t blocks = (steps + of_block - 1) / of_block;
  const std::vector<bool> begins = section_begins(options.cut, static_cast<int>(blocks));
  RecurrentLm net;
  net.tokens = placeholder(graph, "tokens", {kDynamic, steps}, Dtype::i32);
  net.targets = placeholder(graph, "targets", {kDynamic, steps}, Dtype::i32);
  net.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  RecurrentLmBuilder builder(graph, net, options);

  SectionCutter sections(manager, options.cut);
  std::vector<Value> losses;
  for (std::int64_t first = 0; first < steps; first += of_block) {
    if (first > 0 && begins[static_cast<std::size_t>(first / of_block)]) sections.cut();
    const std::int64_t count = std::min(of_block, steps - first);
    const float share = static_cast<float>(count) / static_cast<float>(steps);
    losses.push_back(builder.part_loss(first, count) * share);
  }
  net.loss = add_n(losses);
  sections.end();

  manager.add_training_ops(options.optimizer, net.loss, {.ranks = options.ranks});
  manager.prepare_training();
  return net;
}

}  // namespace sectionflow
