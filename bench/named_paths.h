#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sectionflow {

// The files and folders that a command names, so that nothing that it writes takes the place of something else.

/// Without links, those to what is not there yet too, and "..", as far as the path is there.
std::filesystem::path plain_path(const std::filesystem::path& path);
/// Whether a path is that of a folder or of something below it.
bool lies_in(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// What of a path is not for others to write.
enum class Extent {
  file,         ///< it alone
  files,        ///< a folder and the files in it; folders in it may be for something else
  everything,   ///< a folder and all that is below it
  checkpoints,  ///< of a folder `latest` and each `step-N` with what lies in it
  own_names,    ///< nothing: what is written into that folder has names that nothing else has, as event files
};

/// A file or folder by the option that names it; an empty path: none.
struct NamedPath {
  std::string option;
  std::filesystem::path path;
  Extent extent = Extent::file;
};

/// Fails where one of `written` is, or lies in, what belongs to another of them or to one of `read`, of which it would
/// replace something or be taken for a part, and where it is there and a file of a checkpoint. Links are followed,
/// those too that lie in folders that are read. Standard output ("-" of --json) takes no place. Nothing is touched.
/// Throws: ArgumentError naming both options.
void check_apart(const std::vector<NamedPath>& read, const std::vector<NamedPath>& written);

}  // namespace sectionflow
