#pragma once

#include <string>

#include "base/error.h"
#include "base/export.h"
#include "sections/graph_section_manager.h"

namespace SF_API sectionflow {

/// What a drawing of sections shows.
struct DotOptions {
  /// Each operation of the forward pass in its section; otherwise a box a section.
  bool operations = true;
  /// What the backward runs of sections take and keep, besides what the forward pass does.
  bool backward = true;
};

/// The sections of a model as a graph for Graphviz: a cluster a section with its operations, and between the clusters
/// the tensors that cross their borders, with types and bytes. Dashed arrows lead to and from backward runs. What feeds
/// decide is as `feeds` say; where they leave a size open its bytes are left out. What stands outside of all sections
/// is not drawn but for the tensors that sections take of it. `dot -Tsvg file.dot > file.svg` draws.
/// Throws: ArgumentError before prepare_training(), and for feeds of what is no placeholder.
std::string sections_dot(const GraphSectionManager& manager, const FeedTypes& feeds = {},
                         const DotOptions& options = {}, Where where = Where::here());
/// The same as a file. Throws also: DataError when it cannot be written; what was there is then as it was.
void write_sections_dot(const std::string& path, const GraphSectionManager& manager, const FeedTypes& feeds = {},
                        const DotOptions& options = {}, Where where = Where::here());

}  // namespace sectionflow
