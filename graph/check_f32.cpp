#include "graph/check_f32.h"

namespace sectionflow {

void check_f32(const TensorType& type, const std::string& label) {
  SF_CHECK(type.dtype == Dtype::f32, ArgumentError, label, " got ", type.text(), "; wanted f32; try cast");
}

void check_f32(const ShapeRequest& request) {
  if (request.inputs.size() == 1) return check_f32(request.inputs[0], request.label);
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    SF_CHECK(request.inputs[i].dtype == Dtype::f32, ArgumentError, request.label, ": input ", i, " is ",
             request.inputs[i].text(), "; wanted f32; try cast");
  }
}

}  // namespace sectionflow
