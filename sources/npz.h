#pragma once

#include <cstddef>
#include <filesystem>

#include "base/bytes.h"
#include "base/export.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// The arrays of a .npz file, as numpy.savez and savez_compressed write them, by name; see read_npy for their types.
/// Of all together no more than `max_bytes` are expanded. Throws: DataError naming file and array; DataError (SF-E408)
/// where libzip is absent.
Example read_npz(const std::filesystem::path& path, std::size_t max_bytes = 4_GiB);

/// Writes tensors as numpy.load reads them, compressed if that is wanted; the file appears whole or not at all, and is
/// in memory before. The same tensors give the same bytes. Throws: ArgumentError for bf16, and for names that are empty
/// or have a `/` in them; DataError.
void write_npz(const std::filesystem::path& path, const Example& tensors, bool compressed = true);

}  // namespace sectionflow
