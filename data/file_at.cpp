#include "data/file_at.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {

OpenedFile open_regular_file(int folder, const char* name, int flags, const std::string& where) {
  // Without O_NONBLOCK the opening of a pipe that nobody writes would wait for ever.
  const int descriptor = uninterrupted([&] { return openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags); });
  SF_CHECK(descriptor >= 0 || errno != ELOOP || (flags & O_NOFOLLOW) == 0, DataError, where,
           "is a symbolic link; wanted a file in its folder", hint("put the file itself there"));
  if (descriptor < 0) throw_read_failure(where + "cannot be opened", errno);
  struct stat status {};
  const bool is_file = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file) close(descriptor);
  SF_CHECK(is_file, DataError, where, "is no file, but a folder, device or pipe", hint("is the path right?"));
  return {descriptor, static_cast<std::uint64_t>(status.st_size)};
}

FileAt::FileAt(const std::filesystem::path& path, const std::string& kind)
    : where_(kind + " '" + path.string() + "': ") {
  check_path(path, kind);
  const OpenedFile opened = open_regular_file(AT_FDCWD, path.c_str(), 0, where_);
  descriptor_ = opened.descriptor;
  num_bytes_ = opened.num_bytes;
}

FileAt::~FileAt() {
  close(descriptor_);
}

void FileAt::read_at(std::uint64_t offset, void* bytes, std::size_t num_bytes) const {
  char* position = static_cast<char*>(bytes);
  while (num_bytes > 0) {
    const ssize_t got =
        pread(descriptor_, position, std::min<std::size_t>(num_bytes, 64_MiB), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_read_failure(where_ + "cannot be read", errno);
    SF_CHECK(got > 0, DataError, where_, "ends at byte ", offset, ", and more was wanted",
             hint("is the download complete, and does nobody change the file?"));
    position += got;
    offset += static_cast<std::uint64_t>(got);
    num_bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace sectionflow
