#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace sectionflow {

// How layers and variables are made where SharedVariables may be open.

/// A variable that is asked for by name.
struct WantedVariable {
  Shape shape;
  std::optional<Dtype> dtype{};  ///< not known before an initialiser is called
  bool trainable = true;
};

/// The variable that an open scope has for this name below the current name scope, or what is to be taken in its place.
/// Nothing where the variable is to be made: where no scope is open, or all that are make their variables.
/// Throws: ArgumentError (SF-E015) where an open scope should have it and has it not, or has another.
std::optional<Value> shared_variable(Graph& graph, std::string_view name, const WantedVariable& wanted);
/// Tells the open scopes of a variable that has been made because there was none.
void remember_variable(Graph& graph, std::string_view name, Value variable);
/// Whether an open scope gives other values in the place of variables.
bool replaces_variables(const Graph& graph);

}  // namespace sectionflow
