#include "graph/ops/group_norm.h"

#include "graph/nodes/window.h"
#include "graph/norm_rules.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Throws: ArgumentError that begins with `label`, for a number of groups or an epsilon that never fits.
void check_group_options(const std::string& label, const GroupNormOptions& options) {
  SF_CHECK(options.groups > 0, ArgumentError, label, ": groups is ", options.groups,
           "; wanted > 0, a divisor of the channels");
  check_norm_epsilon(options.epsilon, label);
}

/// Throws: ShapeError that begins with `label`, unless x has channels that are whole groups, as far as is known.
void check_groups(const std::string& label, const Shape& x, const GroupNormOptions& options) {
  SF_CHECK(x.rank() >= 2, ShapeError, label, " got ", x, "; wanted ", channels_text(options.format),
           " of rank 2 or more");
  const std::int64_t channels = x[channel_axis(options.format)];
  const std::int64_t of_other = x[channel_axis(other_format(options.format))];
  SF_CHECK(channels == kDynamic || (channels > 0 && channels % options.groups == 0), ShapeError, label, " got ", x,
           " and ", options.groups, " groups, which do not divide the ", channels, " channels; wanted ",
           channels_text(options.format), " of whole groups",
           format_hint(options.format, of_other > 0 && of_other % options.groups == 0));
}

/// Inputs: `num_images` like x, f32 or bf16, then f32.
void check_group_inputs(const ShapeRequest& request, std::size_t num_images) {
  check_group_options(request.label, request.get<GroupNormOptions>());
  check_norm_dtypes(request, num_images, request.inputs.size());
  check_groups(request.label, request.inputs[num_images - 1].shape, request.get<GroupNormOptions>());
}

// Inputs: x, scale, shift.
std::vector<TensorType> infer_group_norm(const ShapeRequest& request) {
  check_group_inputs(request, 1);
  const auto& options = request.get<GroupNormOptions>();
  const Shape& x = request.inputs[0].shape;
  for (const std::size_t input : {1, 2}) check_beside(request, input, x, {x[channel_axis(options.format)]});
  const TensorType per_group{Dtype::f32, {x[0], options.groups}};
  return {request.inputs[0], per_group, per_group};
}

// Inputs: dy, x, scale, mean, rstd.
std::vector<TensorType> infer_group_norm_grad(const ShapeRequest& request) {
  check_group_inputs(request, 2);
  const auto& options = request.get<GroupNormOptions>();
  const TensorType& x = request.inputs[1];
  check_norm_gradient(request, request.inputs[0], x);
  check_beside(request, 2, x.shape, {x.shape[channel_axis(options.format)]});
  for (const std::size_t input : {3, 4}) check_beside(request, input, x.shape, {x.shape[0], options.groups});
  return {x, request.inputs[2], request.inputs[2]};
}

std::optional<RowParts> group_norm_parts(const ConcreteRequest&) {
  return RowParts{.inputs = {PartUse::rows, PartUse::whole, PartUse::whole},
                  .outputs = {PartUse::rows, PartUse::rows, PartUse::rows}};
}

}  // namespace

void define_group_norm_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<GroupNormOptions>([](auto& fields, auto& described) {
    fields("groups", described.groups);
    fields("epsilon", described.epsilon);
    describe_format(fields, described.format);
  });
  registry.add({.name = "group_norm",
                .inputs = 3,
                .options = options,
                .infer = infer_group_norm,
                .parts = group_norm_parts,
                .kept_outputs = {1, 2}});
  registry.add({.name = "group_norm_grad", .inputs = 5, .options = options, .infer = infer_group_norm_grad});
}

Value group_norm(Value x, Value scale, Value shift, const GroupNormOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_unnamed("group_norm", options);
    return x.graph().add_node("group_norm", {x, scale, shift}, options, "group_norm").output();
  });
}

namespace {

/// The layer `layer`, group_norm or instance_norm.
Value group_norm_layer(Value x, const char* layer, const GroupNormOptions& options) {
  check_layer_input(x, layer, options.name);
  const std::string label = text_of(layer, " '", options.name, "'");
  check_format(options.format, label);
  const Shape& shape = x.shape();
  const int axis = channel_axis(options.format);
  SF_CHECK(shape.rank() >= 2 && shape[axis] > 0, ShapeError, label, " got ", shape, "; wanted ",
           channels_text(options.format), " of rank 2 or more with C known and > 0",
           format_hint(options.format, shape.rank() >= 2 && shape[channel_axis(other_format(options.format))] > 0));
  const std::int64_t channels = shape[axis];
  check_group_options(label, options);
  check_groups(label, shape, options);
  Graph& graph = x.graph();
  const auto scope = graph.scope(options.name);
  const Value scale = parameter("scale", ones(), {graph, {channels}});
  const Value shift = parameter("shift", zeros(), {graph, {channels}});
  return group_norm(in_layer_dtype(x), scale, shift,
                    {.groups = options.groups, .epsilon = options.epsilon, .format = options.format});
}

}  // namespace

Value group_norm(Value x, const GroupNormOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] { return group_norm_layer(x, "group_norm", options); });
}

Value instance_norm(Value x, const InstanceNormOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    const bool has_channels = x.shape().rank() >= 2;
    return group_norm_layer(x, "instance_norm",
                            {.groups = has_channels ? x.shape()[channel_axis(options.format)] : 1,
                             .epsilon = options.epsilon,
                             .format = options.format,
                             .name = options.name});
  });
}

GroupNormGradients group_norm_grad(Value dy, Value x, Value scale, Value mean, Value rstd,
                                   const GroupNormOptions& options) {
  Node& node = x.graph().add_node("group_norm_grad", {dy, x, scale, mean, rstd}, options, "group_norm_grad");
  return {node.output(0), node.output(1), node.output(2)};
}

}  // namespace sectionflow
