#include "graph/parameter.h"

#include "graph/ops/unary.h"
#include "graph/shape_rules.h"
#include "graph/shared_entry.h"

namespace sectionflow {

Value parameter(std::string_view name, const Initializer& initializer, const InitializerRequest& request,
                VariableOptions options, Where where) {
  Graph& graph = request.graph;
  return graph.build_at(where, [&] {
    const auto shared = shared_variable(graph, name, {request.shape, {}, options.trainable});
    Value initial;
    {
      // Opened in any case: names of layers that follow count alike in all scopes of shared variables.
      const auto scope = graph.scope(name);
      SF_CHECK(shared || initializer, ArgumentError, "parameter '", name, "': the initialiser is empty; wanted one",
               hint("zeros() and glorot_uniform() are two"));
      if (!shared) initial = initializer(request);
    }
    if (shared) return *shared;
    SF_CHECK(initial.shape() == request.shape, ShapeError, "parameter '", name, "': the initialiser gave ",
             initial.shape(), "; wanted ", request.shape);
    return variable(name, initial, options);
  });
}

void check_layer_input(Value x, std::string_view layer, const std::string& name) {
  check_f32_or_bf16(x.type(), text_of(layer, " '", name, "'"));
}

Value in_layer_dtype(Value x) {
  return in_dtype(x, x.graph().layer_dtype().value_or(x.dtype()));
}

Value in_dtype(Value x, Dtype dtype) {
  return x.dtype() == dtype ? x : cast(x, dtype);
}

}  // namespace sectionflow
