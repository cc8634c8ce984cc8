#include "graph/update_rules.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "graph/ops/basic.h"

namespace sectionflow {

void check_like_variable(const ShapeRequest& request, std::initializer_list<int> others) {
  for (int index : others) {
    SF_CHECK(matches(request.inputs[0].shape, request.inputs[index].shape), ShapeError, request.label, ": variable is ",
             request.inputs[0].text(), ", input ", index, " is ", request.inputs[index].text());
    SF_CHECK(request.inputs[index].dtype == request.inputs[0].dtype, ArgumentError, request.label, ": variable is ",
             request.inputs[0].text(), ", input ", index, " is ", request.inputs[index].text(), "; try cast");
  }
}

void check_scalar(const ShapeRequest& request, int index, Dtype dtype, std::string_view what) {
  SF_CHECK(request.inputs[index] == (TensorType{dtype, {}}), ArgumentError, request.label, ": ", what, " is ",
           request.inputs[index].text(), "; wanted ", dtype_name(dtype), "[]");
}

void check_gradient(const ShapeRequest& request, int index) {
  TensorType widened = request.inputs[index];
  if (widened.dtype == Dtype::bf16) widened.dtype = Dtype::f32;
  SF_CHECK(matches(request.inputs[0].shape, widened.shape), ShapeError, request.label, ": variable is ",
           request.inputs[0].text(), ", its gradient ", request.inputs[index].text());
  SF_CHECK(widened.dtype == request.inputs[0].dtype, ArgumentError, request.label, ": variable is ",
           request.inputs[0].text(), ", its gradient ", request.inputs[index].text(), "; try cast");
}

void check_f32_variable(const ShapeRequest& request) {
  SF_CHECK(request.inputs[0].dtype == Dtype::f32, ArgumentError, request.label, ": variable is ",
           request.inputs[0].text(), "; wanted f32");
}

void add_conditional(OpRegistry& registry, OpDef op) {
  const int own = op.inputs.least;
  op.inputs = {own, own + 2};
  op.infer = [own, infer = std::move(op.infer)](const ShapeRequest& request) {
    for (int i = own; i < static_cast<int>(request.inputs.size()); ++i) {
      check_scalar(request, i, Dtype::boolean, i == own ? "the condition" : "the gate");
    }
    return infer(request);
  };
  const auto holds = [own](HostBooleans booleans) {
    const auto condition = static_cast<std::size_t>(own);
    return booleans.size() <= condition || booleans[condition].value_or(true);
  };
  op.uses = [own, holds](std::size_t num_inputs, HostBooleans booleans) {
    std::vector<InputUse> uses(num_inputs, holds(booleans) ? InputUse::data : InputUse::unused);
    if (num_inputs > static_cast<std::size_t>(own)) uses[static_cast<std::size_t>(own)] = InputUse::host_boolean;
    return uses;
  };
  op.has_effect = holds;
  registry.add(std::move(op));
}

void add_optimizer_update(OpRegistry& registry, const OptimizerUpdate& update, OptionsDescription options,
                          void (*check)(const ShapeRequest&)) {
  const int gradient = update.num_slots + 1;
  std::vector<int> updated(static_cast<std::size_t>(gradient));
  std::iota(updated.begin(), updated.end(), 0);
  const auto infer = [=](const ShapeRequest& request) {
    check_f32_variable(request);
    if (update.check_slots != nullptr) update.check_slots(request);
    for (int slot = 1; slot < gradient && update.check_slots == nullptr; ++slot) check_like_variable(request, {slot});
    check_gradient(request, gradient);
    check_scalar(request, gradient + 1, Dtype::f32, "learning_rate");
    if (update.counts) check_scalar(request, gradient + 2, Dtype::i64, "steps");
    if (check != nullptr) check(request);
    return std::vector<TensorType>{};
  };
  add_conditional(registry, {.name = update.name,
                             .inputs = gradient + (update.counts ? 3 : 2),
                             .options = std::move(options),
                             .infer = infer,
                             .recompute = Recompute::once,
                             .updated_inputs = std::move(updated),
                             .left_by_update = update.left});
}

Operation add_update(std::string_view op, std::vector<Value> inputs, std::size_t num_variables, std::any options,
                     Where where) {
  Graph& graph = inputs[0].graph();
  return graph.build_at(where, [&] {
    for (std::size_t i = 0; i < num_variables; ++i) {
      SF_CHECK(is_variable(inputs[i]), ArgumentError, op, ": '", inputs[i].name(), "' is made by ",
               inputs[i].node().op().name, "; wanted a variable");
    }
    const std::string name = text_of("/", inputs[0].name(), "/", op);
    return Operation(graph.add_node(op, std::move(inputs), std::move(options), name));
  });
}

void check_decay(float decay, const char* name, const std::string& label) {
  // 1 would divide by zero in the first step.
  SF_CHECK(decay >= 0 && decay < 1, ArgumentError, label, ": ", name, " is ", decay, "; wanted 0 to 1, less than 1");
}

void check_not_negative(float number, const char* name, const std::string& label) {
  SF_CHECK(number >= 0 && std::isfinite(number), ArgumentError, label, ": ", name, " is ", number,
           "; wanted 0 or more");
}

}  // namespace sectionflow
