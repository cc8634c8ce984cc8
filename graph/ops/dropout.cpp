#include "graph/ops/dropout.h"

#include "graph/check_f32.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_dropout(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  check_f32(x, request.label);
  const TensorType& is_training = request.inputs[1];
  SF_CHECK(is_training == (TensorType{Dtype::boolean, {}}), ArgumentError, request.label, ": is_training is ",
           is_training.text(), "; wanted bool[], a placeholder or constant");
  return {x};
}

std::vector<InputUse> dropout_uses(std::size_t, HostBooleans) {
  return {InputUse::data, InputUse::host_boolean};
}

}  // namespace

void define_dropout_ops(OpRegistry& registry) {
  // The gradient is seeded as well, though its numbers are those of another node.
  for (const char* name : {"dropout", "dropout_grad"}) {
    registry.add({.name = name,
                  .infer = infer_dropout,
                  .recompute = Recompute::seeded,
                  .uses = dropout_uses,
                  .is_identity = [](const IdentityRequest& r) { return r.booleans[1] == false; }});
  }
}

Value dropout(Value x, Value is_training, DropoutOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(options.rate >= 0 && options.rate < 1, ArgumentError, "dropout: rate ", options.rate,
             "; wanted 0 to 1, without 1");
    check_host_boolean(is_training, "dropout");
    if (options.rate == 0) {
      const std::vector<TensorType> inputs = {x.type(), is_training.type()};
      (void)infer_dropout({"dropout", inputs, {}});
      return x;
    }
    return x.graph().add_node("dropout", {x, is_training}, options, "dropout").output();
  });
}

Value dropout_grad(Value dy, Value is_training, const Node& forward) {
  const DropoutGradOptions options{forward.options<DropoutOptions>().rate, forward.random_ordinal()};
  return dy.graph().add_node("dropout_grad", {dy, is_training}, options, "dropout_grad").output();
}

}  // namespace sectionflow
