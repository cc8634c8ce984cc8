#include "graph/shape_rules.h"

#include <utility>

#include "base/error.h"

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

std::optional<RowParts> parts_of_elements(const ConcreteRequest& request) {
  const Shape& y = request.outputs[0].shape;
  if (y.rank() == 0) return std::nullopt;
  RowParts parts{.outputs = std::vector(request.outputs.size(), PartUse::rows)};
  for (const TensorType& input : request.inputs) {
    const bool has_rows = input.shape.rank() == y.rank() && input.shape[0] == y[0];
    parts.inputs.push_back(has_rows ? PartUse::rows : PartUse::whole);
  }
  return parts;
}

std::optional<RowParts> parts_of_rows(const ConcreteRequest& request) {
  if (request.inputs[0].shape.rank() < 2) return std::nullopt;
  return RowParts{.inputs = std::vector(request.inputs.size(), PartUse::rows),
                  .outputs = std::vector(request.outputs.size(), PartUse::rows)};
}

std::vector<InputUse> shape_of_last_alone(std::size_t num_inputs, HostBooleans) {
  std::vector<InputUse> uses(num_inputs, InputUse::data);
  if (!uses.empty()) uses.back() = InputUse::shape_only;
  return uses;
}

OpDef gradient_by_shape(std::string name, OptionsDescription options, TypeRule y_of) {
  return {.name = std::move(name),
          .inputs = 2,
          .options = std::move(options),
          .infer =
              [y_of = std::move(y_of)](const ShapeRequest& r) {
                const TensorType y = y_of(r, r.inputs[1]);
                SF_CHECK(may_agree(r.inputs[0], y), ShapeError, r.label, " got dy ", r.inputs[0].text(), "; wanted ",
                         y.text());
                return std::vector{r.inputs[1]};
              },
          .uses = shape_of_last_alone};
}

}  // namespace sectionflow
