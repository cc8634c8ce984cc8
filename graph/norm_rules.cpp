#include "graph/norm_rules.h"

#include "graph/shape_rules.h"

namespace sectionflow {

void check_norm_dtypes(const ShapeRequest& request, std::size_t num_rounded, std::size_t num_tensors) {
  for (std::size_t i = 0; i < num_tensors; ++i) {
    const TensorType& input = request.inputs[i];
    SF_CHECK(input.dtype == Dtype::f32 || (i < num_rounded && input.dtype == Dtype::bf16), ArgumentError, request.label,
             ": input ", i, " is ", input.text(), "; wanted f32", i < num_rounded ? " or bf16" : "", "; try cast");
  }
}

void check_norm_epsilon(float epsilon, const std::string& label) {
  SF_CHECK(epsilon >= 0, ArgumentError, label, ": epsilon ", epsilon, "; wanted >= 0");
}

void check_norm_gradient(const ShapeRequest& request, const TensorType& dy, const TensorType& x) {
  SF_CHECK(may_agree(dy, x), ShapeError, request.label, " got dy ", dy.text(), " and x ", x.text(),
           "; wanted equal types");
}

void check_beside(const ShapeRequest& request, std::size_t input, const Shape& x, const Shape& wanted) {
  SF_CHECK(may_agree(request.inputs[input], {Dtype::f32, wanted}), ShapeError, request.label, " got x ", x,
           " and, as input ", input, ", ", request.inputs[input].shape, "; wanted ", wanted);
}

}  // namespace sectionflow
