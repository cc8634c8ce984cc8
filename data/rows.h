#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// The rows of tensors in memory: example i has element i along the first axis of each. `name` is the source's.
/// Owns: the tensors. Throws: ArgumentError when there are none; ShapeError for a scalar among them, and for tensors of
/// different lengths.
std::shared_ptr<const IndexedSource> rows_of(std::string name, Example tensors);

/// The rows of IDX files (read_idx), by the names that the tensors are to have: {{"image", images_path}, {"label",
/// labels_path}} gives MNIST's as {"image": u8 [28,28], "label": u8 []}. All is read at once.
/// Throws: DataError naming the file, also when the files are of different lengths; ArgumentError for no files.
std::shared_ptr<const IndexedSource> idx_source(const std::map<std::string, std::filesystem::path>& files);

}  // namespace sectionflow
