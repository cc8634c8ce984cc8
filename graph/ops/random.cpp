#include "graph/ops/random.h"

#include "graph/nodes/random.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Of RandomOptions or RandomLikeOptions.
template <class Options>
void check_distribution(const Options& options, const std::string& label) {
  if (options.distribution == Distribution::uniform) {
    SF_CHECK(options.a < options.b, ArgumentError, label, ": low ", options.a, " and high ", options.b,
             "; wanted low < high");
  } else {
    SF_CHECK(options.b > 0, ArgumentError, label, ": stddev ", options.b, "; wanted > 0");
  }
}

template <class Fields, class Options>
void describe_distribution(Fields& fields, Options& options) {
  fields.choice("distribution", options.distribution,
                {{Distribution::normal, "normal"},
                 {Distribution::truncated_normal, "truncated_normal"},
                 {Distribution::uniform, "uniform"},
                 {Distribution::gumbel, "gumbel"}});
}

std::vector<TensorType> infer_categorical(const ShapeRequest& request) {
  const TensorType& logits = request.inputs[0];
  const std::int64_t draws = request.get<CategoricalOptions>().draws;
  check_f32_or_bf16(logits, request.label);
  SF_CHECK(logits.shape.rank() >= 1 && logits.shape[-1] != 0, ShapeError, request.label, " got ", logits.text(),
           "; wanted [..., C] with C >= 1");
  SF_CHECK(draws >= 0, ArgumentError, request.label, ": draws is ", draws, "; wanted >= 0");
  std::vector<std::int64_t> dims = logits.shape.dims();
  dims.pop_back();
  if (draws > 0) dims.push_back(draws);
  return {{Dtype::i32, Shape(std::move(dims))}};
}

Value random(Graph& graph, RandomOptions options, std::string_view name, Where where) {
  return graph.add_node("random", {}, std::move(options), name, where).output();
}
Value random_like(Value x, RandomLikeOptions options, std::string_view name, Where where) {
  return x.graph().add_node("random_like", {x}, options, name, where).output();
}

}  // namespace

void define_random_ops(OpRegistry& registry) {
  registry.add({.name = "random",
                .inputs = 0,
                .options = described_by<RandomOptions>([](auto& fields, auto& options) {
                  describe_distribution(fields, options);
                  fields("shape", options.shape);
                  fields("a", options.a);
                  fields("b", options.b);
                }),
                .infer =
                    [](const ShapeRequest& r) {
                      const auto& options = r.get<RandomOptions>();
                      SF_CHECK(options.shape.is_static(), ShapeError, r.label, ": shape ", options.shape,
                               " must be known");
                      check_distribution(options, r.label);
                      return std::vector<TensorType>{{Dtype::f32, options.shape}};
                    },
                .recompute = Recompute::seeded});
  registry.add({.name = "random_like",
                .options = described_by<RandomLikeOptions>([](auto& fields, auto& options) {
                  describe_distribution(fields, options);
                  fields("a", options.a);
                  fields("b", options.b);
                }),
                .infer =
                    [](const ShapeRequest& r) {
                      check_distribution(r.get<RandomLikeOptions>(), r.label);
                      return std::vector<TensorType>{{Dtype::f32, r.inputs[0].shape}};
                    },
                .recompute = Recompute::seeded,
                .uses = shape_of_last_alone});
  registry.add(
      {.name = "categorical",
       .options = described_by<CategoricalOptions>([](auto& fields, auto& options) { fields("draws", options.draws); }),
       .infer = infer_categorical,
       .recompute = Recompute::seeded});
}

Value random_normal(Graph& graph, Shape shape, NormalOptions options, std::string_view name, Where where) {
  return random(graph, {Distribution::normal, std::move(shape), options.mean, options.stddev}, name, where);
}

Value truncated_normal(Graph& graph, Shape shape, NormalOptions options, std::string_view name, Where where) {
  return random(graph, {Distribution::truncated_normal, std::move(shape), options.mean, options.stddev}, name, where);
}

Value random_uniform(Graph& graph, Shape shape, UniformOptions options, std::string_view name, Where where) {
  return random(graph, {Distribution::uniform, std::move(shape), options.low, options.high}, name, where);
}

Value random_uniform_like(Value x, UniformOptions options, Where where) {
  return random_like(x, {Distribution::uniform, options.low, options.high}, "random_uniform_like", where);
}
Value random_normal_like(Value x, NormalOptions options, Where where) {
  return random_like(x, {Distribution::normal, options.mean, options.stddev}, "random_normal_like", where);
}
Value random_gumbel_like(Value x, Where where) {
  return random_like(x, {Distribution::gumbel, 0, 1}, "random_gumbel_like", where);
}

Value categorical(Value logits, CategoricalOptions options, Where where) {
  return logits.graph().add_node("categorical", {logits}, options, "categorical", where).output();
}

}  // namespace sectionflow
