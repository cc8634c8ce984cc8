#pragma once

#include <optional>

#include "graph/graph.h"
#include "sections/section_options.h"

namespace sectionflow {

/// Says in the graph which options the section of this group was opened with, as kSectionOptions has them, so that a
/// manager over the graph in a file can go by them. No run reads what it adds.
void note_options(Graph& graph, GroupId group, const SectionOptions& options);

/// What note_options has said of the group; none where it was not called. A file may say anything. Throws: DataError
/// (SF-E402) for what is none.
std::optional<SectionOptions> noted_options(const Graph& graph, GroupId group);

}  // namespace sectionflow
