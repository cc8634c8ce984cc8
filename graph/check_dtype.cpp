#include "graph/check_dtype.h"

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

bool is_f32_or_bf16(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::bf16;
}

void check_f32_or_bf16(const TensorType& type, const std::string& label) {
  SF_CHECK(is_f32_or_bf16(type.dtype), ArgumentError, label, " got ", type.text(), "; wanted f32 or bf16; try cast");
}

Dtype check_f32_or_bf16(const ShapeRequest& request) {
  const Dtype dtype = request.inputs[0].dtype;
  if (request.inputs.size() == 1) {
    check_f32_or_bf16(request.inputs[0], request.label);
    return dtype;
  }
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorType& input = request.inputs[i];
    SF_CHECK(is_f32_or_bf16(input.dtype), ArgumentError, request.label, ": input ", i, " is ", input.text(),
             "; wanted f32 or bf16; try cast");
    SF_CHECK(input.dtype == dtype, ArgumentError, request.label, ": input 0 is ", request.inputs[0].text(),
             " and input ", i, " ", input.text(), "; wanted one dtype; try cast(x, Dtype::", dtype_name(dtype), ")");
  }
  return dtype;
}

}  // namespace sectionflow
