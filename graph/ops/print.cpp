#include "graph/ops/print.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {

void define_print_ops(OpRegistry& registry) {
  registry.add({.name = "print",
                .options = described_by<PrintOptions>([](auto& fields, auto& options) {
                  fields("label", options.label);
                  fields("first", options.first);
                }),
                .infer =
                    [](const ShapeRequest& r) {
                      const int first = r.get<PrintOptions>().first;
                      SF_CHECK(first >= 0, ArgumentError, r.label, ": first is ", first, "; wanted >= 0");
                      return std::vector{r.inputs[0]};
                    },
                .prints = true});
}

Value print(Value x, PrintOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(options.first >= 0, ArgumentError, "print '", x.name(), "': first is ", options.first, "; wanted >= 0");
    if (options.label.empty()) options.label = x.name();
    return x.graph().add_node("print", {x}, std::move(options), "print").output();
  });
}

}  // namespace sectionflow
