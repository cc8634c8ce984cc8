#include "graph/ops/identities.h"

#include "graph/nodes/identities.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

void check_offloaded(Value value, Movement wanted, const char* call, const char* why) {
  const bool is_offloaded = value.node().op().movement == Movement::out;
  SF_CHECK(is_offloaded == (wanted == Movement::in), ArgumentError, call, " of '", value.name(), "': ", why);
}

}  // namespace

void define_identities_ops(OpRegistry& registry) {
  const auto like_input = [](const ShapeRequest& r) { return std::vector{r.inputs[0]}; };
  registry.add(
      {.name = "stop_gradient", .infer = like_input, .is_identity = [](const ConcreteRequest&) { return true; }});
  registry.add({.name = "custom_gradient",
                .inputs = {2, kAnyNumber},
                .options = described_by<CustomGradientOptions>([](auto& /*fields*/, auto& /*options*/) {}),
                .infer = like_input,
                .uses =
                    [](std::size_t num_inputs, HostBooleans) {
                      // What y was computed from is there for its gradient alone.
                      std::vector<InputUse> uses(num_inputs, InputUse::unused);
                      uses[0] = InputUse::data;
                      return uses;
                    },
                .is_identity = [](const ConcreteRequest&) { return true; }});
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
  registry.add({.name = "swap_out", .infer = like_input, .has_kernel = false, .movement = Movement::out});
  registry.add({.name = "swap_in", .infer = like_input, .has_kernel = false, .movement = Movement::in});
}

Value stop_gradient(Value x, Where where) {
  return x.graph().add_node("stop_gradient", {x}, {}, "stop_gradient", where).output();
}

Value print(Value x, PrintOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(options.first >= 0, ArgumentError, "print '", x.name(), "': first is ", options.first, "; wanted >= 0");
    if (options.label.empty()) options.label = x.name();
    return x.graph().add_node("print", {x}, std::move(options), "print").output();
  });
}

Value swap_out(Value x, std::string_view name, Where where) {
  return x.graph().build_at(where, [&] {
    check_offloaded(x, Movement::out, "swap_out", "it is offloaded to the host already");
    return x.graph().add_node("swap_out", {x}, {}, name).output();
  });
}

Value swap_in(Value offloaded, std::string_view name, Where where) {
  return offloaded.graph().build_at(where, [&] {
    check_offloaded(offloaded, Movement::in, "swap_in", "it is on the device; wanted a result of swap_out");
    return offloaded.graph().add_node("swap_in", {offloaded}, {}, name).output();
  });
}

std::vector<Operation> swap_nodes(const Graph& graph) {
  std::vector<Operation> found;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op().movement != Movement::none) found.emplace_back(graph.node(id));
  }
  return found;
}

}  // namespace sectionflow
