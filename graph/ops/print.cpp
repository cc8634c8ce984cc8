#include "graph/ops/print.h"

#include "graph/op_registry.h"

namespace sectionflow {

void define_print_ops(OpRegistry& registry) {
  registry.add({.name = "print", .infer = [](const ShapeRequest& r) { return std::vector{r.inputs[0]}; }});
}

Value print(Value x, PrintOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(options.first >= 0, ArgumentError, "print '", x.name(), "': first is ", options.first, "; wanted >= 0");
    if (options.label.empty()) options.label = x.name();
    return x.graph().add_node("print", {x}, std::move(options), "print").output();
  });
}

}  // namespace sectionflow
