#include "graph/ops/random.h"

#include "graph/op_registry.h"

namespace sectionflow {
namespace {

Value random(Graph& graph, RandomOptions options, std::string_view name) {
  SF_CHECK(options.shape.is_static(), ShapeError, "random '", name, "': shape ", options.shape, " must be known");
  return graph.add_node("random", {}, std::move(options), name).output();
}

void check_stddev(const NormalOptions& options, std::string_view name) {
  SF_CHECK(options.stddev > 0, ArgumentError, name, ": stddev ", options.stddev, "; wanted > 0");
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

Value random_normal(Graph& graph, Shape shape, NormalOptions options, std::string_view name) {
  check_stddev(options, name);
  return random(graph, {Distribution::normal, std::move(shape), options.mean, options.stddev}, name);
}

Value truncated_normal(Graph& graph, Shape shape, NormalOptions options, std::string_view name) {
  check_stddev(options, name);
  return random(graph, {Distribution::truncated_normal, std::move(shape), options.mean, options.stddev}, name);
}

Value random_uniform(Graph& graph, Shape shape, UniformOptions options, std::string_view name) {
  SF_CHECK(options.low < options.high, ArgumentError, name, ": low ", options.low, " and high ", options.high,
           "; wanted low < high");
  return random(graph, {Distribution::uniform, std::move(shape), options.low, options.high}, name);
}

}  // namespace sectionflow
