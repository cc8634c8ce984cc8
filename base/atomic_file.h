#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace sectionflow {

/// A file that appears whole or not at all. The bytes go to a temporary sibling (`<path>.tmp-<pid>-<n>`, created new);
/// `commit()` puts it in the place of `path`. Until then, and on every failure, what was at `path` stays as it was.
/// A symbolic link at `path` is itself replaced.
/// Owns: the sibling, which is removed unless committed.
class AtomicFile {
 public:
  /// `what` begins every error, as in "write_safetensors". Throws: DataError when the sibling cannot be created
  /// and when `path` is something other than a file.
  AtomicFile(std::filesystem::path path, std::string what);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends. Throws: DataError when the disk or a limit refuses.
  void write(const void* bytes, std::size_t num_bytes);

  /// Flushes the bytes to the disk, renames, and flushes the folder, so that a loss of power leaves the old file or the
  /// new one. To be called once. Throws: DataError; only when the text says so is the new file already in place.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& step, int error_number) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::string what_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace sectionflow
