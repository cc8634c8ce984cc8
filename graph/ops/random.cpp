#include "graph/ops/random.h"

#include "graph/op_registry.h"

namespace sectionflow {
namespace {

Value random(Graph& graph, RandomOptions options, std::string_view name, Where where) {
  return graph.build_at(where, [&] {
    SF_CHECK(options.shape.is_static(), ShapeError, "random '", name, "': shape ", options.shape, " must be known");
    if (options.distribution == Distribution::uniform) {
      SF_CHECK(options.a < options.b, ArgumentError, name, ": low ", options.a, " and high ", options.b,
               "; wanted low < high");
    } else {
      SF_CHECK(options.b > 0, ArgumentError, name, ": stddev ", options.b, "; wanted > 0");
    }
    return graph.add_node("random", {}, std::move(options), name).output();
  });
}

}  // namespace

void define_random_ops(OpRegistry& registry) {
  registry.add({.name = "random",
                .infer =
                    [](const ShapeRequest& r) {
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
