#pragma once

#include <string>
#include <vector>

#include "schedule/program.h"
#include "sections/section_map.h"

namespace sectionflow {

/// What of a cycle is allowed but worth knowing, a line each: where each section's tensors rest, if any leave the
/// device; tensors that rest for sections which are not next to their own, with their bytes; variables that several
/// sections read; random operations outside of all sections; fetches outside of all sections, with the pass that
/// evaluates them.
std::vector<std::string> cycle_notes(const Graph& graph, const SectionMap& map, const Program& program);

}  // namespace sectionflow
