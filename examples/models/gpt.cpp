#include "examples/models/gpt.h"

#include <cmath>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

constexpr float kStddev = 0.02F;

void check_options(const GptOptions& o) {
  SF_CHECK(o.layers > 0 && o.width > 0 && o.heads > 0 && o.sequence > 0 && o.vocabulary > 0, ArgumentError, "gpt of ",
           o.layers, " layers, width ", o.width, ", ", o.heads, " heads, sequence ", o.sequence, ", vocabulary ",
           o.vocabulary, "; wanted > 0 of each");
  SF_CHECK(o.width % o.heads == 0, ArgumentError, "gpt of width ", o.width, " with ", o.heads,
           " heads; wanted a width that the heads divide");
}

class GptBuilder {
 public:
  GptBuilder(Value is_training, const GptOptions& options) : is_training_(is_training), options_(options) {}

  /// tokens [N, T] -> [N, T, C]
  Value embed(Value tokens, Value table) const {
    const Value positions = normal_variable(tokens.graph(), "positions", {options_.sequence, options_.width});
    return drop(in_precision(gather(table, tokens) + positions));
  }

  /// x [N, T, C] -> [N, T, C]
  Value block(Value x) const {
    const auto scope = x.graph().scope("block");
    x = x + attend(layer_norm(x, {.name = "norm1"}));
    return x + perceptron(layer_norm(x, {.name = "norm2"}));
  }

  Value normal_variable(Graph& graph, const char* name, Shape shape) const {
    Value initial;
    {
      const auto scope = graph.scope(name);
      initial = truncated_normal_initializer(kStddev)({graph, std::move(shape)});
    }
    return variable(name, initial);
  }

  Value in_precision(Value x) const { return x.dtype() == options_.precision ? x : cast(x, options_.precision); }

 private:
  Value linear(Value x, std::int64_t units, const char* name, float stddev = kStddev) const {
    return dense(x, {.features = units, .kernel_initializer = truncated_normal_initializer(stddev), .name = name});
  }
  /// What is added to the residual stream is scaled with the number of additions.
  Value projection(Value x, const char* name) const {
    const float stddev = kStddev / std::sqrt(2.0F * static_cast<float>(options_.layers));
    return drop(linear(x, options_.width, name, stddev));
  }
  Value drop(Value x) const { return dropout(x, is_training_, {.rate = options_.dropout}); }

  Value attend(Value x) const {
    const std::int64_t width = options_.width, length = options_.sequence, heads = options_.heads;
    std::vector<Value> qkv = split(linear(x, 3 * width, "qkv"), 3, -1);
    for (Value& part : qkv) part = transpose(reshape(part, {-1, length, heads, width / heads}), {0, 2, 1, 3});
    const Value y = attention(qkv[0], qkv[1], qkv[2], {.causal = true});  // [N, H, T, D]
    return projection(reshape(transpose(y, {0, 2, 1, 3}), {-1, length, width}), "attention_projection");
  }

  Value perceptron(Value x) const {
    const Value hidden = gelu(linear(x, 4 * options_.width, "hidden"), {.approximation = Gelu::tanh});
    return projection(hidden, "hidden_projection");
  }

  Value is_training_;
  const GptOptions& options_;
};

}  // namespace

Gpt build_gpt(Graph& graph, GraphSectionManager& manager, const GptOptions& options) {
  check_options(options);
  const std::vector<bool> begins = section_begins(options.cut, options.layers);
  Gpt net;
  net.tokens = placeholder(graph, "tokens", {kDynamic, options.sequence}, Dtype::i32);
  net.targets = placeholder(graph, "targets", {kDynamic, options.sequence}, Dtype::i32);
  net.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const GptBuilder builder(net.is_training, options);
  const MixedPrecision precision(graph, options.precision);
  const Shape table_shape{options.vocabulary, options.width};

  SectionCutter sections(manager, options.cut);
  const Value table = builder.normal_variable(graph, "token_table", table_shape);
  Value x = builder.embed(net.tokens, table);
  for (std::size_t layer = 0; layer < begins.size(); ++layer) {
    if (layer > 0 && begins[layer]) sections.cut();
    x = builder.block(x);
  }
  const Value rows = reshape(layer_norm(x, {.name = "final_norm"}), {-1, options.width});
  const Value head = options.tied_embeddings ? table : builder.normal_variable(graph, "head", table_shape);
  net.logits = matmul(rows, builder.in_precision(head), {.transpose_b = true});
  net.loss = mean(softmax_cross_entropy(net.logits, reshape(net.targets, {-1})));
  sections.end();

  const std::vector<ParameterGroup> all = {{.optimizer = options.optimizer}};
  manager.add_training_ops(options.groups.empty() ? all : options.groups, net.loss, {.ranks = options.ranks});
  manager.prepare_training();
  return net;
}

}  // namespace sectionflow
