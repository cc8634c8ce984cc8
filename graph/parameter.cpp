#include "graph/parameter.h"

#include "graph/check_dtype.h"
#include "graph/ops/cast.h"

namespace sectionflow {

Value parameter(std::string_view name, const Initializer& initializer, const InitializerRequest& request,
                VariableOptions options) {
  Value initial;
  {
    const auto scope = request.graph.scope(name);
    initial = initializer(request);
  }
  SF_CHECK(initial.shape() == request.shape, ShapeError, "parameter '", name, "': the initialiser gave ",
           initial.shape(), "; wanted ", request.shape);
  return variable(name, initial, options);
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
