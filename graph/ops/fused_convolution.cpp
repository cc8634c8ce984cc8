#include "graph/ops/fused_convolution.h"

#include <utility>
#include <vector>

#include "graph/nodes/window.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Inputs: x, w, b and perhaps the residual.
struct FusedConvolutionRule {
  std::size_t rank;

  std::vector<TensorType> operator()(const ShapeRequest& request) const {
    check_f32(request);
    const ConvolutionOptions& options = request.get<FusedConvolutionOptions>().convolution;
    SF_CHECK(options.steps.stride.size() == rank, ArgumentError, request.label, " got ", options.steps.stride.size(),
             " strides; wanted one an axis, ", rank);
    const auto geometry =
        convolution_geometry(request.inputs[0].shape, request.inputs[1].shape, options, request.label);
    const TensorType y{Dtype::f32, geometry.y_shape()};
    SF_CHECK(request.inputs[2].shape == Shape{geometry.filters}, ShapeError, request.label, " got b ",
             request.inputs[2].shape, "; wanted ", Shape{geometry.filters});
    SF_CHECK(request.inputs.size() < 4 || may_agree(request.inputs[3], y), ShapeError, request.label,
             " got a residual ", request.inputs[3].shape, "; wanted ", y.shape);
    return {y};
  }
};

}  // namespace

void define_fused_convolution_ops(OpRegistry& registry) {
  for (std::size_t rank : {2, 3}) {
    registry.add({.name = text_of("fused_conv", rank, "d"),
                  .inputs = {3, 4},
                  .options = described_by<FusedConvolutionOptions>([](auto& fields, auto& described) {
                    describe_steps(fields, described.convolution.steps);
                    fields("groups", described.convolution.groups);
                    fields("relu", described.relu);
                  }),
                  .infer = FusedConvolutionRule{rank},
                  .flops = [](auto inputs, auto outputs) { return convolution_flops(outputs[0], inputs[1]); }});
  }
}

Value fused_convolution(Value x, Value w, Value b, Value residual, const FusedConvolutionOptions& options,
                        std::string_view name, Where where) {
  const std::string op = text_of("fused_conv", options.convolution.steps.stride.size(), "d");
  std::vector<Value> inputs = {x, w, b};
  if (residual.valid()) inputs.push_back(residual);
  return x.graph().add_node(op, std::move(inputs), options, name.empty() ? op : name, where).output();
}

}  // namespace sectionflow
