#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/tfrecord_source.h"
#include "tools/labelled_source.h"

namespace sectionflow {

/// What has been written.
struct Converted {
  std::vector<std::filesystem::path> written{};
  std::int64_t examples = 0;
};

/// Throws: DataError for a folder in which a conversion was cut off while the files of a data set got their places.
void check_complete(const std::filesystem::path& folder);

/// Throws: ArgumentError for what is there already, unless it may be replaced.
void check_free(const std::filesystem::path& path, bool overwrite);

// Both make the whole data set beside what is there, under names that end in ".new-<pid>", and put it in place when all
// of it is complete: an error before that leaves everything as it was. From then on a file marks the folder until all
// have their places: what a kill cuts off there is known for that (check_complete). What a killed call has left of such
// names is removed. Throws: ArgumentError for a data set that is there already, unless it is to be overwritten;
// DataError.

/// A folder's TFRecord files, by part, and the names of classes. All parts of another data set are refused, or, with
/// `options.overwrite`, gone when this one is in place: they would be trained on with it.
Converted write_record_parts(const std::filesystem::path& folder, const std::vector<LabelledPart>& parts,
                             const TfrecordWriterOptions& options);

/// A database a part, in the folder; of a data set in one part the folder itself. Only databases are replaced, not
/// folders that hold anything else. Parts of another data set are refused, or gone, as with records.
Converted write_database_parts(const std::filesystem::path& folder, const std::vector<LabelledPart>& parts,
                               bool overwrite);

}  // namespace sectionflow
