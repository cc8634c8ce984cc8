#include "graph/ops/global_norm.h"

#include <cmath>

#include "graph/check_dtype.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

const TensorType kScalar{Dtype::f32, {}};

std::vector<TensorType> infer_global_norm(const ShapeRequest& request) {
  check_f32(request);
  return {kScalar};
}

std::vector<TensorType> infer_from_scalars(const ShapeRequest& request) {
  for (const TensorType& input : request.inputs) {
    SF_CHECK(input == kScalar, ShapeError, request.label, " got ", input.text(), "; wanted f32[]");
  }
  return {kScalar};
}

}  // namespace

void define_global_norm_ops(OpRegistry& registry) {
  registry.add({.name = "global_norm", .inputs = {1, kAnyNumber}, .infer = infer_global_norm});
  registry.add({.name = "global_norm_grad", .inputs = 2, .infer = infer_from_scalars});
  registry.add({.name = "clip_scale",
                .options = described_by<ClipScaleOptions>(
                    [](auto& fields, auto& options) { fields("max_norm", options.max_norm); }),
                .infer = [](const ShapeRequest& request) {
                  check_max_norm(request.get<ClipScaleOptions>().max_norm, request.label);
                  return infer_from_scalars(request);
                }});
}

Value global_norm(std::vector<Value> xs, Where where) {
  SF_CHECK(!xs.empty(), ArgumentError, "global_norm got no values; wanted one at least");
  Graph& graph = xs.front().graph();
  return graph.add_node("global_norm", std::move(xs), {}, "global_norm", where).output();
}
Value global_norm_grad(Value dy, Value norm) {
  return norm.graph().add_node("global_norm_grad", {dy, norm}, {}, "global_norm_grad").output();
}

Value clip_scale(Value norm, float max_norm, Where where) {
  return norm.graph().add_node("clip_scale", {norm}, ClipScaleOptions{max_norm}, "clip_scale", where).output();
}

void check_max_norm(float max_norm, const std::string& label) {
  SF_CHECK(max_norm > 0 && std::isfinite(max_norm), ArgumentError, label, ": max_norm is ", max_norm,
           "; wanted a positive number");
}

}  // namespace sectionflow
