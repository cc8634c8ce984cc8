#pragma once

#include "base/export.h"
#include "graph/graph.h"
#include "schedule/build_schedule.h"
#include "schedule/signature.h"

namespace SF_API sectionflow {

/// The signature of a program that executes what `request` asks for: with the value of the graph's training flag, where
/// the graph has one and no feed gives it. It is true where the program applies updates, and so completes a training
/// cycle; giving variables their initial values is none. Looks through the graph: for programs that are compiled.
Signature with_training_flag(const Graph& graph, Signature signature, const RunRequest& request);

}  // namespace sectionflow
