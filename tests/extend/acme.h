#pragma once

#include "extend/register_family.h"
#include "graph/graph.h"

/// Somebody else's operations, as tests have them. They are registered before the first test, while registration is
/// open.
namespace acme {

/// y = 2 x, with kernels for both kinds of device and no gradient.
sectionflow::Value twice(sectionflow::Value x);

/// y = x + noise * uniform numbers in [0, 1), which are the same when it is computed again; its derivative is 1.
sectionflow::Value shaken(sectionflow::Value x, float noise);

/// y = x, by a kernel with a fault.
enum class Fault { none, writes_behind, writes_to_input, reads_output };
sectionflow::Value careless(sectionflow::Value x, Fault fault);

/// y = x, with a gradient rule that breaks its promise.
enum class WrongRule { none, one_too_many, other_shape, other_dtype, other_graph };
sectionflow::Value misruled(sectionflow::Value x, WrongRule rule);

/// A family that is right, of one op of this name.
sectionflow::OpFamily family_of(const std::string& name);

/// A graph that was begun before anything was registered.
struct EarlyGraph {
  sectionflow::Graph graph;
  sectionflow::Value x;
};
EarlyGraph& early_graph();

}  // namespace acme
