#include "graph/ops/swap.h"

#include "graph/op_registry.h"

namespace sectionflow {
namespace {

void check_offloaded(Value value, Movement wanted, const char* call, const char* why) {
  const bool is_offloaded = value.node().op().movement == Movement::out;
  SF_CHECK(is_offloaded == (wanted == Movement::in), ArgumentError, call, " of '", value.name(), "': ", why);
}

}  // namespace

void define_swap_ops(OpRegistry& registry) {
  const auto like_input = [](const ShapeRequest& r) { return std::vector{r.inputs[0]}; };
  registry.add({.name = "swap_out", .infer = like_input, .has_kernel = false, .movement = Movement::out});
  registry.add({.name = "swap_in", .infer = like_input, .has_kernel = false, .movement = Movement::in});
}

Value swap_out(Value x, std::string_view name, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(!x.node().op().is_variable(), ArgumentError, "swap_out of '", x.name(),
             "': a variable lives in the session from run to run; swap what is computed from it");
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
