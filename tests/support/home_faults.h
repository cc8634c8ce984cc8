#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>

#include "runtime/disk_store.h"

namespace sectionflow::testing_support {

/// Calls of the disk of which one writes or reads as it should not.
struct HomeFaults {
  std::atomic<int> reads_left{std::numeric_limits<int>::max()}, writes_left{std::numeric_limits<int>::max()};
  std::atomic<int> failing_writes{std::numeric_limits<int>::max()};  // so many behind those that are left

  DiskCalls calls() {
    DiskCalls calls;
    calls.try_uring = false;
    calls.pwrite = [this](int file, const void* bytes, std::size_t count, off_t offset) -> ssize_t {
      if (--writes_left >= 0 || --failing_writes < 0) return ::pwrite(file, bytes, count, offset);
      errno = EIO;
      return -1;
    };
    calls.pread = [this](int file, void* bytes, std::size_t count, off_t offset) -> ssize_t {
      const ssize_t result = ::pread(file, bytes, count, offset);
      if (--reads_left < 0 && result > 0) *static_cast<unsigned char*>(bytes) ^= 1;
      return result;
    };
    return calls;
  }
};

}  // namespace sectionflow::testing_support
