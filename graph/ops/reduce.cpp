#include "graph/ops/reduce.h"

#include <cmath>

#include "graph/nodes/reduce.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_reduce(const ShapeRequest& request) {
  const Dtype dtype = check_f32_or_bf16(request);
  const Shape& x = request.inputs[0].shape;
  const ReduceOptions& options = request.get<ReduceNodeOptions>().reduce;
  const std::vector<bool> reduced = reduced_axes(options, x.rank(), request.label);
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!reduced[axis]) {
      dims.push_back(x[axis]);
      continue;
    }
    SF_CHECK(x[axis] != 0, ShapeError, request.label, ": axis ", axis, " of ", x, " has no elements to reduce");
    if (options.keep_dims) dims.push_back(1);
  }
  return {{dtype, Shape(std::move(dims))}};
}

/// The type of x, after comparing dy (and y, for a maximum or minimum) with what the reduction of x gives.
std::vector<TensorType> infer_reduce_grad(const ShapeRequest& request) {
  check_f32_or_bf16(request);
  const bool chooses = is_choice(request.get<ReduceNodeOptions>().reduction);
  SF_CHECK(chooses == (request.inputs.size() == 3), ArgumentError, request.label,
           " is given another reduction than its own; wanted max or min for reduce_max_grad, sum or mean for "
           "reduce_grad");
  const TensorType x = request.inputs[1];
  const TensorType y = infer_reduce({request.label, request.inputs.subspan(1, 1), request.options})[0];
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    SF_CHECK(i == 1 || may_agree(request.inputs[i], y), ShapeError, request.label, " got ", request.inputs[i].shape,
             " for x ", x.shape, "; wanted ", y.shape);
  }
  return {x};
}

Value reduce(Value x, Reduction reduction, ReduceOptions options, std::string_view name, Where where) {
  return x.graph().add_node("reduce", {x}, ReduceNodeOptions{reduction, std::move(options)}, name, where).output();
}

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

std::vector<bool> reduced_axes(const ReduceOptions& options, int rank, const std::string& label) {
  std::vector<bool> reduced(static_cast<std::size_t>(rank), options.axes.empty());
  for (int axis : options.axes) {
    const int positive = normalized_axis(axis, rank, label);
    SF_CHECK(!reduced[positive], ShapeError, label, ": axis ", axis, " is named twice");
    reduced[positive] = true;
  }
  return reduced;
}

void define_reduce_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<ReduceNodeOptions>([](auto& fields, auto& described) {
    fields.choice(
        "reduction", described.reduction,
        {{Reduction::sum, "sum"}, {Reduction::mean, "mean"}, {Reduction::max, "max"}, {Reduction::min, "min"}});
    fields("axes", described.reduce.axes);
    fields("keep_dims", described.reduce.keep_dims);
  });
  registry.add({.name = "reduce", .options = options, .infer = infer_reduce});
  registry.add({.name = "reduce_grad",
                .inputs = 2,
                .options = options,
                .infer = infer_reduce_grad,
                .uses = shape_of_last_alone});
  registry.add({.name = "reduce_max_grad", .inputs = 3, .options = options, .infer = infer_reduce_grad});
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

Value reduce_sum(Value x, ReduceOptions options, Where where) {
  return reduce(x, Reduction::sum, std::move(options), "reduce_sum", where);
}
Value reduce_mean(Value x, ReduceOptions options, Where where) {
  return reduce(x, Reduction::mean, std::move(options), "reduce_mean", where);
}
Value reduce_max(Value x, ReduceOptions options, Where where) {
  return reduce(x, Reduction::max, std::move(options), "reduce_max", where);
}

Value reduce_min(Value x, ReduceOptions options, Where where) {
  return reduce(x, Reduction::min, std::move(options), "reduce_min", where);
}

Value reduce_grad(Value dy, Value x, const ReduceNodeOptions& options) {
  return x.graph().add_node("reduce_grad", {dy, x}, options, "reduce_grad").output();
}
Value reduce_max_grad(Value dy, Value x, Value y, const ReduceNodeOptions& options) {
  return x.graph().add_node("reduce_max_grad", {dy, x, y}, options, "reduce_max_grad").output();
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
