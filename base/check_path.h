#pragma once

#include <filesystem>
#include <string>

namespace sectionflow {

/// For all that opens files: the system ends a path at its first byte of zero, and would take another file than the
/// one that is meant. Throws: DataError, which `what` begins, for such a path and for an empty one.
void check_path(const std::filesystem::path& path, const std::string& what);

}  // namespace sectionflow
