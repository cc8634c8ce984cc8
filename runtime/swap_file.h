#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

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

/// A file of a fixed size that has no name, so that it goes with the process, however that ends: made with O_TMPFILE,
/// or made and unlinked at once; readable by the owner alone (mode 0600); its space is taken when it is made. Owns: its
/// descriptors.
class SwapFile {
 public:
  /// `folder`: empty for the system's temporary folder. `calls` must outlive the file.
  /// Throws: ArgumentError (swap_folder) when the folder cannot be used, naming it as it was given; BudgetError when it
  /// has not the space, naming the disk tier, with what is free as budget_bytes; DeviceError (disk_io) when the machine
  /// refuses otherwise.
  SwapFile(const std::string& folder, std::size_t num_bytes, const DiskCalls& calls);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  std::size_t num_bytes() const { return num_bytes_; }
  /// The folder as it was given, or the system's temporary one.
  const std::string& folder() const { return folder_; }
  int descriptor() const { return descriptor_; }
  /// The same file without the machine's page cache; -1 where the file system has no such access. Offsets, lengths and
  /// addresses must be multiples of kPageBytes.
  int direct_descriptor() const { return direct_descriptor_; }

 private:
  void open_unnamed();
  void check_space() const;
  void take_space();
  void open_direct();
  std::size_t free_bytes() const;

  const DiskCalls& calls_;
  std::string folder_;
  std::size_t num_bytes_;
  int descriptor_ = -1;
  int direct_descriptor_ = -1;
};

}  // namespace sectionflow
