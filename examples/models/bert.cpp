#include "examples/models/bert.h"

#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "graph/transformer.h"

namespace sectionflow {
namespace {

constexpr float kEpsilon = 1e-12F;  // of the norms

void check_bert(const BertOptions& o) {
  SF_CHECK(o.layers > 0 && o.width > 0 && o.heads > 0 && o.sequence > 0 && o.vocabulary > 0, ArgumentError, "bert of ",
           o.layers, " layers, width ", o.width, ", ", o.heads, " heads, sequence ", o.sequence, ", vocabulary ",
           o.vocabulary, "; wanted > 0 of each");
  SF_CHECK(o.width % o.heads == 0, ArgumentError, "bert of width ", o.width, " with ", o.heads,
           " heads; wanted a width that the heads divide");
  SF_CHECK(o.positions >= o.sequence, ArgumentError, "bert of ", o.positions, " positions for a sequence of ",
           o.sequence, "; wanted as many, or more");
}

class BertBuilder {
 public:
  BertBuilder(Graph& graph, Value is_training, const BertOptions& options)
      : graph_(graph), is_training_(is_training), options_(options) {}

  Value table(const char* name, std::int64_t rows) const {
    return parameter(name, initializer(), {graph_, {rows, options_.width}});
  }

  /// tokens and segments [N, T] -> [N, T, C]; `segments` may be no value
  Value embed(Value tokens, Value segments, Value token_table) const {
    const auto first_rows = [&](Value all, std::int64_t count) {
      return slice(all, {.begin = {0, 0}, .size = {count, -1}});
    };
    const Value positions = first_rows(table("positions", options_.positions), options_.sequence);
    const Value kinds = table("segments", 2);
    const Value sum =
        gather(token_table, tokens) + (segments.valid() ? gather(kinds, segments) : first_rows(kinds, 1)) + positions;
    return dropout(norm(sum, "embedding_norm"), is_training_, {.rate = options_.dropout});
  }

  /// x [N, T, C] -> [N, T, C]
  Value block(Value x) const {
    const MultiHeadAttentionOptions attention{.heads = options_.heads, .kernel_initializer = initializer()};
    return transformer_block(x, {.attention = attention,
                                 .norm_first = false,
                                 .epsilon = kEpsilon,
                                 .dropout = options_.dropout,
                                 .is_training = is_training_,
                                 .kernel_initializer = initializer()});
  }

  /// x [N, T, C] -> [N T, vocabulary]
  Value decode(Value x, Value token_table) const {
    const Value hidden = dense(reshape(x, {-1, options_.width}),
                               {.features = options_.width, .kernel_initializer = initializer(), .name = "transform"});
    const Value rows = norm(gelu(hidden), "transform_norm");
    const Value bias = parameter("decoder_bias", zeros(), {graph_, {options_.vocabulary}});
    const Value product = matmul(rows, in_dtype(token_table, rows.dtype()), {.transpose_b = true});
    return bias_add(product, in_dtype(bias, rows.dtype()));
  }

 private:
  static Initializer initializer() { return truncated_normal_initializer(0.02F); }
  static Value norm(Value x, const char* name) { return layer_norm(x, {.epsilon = kEpsilon, .name = name}); }

  Graph& graph_;
  Value is_training_;
  const BertOptions& options_;
};

}  // namespace

Bert build_bert(Graph& graph, GraphSectionManager& manager, const BertOptions& options) {
  check_bert(options);
  const std::vector<bool> begins = section_begins(options.cut, options.layers);
  const Shape texts{kDynamic, options.sequence};
  Bert net;
  net.tokens = placeholder(graph, "tokens", texts, Dtype::i32);
  if (options.pairs) net.segments = placeholder(graph, "segments", texts, Dtype::i32);
  net.labels = placeholder(graph, "labels", texts, Dtype::i32);
  net.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const BertBuilder builder(graph, net.is_training, options);

  SectionCutter sections(manager, options.cut);
  const Value token_table = builder.table("token_table", options.vocabulary);
  Value x = builder.embed(net.tokens, net.segments, token_table);
  for (std::size_t layer = 0; layer < begins.size(); ++layer) {
    if (layer > 0 && begins[layer]) sections.cut();
    x = builder.block(x);
  }
  net.logits = builder.decode(x, token_table);
  const Value labels = reshape(net.labels, {-1});
  net.loss = weighted_mean(cross_entropy(net.logits, labels), label_weights(labels));
  sections.end();

  manager.add_training_ops(options.optimizer, net.loss, {.ranks = options.ranks});
  manager.prepare_training();
  return net;
}

}  // namespace sectionflow
