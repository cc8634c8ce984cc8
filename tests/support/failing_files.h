#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sectionflow::testing_support {

// For programs that take the place of the C library's calls for files (failing_files.cpp). While a plan is set, the
// calls of this thread's process are counted, and those that the plan names fail.

/// What happens to a call.
enum class FileFault { error, short_write, interrupted, kill };
/// With which a process ends that `kill` has met, before the call.
inline constexpr int kKilledExit = 9;

struct FilePlan {
  /// The number of the first call that fails, from 0; -1: none.
  std::int64_t first = -1;
  bool persistent = false;  ///< it, and every later one
  FileFault fault = FileFault::error;
  int error_number = 5;  ///< EIO
  /// After so many bytes have been written in all, the disk is full; -1: never.
  std::int64_t disk_bytes = -1;
  /// Whether renameat2 knows flags. Where a file system has none, it gives EINVAL.
  bool has_rename_flags = true;
};

/// Sets a plan while it lives, and counts.
class FailingFiles {
 public:
  explicit FailingFiles(const FilePlan& plan);
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;

  /// Calls since it was made, and the name of the one that failed first.
  std::int64_t num_calls() const;
  std::int64_t num_written_bytes() const;
  std::string first_failed() const;
};

/// One change of files, as a disk might keep it or not.
struct FileChange {
  enum class Kind { make_folder, make_file, write, flush, flush_folder, rename, exchange, remove } kind;
  std::string path{};   ///< what is changed
  std::string other{};  ///< of rename and exchange: the new name
  std::uint64_t offset = 0;
  std::string bytes{};
};

/// Notes all changes that succeed while it lives.
class FileLog {
 public:
  FileLog();
  ~FileLog();
  FileLog(const FileLog&) = delete;
  FileLog& operator=(const FileLog&) = delete;
  const std::vector<FileChange>& changes() const;
};

}  // namespace sectionflow::testing_support
