#pragma once

#include <array>
#include <string>

namespace sectionflow {

// Names of the format; docs/graph_files.md tells what they mean.
inline constexpr const char* kGraphFormat = "sectionflow-graph";
inline constexpr int kGraphFormatVersion = 1;

/// Members of the file, in the only order: what stands below may name what stands above.
inline const std::array<std::string, 8> kGraphMembers = {"format", "version", "groups", "scopes",
                                                         "nodes",  "edits",   "order",  "collections"};
inline const std::array<std::string, 10> kNodeMembers = {"name",  "op",     "options", "inputs", "control",
                                                         "group", "branch", "phase",   "random", "types"};
inline const std::array<std::string, 3> kEditMembers = {"node", "input", "value"};
inline const std::array<std::string, 4> kEntryMembers = {"name", "value", "operation", "group"};
/// In the order of Phase.
inline const std::array<std::string, 2> kPhases = {"model", "training"};

}  // namespace sectionflow
