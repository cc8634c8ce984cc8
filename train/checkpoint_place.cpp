#include "train/checkpoint_place.h"

#include <algorithm>
#include <cctype>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/file_at.h"
#include "train/checkpoint_folder.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

}  // namespace

// A manifest names its format at its beginning. Others have files of that name, too.
bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  const fs::path manifest = folder / kManifestName;
  if (!fs::is_regular_file(fs::symlink_status(manifest, ignored))) return false;
  if (fs::exists(folder / kVariablesName, ignored)) return true;
  try {
    const FileAt file(manifest, "manifest");
    std::string beginning(std::min<std::uint64_t>(file.num_bytes(), 256), '\0');
    file.read_at(0, beginning.data(), beginning.size());
    return beginning.find(kManifestFormat) != std::string::npos;
  } catch (const DataError&) {
    return false;
  }
}

namespace {

bool has_checkpoints(const fs::path& folder) {
  const CheckpointFolder checkpoints(folder);
  std::string ignored;
  if (checkpoints.latest(ignored)) return true;
  try {
    for (std::int64_t step : checkpoints.steps()) {
      if (is_checkpoint(checkpoints.path_of(step))) return true;
    }
  } catch (const DataError&) {
    // One that may not be read has nothing to offer.
  }
  return false;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    entries.push_back(entry->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool has_pictures(const fs::path& folder) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::string ending = entry->path().extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
    if (ending == ".jpg" || ending == ".jpeg" || ending == ".png") return true;
  }
  return false;
}

/// Whether a folder looks like one of pictures with a folder for each class: it has two folders at least, and each of
/// them pictures. Hidden ones do not count.
bool has_classes_of_pictures(const std::vector<fs::path>& entries) {
  std::size_t count = 0;
  for (const fs::path& entry : entries) {
    std::error_code ignored;
    if (entry.filename().string().starts_with('.') || !fs::is_directory(entry, ignored)) continue;
    if (!has_pictures(entry)) return false;
    ++count;
  }
  return count >= 2;
}

/// The folder around one, however its path is written: "run/step-3/", ".".
fs::path folder_around(const fs::path& folder) {
  const fs::path normal = absolute_path(folder).lexically_normal();
  return normal.has_filename() ? normal.parent_path() : normal.parent_path().parent_path();
}

}  // namespace

void check_takes_checkpoints(const fs::path& folder) {
  SF_CHECK(!is_checkpoint(folder), ArgumentError, "Checkpoints: '", folder.string(),
           "' is a checkpoint; wanted the folder that checkpoints lie in",
           hint("take its folder, '", folder_around(folder).string(), "'"));
  const std::vector<fs::path> entries = entries_of(folder);
  const auto records = std::find_if(entries.begin(), entries.end(),
                                    [](const fs::path& entry) { return entry.extension() == ".tfrecord"; });
  SF_CHECK(records == entries.end() || has_checkpoints(folder), ArgumentError, "Checkpoints: '", folder.string(),
           "' has records to train on, '", records->filename().string(), "', and no checkpoint",
           hint("give checkpoints a folder of their own"));
  SF_CHECK(!has_classes_of_pictures(entries) || has_checkpoints(folder), ArgumentError, "Checkpoints: '",
           folder.string(),
           "' has folders of pictures to train on, and no checkpoint; each folder of a checkpoint "
           "would be a class of them",
           hint("give checkpoints a folder of their own"));
}

std::string folder_of_checkpoints_in(const fs::path& folder) {
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code ignored;
    if (fs::is_directory(entry, ignored) && has_checkpoints(entry)) return entry.string();
  }
  return {};
}

}  // namespace sectionflow
