#include "graph/parameter.h"

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

void check_f32_input(Value x, std::string_view layer, const std::string& name) {
  SF_CHECK(x.dtype() == Dtype::f32, ArgumentError, layer, " '", name, "' got ", x.type().text(),
           "; wanted f32; try cast");
}

}  // namespace sectionflow
