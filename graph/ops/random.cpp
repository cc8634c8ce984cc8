#include "graph/ops/random.h"

#include "graph/nodes/random.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

void check_options(const RandomOptions& options, const std::string& label) {
  SF_CHECK(options.shape.is_static(), ShapeError, label, ": shape ", options.shape, " must be known");
  if (options.distribution == Distribution::uniform) {
    SF_CHECK(options.a < options.b, ArgumentError, label, ": low ", options.a, " and high ", options.b,
             "; wanted low < high");
  } else {
    SF_CHECK(options.b > 0, ArgumentError, label, ": stddev ", options.b, "; wanted > 0");
  }
}

Value random(Graph& graph, RandomOptions options, std::string_view name, Where where) {
  return graph.add_node("random", {}, std::move(options), name, where).output();
}

}  // namespace

void define_random_ops(OpRegistry& registry) {
  registry.add({.name = "random",
                .inputs = 0,
                .options = described_by<RandomOptions>([](auto& fields, auto& options) {
                  fields.choice("distribution", options.distribution,
                                {{Distribution::normal, "normal"},
                                 {Distribution::truncated_normal, "truncated_normal"},
                                 {Distribution::uniform, "uniform"}});
                  fields("shape", options.shape);
                  fields("a", options.a);
                  fields("b", options.b);
                }),
                .infer =
                    [](const ShapeRequest& r) {
                      check_options(r.get<RandomOptions>(), r.label);
                      return std::vector<TensorType>{{Dtype::f32, r.get<RandomOptions>().shape}};
                    },
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

}  // namespace sectionflow
