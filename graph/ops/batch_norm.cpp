#include "graph/ops/batch_norm.h"

#include "graph/op_registry.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

void check_types(const ShapeRequest& request, std::size_t num_tensors) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(x.shape.rank() >= 2, ShapeError, request.label, " got ", x.shape, "; wanted [..., C] of rank 2 or more");
  for (std::size_t i = 0; i < num_tensors; ++i) {
    SF_CHECK(request.inputs[i].dtype == Dtype::f32, ArgumentError, request.label, ": input ", i, " is ",
             request.inputs[i].text(), "; wanted f32; try cast");
  }
  const TensorType& is_training = request.inputs[num_tensors];
  SF_CHECK(is_training == (TensorType{Dtype::boolean, {}}), ArgumentError, request.label, ": is_training is ",
           is_training.text(), "; wanted bool[], a placeholder or constant");
}

/// Inputs `first` to `end` are one number a channel of x.
void check_per_channel(const ShapeRequest& request, int first, int end, const Shape& x) {
  const Shape per_channel{x[-1]};
  for (int i = first; i < end; ++i) {
    SF_CHECK(request.inputs[i].shape == per_channel, ShapeError, request.label, " got x ", x, " and, as input ", i,
             ", ", request.inputs[i].shape, "; wanted ", per_channel);
  }
}

std::vector<TensorType> infer_forward(const ShapeRequest& request) {
  check_types(request, 5);
  check_per_channel(request, 1, 5, request.inputs[0].shape);
  const Shape per_channel{request.inputs[0].shape[-1]};
  return {request.inputs[0], {Dtype::f32, per_channel}, {Dtype::f32, per_channel}};
}

// Inputs: x, scale, shift, running mean, running variance, is_training.
std::vector<InputUse> forward_uses(std::size_t, HostBooleans booleans) {
  const bool training = booleans[5].value_or(false);
  const InputUse running = training ? InputUse::unused : InputUse::data;
  return {InputUse::data, InputUse::data, InputUse::data, running, running, InputUse::host_boolean};
}

// Inputs: dy, x, scale, mean, variance, is_training.
std::vector<InputUse> backward_uses(std::size_t, HostBooleans) {
  return {InputUse::data, InputUse::data, InputUse::data, InputUse::data, InputUse::data, InputUse::host_boolean};
}

}  // namespace

void define_batch_norm_ops(OpRegistry& registry) {
  registry.add({.name = "batch_norm", .infer = infer_forward, .uses = forward_uses, .kept_outputs = {1, 2}});
  registry.add({.name = "batch_norm_grad",
                .infer =
                    [](const ShapeRequest& r) {
                      check_types(r, 5);
                      SF_CHECK(may_agree(r.inputs[0], r.inputs[1]), ShapeError, r.label, " got dy ", r.inputs[0].shape,
                               " and x ", r.inputs[1].shape, "; wanted equal shapes");
                      check_per_channel(r, 2, 5, r.inputs[1].shape);
                      return std::vector{r.inputs[1], r.inputs[2], r.inputs[2]};
                    },
                .uses = backward_uses});
}

BatchNormResult batch_norm(Value x, Value scale, Value shift, Value running_mean, Value running_variance,
                           Value is_training, BatchNormOptions options, Where where) {
  return x.graph().build_at(where, [&]() -> BatchNormResult {
    check_host_boolean(is_training, "batch_norm");
    Node& node = x.graph().add_node("batch_norm", {x, scale, shift, running_mean, running_variance, is_training},
                                    options, "batch_norm");
    return {node.output(0), node.output(1), node.output(2)};
  });
}

BatchNormGradients batch_norm_grad(Value dy, Value x, Value scale, Value mean, Value variance, Value is_training,
                                   BatchNormOptions options) {
  check_host_boolean(is_training, "batch_norm_grad");
  Node& node =
      x.graph().add_node("batch_norm_grad", {dy, x, scale, mean, variance, is_training}, options, "batch_norm_grad");
  return {node.output(0), node.output(1), node.output(2)};
}

}  // namespace sectionflow
