#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// A value that every run feeds. `shape` may have kDynamic dimensions, which the feed decides. A boolean scalar
/// placeholder may choose kernels (batch_norm's `is_training`); its fed value is then part of the program's signature.
/// Whether a run trains need not be fed: Graph::training().
Value placeholder(Graph& graph, std::string_view name, Shape shape, Dtype dtype = Dtype::f32,
                  Where where = Where::here());

/// Options of the op "variable".
struct VariableOptions {
  bool trainable = true;
};

/// A tensor that lives in the session from run to run. `initial_value` (a static shape) is computed and assigned by
/// Session::initialize. Added to the collections "variables" and, if trainable, "trainable_variables".
/// Within a scope of SharedVariables it may be one that is there already, which keeps its own initial value.
/// Throws: ShapeError for a shape with an unknown dimension; ArgumentError for an initial value that depends on a
/// variable.
Value variable(std::string_view name, Value initial_value, VariableOptions options = {}, Where where = Where::here());
/// Whether a value is a variable.
bool is_variable(Value value);
/// Whether the elements of a value are known on the host before a run: those of a placeholder, which are fed, and of
/// constant().
bool is_known_on_host(Value value);
/// Whether a node is what Graph::training() gives.
bool is_training_flag(const Node& node);
/// Throws: ArgumentError (starting with `where`) unless `boolean`, which chooses kernels, is known on the host.
void check_host_boolean(Value boolean, std::string_view where);
/// Whether a variable is trained where nothing else is said. Throws: ArgumentError for a value that is no variable.
bool is_trainable(Value variable);
/// The operation that assigns a variable its initial value.
/// Throws: ArgumentError for a value that is no variable.
Operation initializer_of(Value variable);
/// What a variable holds at first: begins others alike. Throws: as initializer_of.
Value initial_value_of(Value variable);

/// A tensor that is part of the graph.
Value constant(Graph& graph, HostTensor tensor, std::string_view name = "constant", Where where = Where::here());
/// An f32 scalar that is part of the graph.
Value constant(Graph& graph, float value, std::string_view name = "constant", Where where = Where::here());
/// The content of a constant; nullptr for values that are not one.
const HostTensor* constant_content(Value value);

/// A tensor of `shape` full of `value`.
Value fill(Graph& graph, Shape shape, double value, Dtype dtype = Dtype::f32, std::string_view name = "fill",
           Where where = Where::here());

/// An operation that does nothing, after all of `operations`: a name for executing them together.
Operation group(Graph& graph, const std::vector<Operation>& operations, std::string_view name = "group",
                Where where = Where::here());

/// Options of the op "placeholder".
struct PlaceholderOptions {
  TensorType type;
  bool training_flag = false;  ///< Graph::training(): bool [], decided by what a run executes where it is not fed
};
/// Options of the op "constant".
struct ConstantOptions {
  std::shared_ptr<const HostTensor> content;
};
/// Options of the op "fill".
struct FillOptions {
  TensorType type;
  double value = 0;
};

}  // namespace sectionflow
