#include "graph/ops/dropout.h"

#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_dropout(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  check_f32_or_bf16(x, request.label);
  const TensorType& is_training = request.inputs[1];
  SF_CHECK(is_training == (TensorType{Dtype::boolean, {}}), ArgumentError, request.label, ": is_training is ",
           is_training.text(), "; wanted bool[], a placeholder or constant");
  return {x};
}

void check_rate(float rate, const std::string& label) {
  SF_CHECK(rate >= 0 && rate < 1, ArgumentError, label, ": rate ", rate, "; wanted 0 to 1, without 1");
}

std::vector<InputUse> dropout_uses(std::size_t, HostBooleans) {
  return {InputUse::data, InputUse::host_boolean};
}

}  // namespace

void define_dropout_ops(OpRegistry& registry) {
  // The gradient is seeded as well, though its numbers are those of another node.
  const auto is_identity = [](const ConcreteRequest& r) { return r.booleans[1] == false; };
  registry.add(
      {.name = "dropout",
       .inputs = 2,
       .options = described_by<DropoutOptions>([](auto& fields, auto& options) { fields("rate", options.rate); }),
       .infer =
           [](const ShapeRequest& r) {
             check_rate(r.get<DropoutOptions>().rate, r.label);
             return infer_dropout(r);
           },
       .recompute = Recompute::seeded,
       .uses = dropout_uses,
       .is_identity = is_identity});
  registry.add({.name = "dropout_grad",
                .inputs = 2,
                .options = described_by<DropoutGradOptions>([](auto& fields, auto& options) {
                  fields("rate", options.rate);
                  fields("ordinal", options.ordinal);
                }),
                .infer =
                    [](const ShapeRequest& r) {
                      check_rate(r.get<DropoutGradOptions>().rate, r.label);
                      return infer_dropout(r);
                    },
                .recompute = Recompute::seeded,
                .uses = dropout_uses,
                .is_identity = is_identity});
}

Value dropout(Value x, Value is_training, DropoutOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    check_rate(options.rate, "dropout");
    check_host_boolean(is_training, "dropout");
    if (options.rate == 0) {
      const std::vector<TensorType> inputs = {x.type(), is_training.type()};
      (void)infer_dropout({"dropout", inputs, {}});
      return x;
    }
    return x.graph().add_node("dropout", {x, is_training}, options, "dropout").output();
  });
}

Value dropout(Value x, DropoutOptions options, Where where) {
  return x.graph().build_at(where, [&] { return dropout(x, x.graph().training(), options, {}); });
}

Value dropout_grad(Value dy, Value is_training, const Node& forward) {
  return dropout_grad(dy, is_training,
                      DropoutGradOptions{forward.options<DropoutOptions>().rate, forward.random_ordinal()});
}
Value dropout_grad(Value dy, Value is_training, const DropoutGradOptions& options) {
  return dy.graph().add_node("dropout_grad", {dy, is_training}, options, "dropout_grad").output();
}

}  // namespace sectionflow
