#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace sectionflow {

/// The bytes of a file, `most_bytes` at most. `what` begins every error, as in "load_graph".
/// Throws: DataError for what is absent, no file, not readable or larger; no more than `most_bytes` are ever read.
std::string read_whole_file(const std::filesystem::path& path, std::size_t most_bytes, const std::string& what);

}  // namespace sectionflow
