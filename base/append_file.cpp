#include "base/append_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {

AppendFile::AppendFile(const std::filesystem::path& path, std::string what, ErrorCode code, AppendCalls calls)
    : what_(std::move(what)), path_(path.string()), code_(code), calls_(std::move(calls)) {
  check_path(path, what_);
  // O_EXCL: no link is followed, and nobody else's file is added to.
  do {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail("it cannot be made", errno);
}

AppendFile::~AppendFile() {
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
  int flushed = 0;
  do {
    flushed = calls_.fsync(descriptor_);
  } while (flushed != 0 && errno == EINTR);
  // EINVAL: what needs no flush.
  if (flushed != 0 && errno != EINVAL) fail("it cannot be flushed to the disk", errno);
}

void AppendFile::fail(const std::string& step, int error_number) const {
  const bool is_there = error_number == EEXIST;
  throw DataError(error_text_of(what_, ": '", path_, "': ", step, " (", std::strerror(error_number), ")",
                                hint(is_there ? "choose another name"
                                              : "is there space, does the folder exist, and may this process write?")),
                  code_);
}

}  // namespace sectionflow
