#include "base/append_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {

AppendFile::AppendFile(const std::filesystem::path& path, std::string what, ErrorCode code, AppendCalls calls,
                       AppendTo to)
    : what_(std::move(what)), path_(path.string()), code_(code), calls_(std::move(calls)) {
  check_path(path, what_);
  const bool is_new = to == AppendTo::new_file;
  // O_EXCL: no link is followed, and nobody else's file is added to. O_NONBLOCK: a pipe is refused, not waited for.
  const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : O_NONBLOCK);
  do {
    descriptor_ = open(path_.c_str(), flags, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(is_new ? "it cannot be made" : "it cannot be opened", errno);
  struct stat found {};
  const bool is_known = fstat(descriptor_, &found) == 0;
  if (is_known && S_ISREG(found.st_mode)) {
    end_ = found.st_size;
    // Open from now on: whoever flushes may have gone to another folder. One that may not be read cannot be flushed.
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    if (is_new) folder_ = uninterrupted([&] { return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    return;
  }
  const int error_number = is_known ? EINVAL : errno;
  close(descriptor_);
  fail("it is no regular file", error_number);
}

AppendFile::~AppendFile() {
  if (folder_ >= 0) close(folder_);
  close(descriptor_);
}

void AppendFile::append(std::string_view record) {
  SF_CHECK_CODE(!broken_, DataError, code_, what_, ": '", path_,
                "': an earlier record could be neither written nor taken back; the file takes no more",
                hint("begin another file"));
  std::string_view left = record;
  while (!left.empty()) {
    const ssize_t written = calls_.write(descriptor_, left.data(), std::min<std::size_t>(left.size(), 64_MiB));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error_number = written < 0 ? errno : EIO;
      int cut = 0;
      do {
        cut = calls_.ftruncate(descriptor_, end_);
      } while (cut != 0 && errno == EINTR);
      broken_ = cut != 0;
      fail("a record cannot be written", error_number);
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  end_ += static_cast<off_t>(record.size());
}

void AppendFile::flush() {
  if (const int error_number = flush_descriptor(descriptor_)) fail("it cannot be flushed to the disk", error_number);
  if (folder_ < 0) return;
  if (const int error_number = flush_descriptor(folder_))
    fail("its folder cannot be flushed to the disk", error_number);
  close(std::exchange(folder_, -1));
}

/// The number of the error; 0 where there is none.
int AppendFile::flush_descriptor(int descriptor) const {
  const int flushed = uninterrupted([&] { return calls_.fsync(descriptor); });
  // EINVAL: what needs no flush.
  return flushed == 0 || errno == EINVAL ? 0 : errno;
}

void AppendFile::fail(const std::string& step, int error_number) const {
  const bool is_there = error_number == EEXIST;
  throw DataError(error_text_of(what_, ": '", path_, "': ", step, " (", std::strerror(error_number), ")",
                                hint(is_there ? "choose another name"
                                              : "is there space, does the folder exist, and may this process write?")),
                  code_);
}

}  // namespace sectionflow
