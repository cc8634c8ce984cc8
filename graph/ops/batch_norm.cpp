#include "graph/ops/batch_norm.h"

#include "graph/nodes/window.h"
#include "graph/norm_rules.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Inputs: `num_images` like x, f32 or bf16, then f32 up to `num_tensors`, and is_training.
void check_types(const ShapeRequest& request, std::size_t num_images, std::size_t num_tensors) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(x.shape.rank() >= 2, ShapeError, request.label, " got ", x.shape, "; wanted ",
           channels_text(request.get<BatchNormOptions>().format), " of rank 2 or more");
  check_norm_dtypes(request, num_images, num_tensors);
  const TensorType& is_training = request.inputs[num_tensors];
  SF_CHECK(is_training == (TensorType{Dtype::boolean, {}}), ArgumentError, request.label, ": is_training is ",
           is_training.text(), "; wanted bool[], a placeholder or constant");
}

Shape per_channel_of(const ShapeRequest& request, const Shape& x) {
  return {x[channel_axis(request.get<BatchNormOptions>().format)]};
}

/// These inputs are one number a channel of x.
void check_per_channel(const ShapeRequest& request, std::initializer_list<int> inputs, const Shape& x) {
  const Shape per_channel = per_channel_of(request, x);
  const DataFormat format = request.get<BatchNormOptions>().format;
  const Shape of_other = {x[channel_axis(other_format(format))]};
  for (int i : inputs) {
    const Shape& shape = request.inputs[i].shape;
    SF_CHECK(shape == per_channel, ShapeError, request.label, " got x ", x, " and, as input ", i, ", ", shape,
             "; wanted ", per_channel, format_hint(format, shape == of_other));
  }
}

std::vector<TensorType> infer_forward(const ShapeRequest& request) {
  check_norm_epsilon(request.get<BatchNormOptions>().epsilon, request.label);
  check_types(request, 1, 5);
  check_per_channel(request, {1, 2, 3, 4}, request.inputs[0].shape);
  const Shape per_channel = per_channel_of(request, request.inputs[0].shape);
  return {request.inputs[0], {Dtype::f32, per_channel}, {Dtype::f32, per_channel}};
}

// Inputs: x, scale, shift, running mean, running variance, is_training.
std::vector<InputUse> forward_uses(std::size_t, HostBooleans booleans) {
  const bool training = booleans[5].value_or(false);
  const InputUse running = training ? InputUse::unused : InputUse::data;
  return {InputUse::data, InputUse::data, InputUse::data, running, running, InputUse::host_boolean};
}

// Inputs: dy, x, scale, mean, variance, is_training and, with relu, shift.
std::vector<TensorType> infer_backward(const ShapeRequest& request) {
  const std::size_t wanted = request.get<BatchNormOptions>().relu ? 7 : 6;
  SF_CHECK(request.inputs.size() == wanted, ArgumentError, request.label, " got ", request.inputs.size(),
           " inputs; wanted ", wanted, ", the shift with relu alone");
  check_norm_epsilon(request.get<BatchNormOptions>().epsilon, request.label);
  check_types(request, 2, 5);
  check_norm_gradient(request, request.inputs[0], request.inputs[1]);
  check_per_channel(request, {2, 3, 4}, request.inputs[1].shape);
  if (request.get<BatchNormOptions>().relu) {
    check_per_channel(request, {6}, request.inputs[1].shape);
    SF_CHECK(request.inputs[6].dtype == Dtype::f32, ArgumentError, request.label, ": shift is ",
             request.inputs[6].text(), "; wanted f32; try cast");
  }
  return {request.inputs[1], request.inputs[2], request.inputs[2]};
}

/// Running statistics and variables of the operation are the caller's, who decays and names them.
void check_not_of_layer(const BatchNormOptions& options) {
  SF_CHECK(options.decay == BatchNormOptions{}.decay, ArgumentError, "batch_norm: decay is ", options.decay,
           "; it is an option of the layer alone",
           hint("give it to update_moving_average, or let the layer batch_norm(x, options) keep the averages"));
  check_unnamed("batch_norm", options);
}

std::vector<InputUse> backward_uses(std::size_t num_inputs, HostBooleans) {
  std::vector<InputUse> uses(num_inputs, InputUse::data);
  uses[5] = InputUse::host_boolean;
  return uses;
}

}  // namespace

void define_batch_norm_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<BatchNormOptions>([](auto& fields, auto& described) {
    fields("epsilon", described.epsilon);
    fields("relu", described.relu);
    describe_format(fields, described.format);
  });
  registry.add({.name = "batch_norm",
                .inputs = 6,
                .options = options,
                .infer = infer_forward,
                .uses = forward_uses,
                .kept_outputs = {1, 2}});
  registry.add({.name = "batch_norm_grad",
                .inputs = {6, 7},
                .options = options,
                .infer = infer_backward,
                .uses = backward_uses});
}

BatchNormResult batch_norm(Value x, Value scale, Value shift, Value running_mean, Value running_variance,
                           Value is_training, const BatchNormOptions& options, Where where) {
  return x.graph().build_at(where, [&]() -> BatchNormResult {
    check_not_of_layer(options);
    check_host_boolean(is_training, "batch_norm");
    Node& node = x.graph().add_node("batch_norm", {x, scale, shift, running_mean, running_variance, is_training},
                                    options, "batch_norm");
    return {node.output(0), node.output(1), node.output(2)};
  });
}

BatchNormResult batch_norm(Value x, Value scale, Value shift, Value running_mean, Value running_variance,
                           const BatchNormOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    return batch_norm(x, scale, shift, running_mean, running_variance, x.graph().training(), options, {});
  });
}

BatchNormGradients batch_norm_grad(Value dy, Value x, Value scale, Value shift, Value mean, Value variance,
                                   Value is_training, const BatchNormOptions& options) {
  check_host_boolean(is_training, "batch_norm_grad");
  std::vector<Value> inputs = {dy, x, scale, mean, variance, is_training};
  if (options.relu) inputs.push_back(shift);
  Node& node = x.graph().add_node("batch_norm_grad", std::move(inputs), options, "batch_norm_grad");
  return {node.output(0), node.output(1), node.output(2)};
}

}  // namespace sectionflow
