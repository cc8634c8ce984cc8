#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/export.h"

namespace SF_API sectionflow {

/// The bytes of a file, `most_bytes` at most. `what` begins every error, as in "load_graph".
/// Throws: DataError for what is absent, no file, not readable or larger; no more than `most_bytes` are ever read.
std::string read_whole_file(const std::filesystem::path& path, std::size_t most_bytes, const std::string& what);

/// Writes these bytes as a file, which appears whole or not at all; see AtomicFile. Throws: DataError.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes, const std::string& what);
/// The same in a folder, which is made, with those above it, where it is not there yet; empty: the one of the process.
void write_whole_file_in(const std::filesystem::path& folder, const std::string& name, std::string_view bytes,
                         const std::string& what);

}  // namespace sectionflow
