#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/export.h"

namespace SF_API sectionflow {

/// A regular file that is open for reading, and its size.
struct OpenedFile {
  int descriptor = -1;  ///< to be closed by who opened it
  std::uint64_t num_bytes = 0;
};
/// Opens `name` in an open folder or, with AT_FDCWD, where it says. `flags`: of openat, beside those that every reader
/// wants. `where` begins every error. Throws: DataError for what is absent, no file, or not readable.
OpenedFile open_regular_file(int folder, const char* name, int flags, const std::string& where);

/// A file that is read anywhere. Owns: its descriptor. Threads: any number at once.
class FileAt {
 public:
  /// `kind` begins every error, as in "npy file". Throws: DataError for what is absent, no file, or not readable.
  FileAt(const std::filesystem::path& path, const std::string& kind);
  FileAt(const FileAt&) = delete;
  FileAt& operator=(const FileAt&) = delete;
  ~FileAt();

  /// "npy file 'path': "
  const std::string& where() const { return where_; }
  /// When it was opened.
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// Throws: DataError when they are not there (any more), or cannot be read.
  void read_at(std::uint64_t offset, void* bytes, std::size_t num_bytes) const;

 private:
  std::string where_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
};

}  // namespace sectionflow
