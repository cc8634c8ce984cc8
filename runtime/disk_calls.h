#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstddef>
#include <functional>

namespace sectionflow {

/// open(2), which as it is can be called with two arguments or three.
int open_file(const char* path, int flags, mode_t mode);

/// The calls of the operating system that the disk tier lives by. Tests put others in their places, which fail, do half
/// of the work, or refuse what some machines lack. Each returns and sets errno as the real one does.
struct DiskCalls {
  std::function<int(const char*, int, mode_t)> open = open_file;
  std::function<int(const char*, struct statvfs*)> statvfs = ::statvfs;
  std::function<int(int, int, off_t, off_t)> fallocate = ::fallocate;
  std::function<ssize_t(int, const void*, std::size_t, off_t)> pwrite = ::pwrite;
  std::function<ssize_t(int, void*, std::size_t, off_t)> pread = ::pread;
  /// Makes of what io_uring says of a piece that has ended (bytes, or a negative errno) something else; empty: as it
  /// is.
  std::function<int(int)> ring_result{};
  /// Whether io_uring and O_DIRECT are tried at all.
  bool try_uring = true;
  bool try_direct = true;
};

}  // namespace sectionflow
