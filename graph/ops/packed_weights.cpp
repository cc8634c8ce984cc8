#include "graph/ops/packed_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

constexpr const char* kName = "with_packed_weights";

/// nullptr for a name that is none, and for an operation whose weights cannot be packed.
const OpDef* inner_op(const PackedWeightsOptions& options) {
  const auto found = op_registry().all().find(options.op);
  return found != op_registry().all().end() && may_have_packed_weights(found->second) ? &found->second : nullptr;
}

void check(const PackedWeightsOptions& options, const std::string& label) {
  const OpDef* op = inner_op(options);
  SF_CHECK(op != nullptr, ArgumentError, label, " is of the operation '", options.op,
           "'; wanted one that computes its outputs of its inputs and does nothing else");
  SF_CHECK(options.options.type() == *op->options.type, ArgumentError, label, " got options of another type than op '",
           op->name, "' has");
  if (op->options.check) op->options.check(options.options, label);
  const auto num_inputs = static_cast<std::int64_t>(options.types.size());
  SF_CHECK(0 <= options.input && options.input < num_inputs, ArgumentError, label, " got ", options.input,
           " as the number of the packed input; wanted one of ", num_inputs, " from 0 on");
  SF_CHECK(op->inputs.least <= num_inputs && num_inputs <= op->inputs.most, ArgumentError, label, " got ", num_inputs,
           " types; wanted as many as ", op->name, " has inputs");
  for (const TensorType& type : options.types) {
    SF_CHECK(type.shape.is_static(), ArgumentError, label, " got the type ", type.text(),
             "; wanted shapes that are known");
  }
}

/// Those of `op`, which stand among ours.
OptionsDescription described() {
  // Names of a file's fields that no operation has for its own.
  const auto describe = [](auto& fields, auto& options) {
    fields("packed_op", options.op);
    fields("packed_input", options.input);
    fields("packed_types", options.types);
    fields("packed_order", options.order);
  };
  OptionsDescription all = described_by<PackedWeightsOptions>(describe);
  all.write = [describe](const std::any& any, OptionWriter& fields) {
    const auto& options = std::any_cast<const PackedWeightsOptions&>(any);
    describe(fields, options);
    const OpDef* op = inner_op(options);
    if (op != nullptr && op->options.write) op->options.write(options.options, fields);
  };
  all.read = [describe](OptionReader& fields) -> std::any {
    PackedWeightsOptions options;
    describe(fields, options);
    const OpDef* op = inner_op(options);
    if (op != nullptr && op->options.read) options.options = op->options.read(fields);
    return options;
  };
  all.check = [](const std::any& any, const std::string& label) {
    check(std::any_cast<const PackedWeightsOptions&>(any), label);
  };
  return all;
}

std::vector<TensorType> infer(const ShapeRequest& request) {
  const auto& options = request.get<PackedWeightsOptions>();
  SF_CHECK(request.inputs.size() == options.types.size(), ArgumentError, request.label, " got ", request.inputs.size(),
           " inputs; wanted ", options.types.size());
  std::vector<TensorType> inputs(request.inputs.begin(), request.inputs.end());
  TensorType& weights = inputs[static_cast<std::size_t>(options.input)];
  const TensorType plain = options.types[static_cast<std::size_t>(options.input)];
  SF_CHECK(weights.dtype == plain.dtype && weights.shape.rank() == 1 && weights.shape.is_static(), ShapeError,
           request.label, " got packed weights ", weights.text(), "; wanted [n], ", dtype_name(plain.dtype),
           ", of a known n");
  weights = plain;
  return inner_op(options)->infer({request.label, inputs, options.options});
}

}  // namespace

bool may_have_packed_weights(const OpDef& op) {
  // What takes any number of inputs, this op among them, has no weights.
  return op.role == OpRole::computed && op.recompute == Recompute::pure && op.has_kernel && op.inputs.least > 0 &&
         !op.uses && !op.has_effect && !op.is_identity && !op.is_update() && !op.communicates && !op.prints &&
         op.kept_outputs.empty() && op.movement == Movement::none && op.inputs.most != kAnyNumber;
}

void define_packed_weights_ops(OpRegistry& registry) {
  registry.add({.name = kName,
                .inputs = {1, kAnyNumber},
                .options = described(),
                .infer = infer,
                // An element of y for each of its channels, the last dimension, takes its part of the weights.
                .flops = [](auto inputs, auto outputs) {
                  std::int64_t weights = 0;
                  for (const TensorType& input : inputs) {
                    if (input.shape.rank() == 1) weights = std::max(weights, input.shape.num_elements());
                  }
                  const Shape& y = outputs[0].shape;
                  const std::int64_t channels = y.rank() > 0 ? std::max<std::int64_t>(1, y[-1]) : 1;
                  return 2.0 * static_cast<double>(weights) * static_cast<double>(y.num_elements() / channels);
                }});
}

Value with_packed_weights(const std::vector<Value>& inputs, const PackedWeightsOptions& options, std::string_view name,
                          Where where) {
  SF_CHECK(!inputs.empty(), ArgumentError, kName, " got no inputs; wanted those of '", options.op, "'");
  return inputs[0].graph().add_node(kName, inputs, options, name.empty() ? kName : name, where).output();
}

}  // namespace sectionflow
