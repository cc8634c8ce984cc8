#include "examples/models/llama.h"

#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/parameter.h"
#include "graph/transformer.h"

namespace sectionflow {
namespace {

void check_llama(const LlamaOptions& o) {
  SF_CHECK(o.layers > 0 && o.width > 0 && o.heads > 0 && o.key_value_heads > 0 && o.hidden > 0 && o.sequence > 0 &&
               o.vocabulary > 0,
           ArgumentError, "llama of ", o.layers, " layers, width ", o.width, ", ", o.heads, " heads, ",
           o.key_value_heads, " of keys and values, ", o.hidden, " gated units, sequence ", o.sequence, ", vocabulary ",
           o.vocabulary, "; wanted > 0 of each");
  SF_CHECK(o.width % o.heads == 0 && o.width / o.heads % 2 == 0 && o.heads % o.key_value_heads == 0, ArgumentError,
           "llama of width ", o.width, " with ", o.heads, " heads and ", o.key_value_heads,
           " of keys and values; wanted heads of an even width, and a divisor of them for keys and values");
}

TransformerBlockOptions block_options(const LlamaOptions& options, const Initializer& initializer) {
  TransformerBlockOptions block{.hidden = options.hidden,
                                .activation = Activation::silu,
                                .gated = true,
                                .bias = false,
                                .kernel_initializer = initializer,
                                .norm = Norm::rms};
  block.attention = {.heads = options.heads,
                     .key_value_heads = options.key_value_heads,
                     .causal = true,
                     .rotary = RotaryOptions{},
                     .bias = false,
                     .output_bias = false,
                     .kernel_initializer = initializer};
  return block;
}

}  // namespace

Llama build_llama(Graph& graph, GraphSectionManager& manager, const LlamaOptions& options) {
  check_llama(options);
  const std::vector<bool> begins = section_begins(options.cut, options.layers);
  Llama net;
  net.tokens = placeholder(graph, "tokens", {kDynamic, options.sequence}, Dtype::i32);
  net.targets = placeholder(graph, "targets", {kDynamic, options.sequence}, Dtype::i32);
  const Initializer initializer = truncated_normal_initializer(0.02F);
  const TransformerBlockOptions block = block_options(options, initializer);
  const Shape table_shape{options.vocabulary, options.width};

  SectionCutter sections(manager, options.cut);
  const Value table = parameter("token_table", initializer, {graph, table_shape});
  Value x = in_layer_dtype(gather(table, net.tokens));
  for (std::size_t layer = 0; layer < begins.size(); ++layer) {
    if (layer > 0 && begins[layer]) sections.cut();
    x = transformer_block(x, block);
  }
  const Value rows = reshape(rms_norm(x, {.epsilon = block.epsilon, .name = "final_norm"}), {-1, options.width});
  const Value head = options.tied_embeddings ? table : parameter("head", initializer, {graph, table_shape});
  net.logits = matmul(rows, in_dtype(head, rows.dtype()), {.transpose_b = true});
  net.loss = mean(softmax_cross_entropy(net.logits, reshape(net.targets, {-1})));
  sections.end();

  manager.add_training_ops(options.optimizer, net.loss, {.ranks = options.ranks});
  manager.prepare_training();
  return net;
}

}  // namespace sectionflow
