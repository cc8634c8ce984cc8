#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {

// What decides how a graph's updates change variables, and is told by no variable: a training that goes on by other
// settings goes on otherwise than it would have.

/// A line each: micro-batches of an update, the norm to which gradients are clipped, and for each kind of update its
/// options and decay, and how many variables it is of: "apply_adam beta1 0.9 beta2 0.999 epsilon 1e-08, of 12
/// variables". The rate is none of them: it is lowered on the way. Empty for a graph that nothing trains.
std::vector<std::string> update_settings(const Graph& graph);

/// The settings as a file's metadata have them, and back. Empty for what is no list of texts.
std::string update_settings_text(const std::vector<std::string>& settings);
std::vector<std::string> read_update_settings(const std::string& text);

/// What is among only one of both: "then: ...; now: ...". Empty where they are alike, or where one of both is not
/// known.
std::string differences_of_settings(const std::vector<std::string>& then, const std::vector<std::string>& now);

}  // namespace sectionflow
