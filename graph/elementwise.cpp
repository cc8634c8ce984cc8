#include "graph/elementwise.h"

#include "graph/check_dtype.h"

namespace sectionflow {

std::vector<TensorType> infer_like_float(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  check_f32_or_bf16(x, request.label);
  return {x};
}

std::vector<TensorType> infer_gradient_of_one(const ShapeRequest& request) {
  const TensorType& dy = request.inputs[0];
  const TensorType& other = request.inputs[1];
  SF_CHECK(is_f32_or_bf16(other.dtype) && may_agree(dy, other), ShapeError, request.label, " got ", dy.text(), " and ",
           other.text(), "; wanted equal types, f32 or bf16");
  return {other};
}

std::vector<TensorType> infer_broadcast(const ShapeRequest& request) {
  const TensorType& a = request.inputs[0];
  const TensorType& b = request.inputs[1];
  SF_CHECK(a.dtype == b.dtype, ArgumentError, request.label, " got ", a.text(), " and ", b.text(),
           "; wanted equal dtypes; try cast(x, Dtype::", dtype_name(a.dtype), ")");
  return {{a.dtype, broadcast_shapes(a.shape, b.shape, request.label)}};
}

std::vector<TensorType> infer_gradient_of_two(const ShapeRequest& request) {
  const TensorType& dy = request.inputs[0];
  for (const TensorType& input : request.inputs) {
    SF_CHECK(is_f32_or_bf16(input.dtype) && input.dtype == dy.dtype, ShapeError, request.label, " got ", dy.text(),
             " and ", input.text(), "; wanted f32 or bf16, all of one dtype");
    SF_CHECK(broadcast_shapes(dy.shape, input.shape, request.label) == dy.shape, ShapeError, request.label, ": ",
             input.shape, " does not broadcast to ", dy.shape);
  }
  return {dy};
}

}  // namespace sectionflow
