#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/error_code.h"

namespace sectionflow {

/// The calls of the operating system that AppendFile makes; tests put others in their places.
struct AppendCalls {
  std::function<ssize_t(int, const void*, std::size_t)> write = ::write;
  std::function<int(int, off_t)> ftruncate = ::ftruncate;
  std::function<int(int)> fsync = ::fsync;
};

/// Which file an AppendFile is.
enum class AppendTo {
  new_file,      ///< of a name that no file has yet
  existing_file  ///< one that is there, behind what it holds
};

/// A file that grows by whole records: a log that others read while it is written. `append` gives a record to the
/// system at once; where that fails the file is cut back to the records before it, so that later ones can be read.
/// A process that is killed in the middle leaves part of one record at the end, which readers of logs pass over.
/// Owns: the descriptors.
class AppendFile {
 public:
  /// Makes a new file, or opens one. `what` begins every error, `code` is that of those which it throws itself. Throws:
  /// DataError where there is a file of that name already, or none can be made; for an existing one where there is none
  /// or it is no regular file.
  AppendFile(const std::filesystem::path& path, std::string what, ErrorCode code = ErrorCode::data,
             AppendCalls calls = {}, AppendTo to = AppendTo::new_file);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Throws: DataError when the disk or a limit refuses; the file then ends with the record before this one. Where it
  /// cannot be cut back either, every later call throws.
  void append(std::string_view record);
  /// Has all records on the disk, and with the first call the name of a new file. Throws: DataError.
  void flush();

 private:
  [[noreturn]] void fail(const std::string& step, int error_number) const;
  int flush_descriptor(int descriptor) const;

  std::string what_;
  std::string path_;
  ErrorCode code_;
  AppendCalls calls_;
  int descriptor_ = -1;
  int folder_ = -1;  // of a new file, until its name is on the disk
  off_t end_ = 0;    // of the last whole record
  bool broken_ = false;
};

}  // namespace sectionflow
