#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

/// A call repeated while signals interrupt it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::string what) : path_(std::move(path)), what_(std::move(what)) {
  // Renaming onto a device such as /dev/null would replace it for the whole machine.
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  SF_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status), DataError, what_, ": '",
           path_.string(), "' exists and is not a file; choose another name");
  // A sibling of the same name may be left from a process that was killed; the next number is free.
  constexpr int kMaxAttempts = 1000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    temporary_ = path_.string() + text_of(".tmp-", getpid(), '-', attempt);
    descriptor_ =
        uninterrupted([&] { return open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) break;
  }
  fail("the temporary file beside it cannot be created", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, std::size_t num_bytes) {
  const char* position = static_cast<const char*>(bytes);
  while (num_bytes > 0) {
    // Linux writes at most 2 GiB at once; smaller calls also end sooner when the disk is full.
    const std::size_t wanted = std::min<std::size_t>(num_bytes, 64_MiB);
    const ssize_t written = uninterrupted([&] { return ::write(descriptor_, position, wanted); });
    if (written < 0) fail("its bytes cannot be written", errno);
    position += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return fsync(descriptor_); }) != 0) fail("its bytes cannot be flushed to the disk", errno);
  // After close() the descriptor is gone even where close() reports an error.
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) fail("it cannot be closed", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("the temporary file cannot be renamed to it", errno);
  committed_ = true;

  const int folder = uninterrupted([&] { return open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  const int flushed = folder < 0 ? -1 : uninterrupted([&] { return fsync(folder); });
  const int error_number = errno;
  if (folder >= 0) close(folder);
  // EINVAL: a file system whose folders need no flush.
  if (flushed != 0 && error_number != EINVAL)
    fail("it is in place, but its folder cannot be flushed to the disk", error_number);
}

void AtomicFile::fail(const std::string& step, int error_number) const {
  throw DataError(text_of(what_, ": '", path_.string(), "': ", step, " (", std::strerror(error_number),
                          "); check the folder, its permissions and the free space"));
}

}  // namespace sectionflow
