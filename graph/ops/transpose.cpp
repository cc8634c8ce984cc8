#include "graph/ops/transpose.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_transpose(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  std::vector<std::int64_t> dims;
  for (int axis : normalized_permutation(request.get<TransposeOptions>().permutation, x.shape.rank(), request.label)) {
    dims.push_back(x.shape[axis]);
  }
  return {{x.dtype, Shape(std::move(dims))}};
}

}  // namespace

std::vector<int> normalized_permutation(const std::vector<int>& permutation, int rank, const std::string& label) {
  SF_CHECK(static_cast<int>(permutation.size()) == rank, ShapeError, label, " got a permutation of ",
           permutation.size(), " axes for rank ", rank, "; wanted each axis once");
  std::vector<bool> named(permutation.size(), false);
  std::vector<int> positive;
  for (int axis : permutation) {
    positive.push_back(normalized_axis(axis, rank, label));
    SF_CHECK(!named[positive.back()], ShapeError, label, ": axis ", axis, " is named twice; wanted each axis once");
    named[positive.back()] = true;
  }
  return positive;
}

void define_transpose_ops(OpRegistry& registry) {
  registry.add({.name = "transpose",
                .options = described_by<TransposeOptions>(
                    [](auto& fields, auto& options) { fields("permutation", options.permutation); }),
                .infer = infer_transpose});
}

Value transpose(Value x, std::vector<int> permutation, Where where) {
  return x.graph().add_node("transpose", {x}, TransposeOptions{std::move(permutation)}, "transpose", where).output();
}

}  // namespace sectionflow
