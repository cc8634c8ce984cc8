#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sectionflow {

/// What `sectionflow inspect` can show.
enum class FileKind {
  checkpoint,         ///< a folder with a manifest
  checkpoint_folder,  ///< a folder of such folders
  safetensors,
  graph,
  profile,
  plan,  ///< of fit_budget
  events,
  tfrecord,
  npy,
  idx,
  npz,
  hdf5,
  lmdb,            ///< a folder with data.mdb, or that file
  lmdb_parts,      ///< a folder with such folders for the parts of a data set
  event_files,     ///< a folder with event files in it or below
  tfrecord_files,  ///< a folder of *.tfrecord
  images,          ///< a folder with a folder of pictures for each class, or with such folders for parts
};

/// "safetensors", "checkpoint", ...
std::string kind_name(FileKind kind);
std::vector<std::string> kind_names();
/// Throws: ArgumentError with the nearest name for one that is none.
FileKind kind_named(const std::string& name);

/// The databases in a folder that are parts of a data set, as convert writes them: train, validation, test.
std::vector<std::filesystem::path> database_parts_in(const std::filesystem::path& folder);

/// The event files in a folder and in those below it, by name. Nothing of folders that cannot be read.
std::vector<std::filesystem::path> event_files_in(const std::filesystem::path& folder);

/// Told by the first bytes of a file, or by what lies in a folder; only where these say nothing by how the name ends,
/// so that a damaged file is told to be damaged. Reads some kilobytes. Throws: DataError for what cannot be read, and
/// (SF-E610) for another kind, with what is known of it.
FileKind kind_of(const std::filesystem::path& path);

}  // namespace sectionflow
