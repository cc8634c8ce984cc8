#pragma once

#include <string>
#include <vector>

#include "schedule/program.h"
#include "sections/section_map.h"

namespace sectionflow {

/// What of a cycle is allowed but worth knowing, a line each: how many bytes of each section's tensors wait in which
/// tier, if any are offloaded; tensors that are kept for sections which are not next to their own, with their bytes;
/// variables that several sections read; random operations outside of all sections; fetches outside of all sections,
/// with the pass that evaluates them.
std::vector<std::string> cycle_notes(const Graph& graph, const SectionMap& map, const Program& program);

}  // namespace sectionflow
