#include "base/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

constexpr mode_t kPermissions = 0777;

}  // namespace

const char* advice_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "make space there, or choose another folder; no other file has changed";
    case EFBIG:
      return "the file is larger than this process or the file system allows (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "may this process write there?";
    case ENOENT:
    case ENOTDIR:
      return "does the folder exist?";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EIO:
      return "look at the disk and the machine's log, or choose another folder";
    default:
      return "check the name, the folder, its permissions and the free space";
  }
}

void AtomicFile::Folder::reset(int descriptor) {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = descriptor;
}

AtomicFile::AtomicFile(const std::filesystem::path& path, std::string what, FileCalls calls)
    : what_(std::move(what)), given_(path.string()), calls_(std::move(calls)) {
  check_path(path, what_);
  enter_folder_of(path);
  follow_links();
  struct stat replaced {};
  if (fstatat(folder_.descriptor(), name_.c_str(), &replaced, 0) != 0) {
    if (errno == ENAMETOOLONG) fail("no file can have this name", errno);
    create_sibling(0666);
    return;
  }
  // Renaming onto a device such as the null device would replace it for the whole machine.
  SF_CHECK(S_ISREG(replaced.st_mode), DataError, what_, ": '", given_, "': is no file, but a folder, device or pipe",
           hint("choose another name"));
  // Nobody may read the new bytes who may not read the old ones, at no time.
  create_sibling(0600);
  try {
    take_over(replaced);
  } catch (...) {
    // A constructor that throws leaves no destructor to do it.
    close(descriptor_);
    unlinkat(folder_.descriptor(), temporary_.c_str(), 0);
    throw;
  }
}

/// Opens the folder of a path, which is relative to the folder before if not absolute, and takes the name in it.
void AtomicFile::enter_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  // To look up names in it needs no permission to list it.
  const int opened =
      uninterrupted([&] { return openat(folder_.descriptor(), folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); });
  if (opened < 0) fail("the temporary file beside it cannot be created", errno);
  folder_.reset(opened);
  name_ = path.has_filename() ? path.filename().string() : std::string(".");
}

/// To where the name leads, link after link; a name that nothing has is its own end.
void AtomicFile::follow_links() {
  constexpr int kMostLinks = 40;  // as the kernel's
  for (int i = 0; i < kMostLinks; ++i) {
    std::string target(PATH_MAX, '\0');
    const ssize_t length = readlinkat(folder_.descriptor(), name_.c_str(), target.data(), target.size());
    if (length < 0) return;
    target.resize(static_cast<std::size_t>(length));
    enter_folder_of(target);
  }
  throw DataError(error_text_of(what_, ": '", given_, "': more than ", kMostLinks,
                                " links lead from one to the next; wanted a file at their end",
                                hint("choose another name")));
}

void AtomicFile::create_sibling(mode_t mode) {
  // A sibling of the same name may be left from a process that was killed; the next number is free.
  constexpr int kMaxAttempts = 1000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string ending = text_of(".tmp-", getpid(), '-', attempt);
    // A name that only just fits has a sibling whose name fits, too.
    temporary_ = name_.substr(0, std::min(name_.size(), NAME_MAX - ending.size())) + ending;
    descriptor_ = uninterrupted([&] {
      return openat(folder_.descriptor(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    });
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) break;
  }
  fail("the temporary file beside it cannot be created", errno);
}

void AtomicFile::take_over(const struct stat& replaced) {
  mode_t mode = replaced.st_mode & kPermissions;
  struct stat own {};
  if (fstat(descriptor_, &own) != 0) fail("the temporary file beside it cannot be examined", errno);
  if ((own.st_uid != replaced.st_uid || own.st_gid != replaced.st_gid) &&
      fchown(descriptor_, replaced.st_uid, replaced.st_gid) != 0 &&
      fchown(descriptor_, static_cast<uid_t>(-1), replaced.st_gid) != 0) {
    // What was meant for the old group is not for another: that may do what everybody may.
    mode = (mode & ~mode_t{070}) | ((mode & mode_t{07}) << 3);
  }
  if (uninterrupted([&] { return calls_.fchmod(descriptor_, mode); }) != 0) fail("its mode cannot be set", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_) unlinkat(folder_.descriptor(), temporary_.c_str(), 0);
}

void AtomicFile::write(const void* bytes, std::size_t num_bytes) {
  const char* position = static_cast<const char*>(bytes);
  while (num_bytes > 0) {
    // Linux writes at most 2 GiB at once; smaller calls also end sooner when the disk is full.
    const std::size_t wanted = std::min<std::size_t>(num_bytes, 64_MiB);
    const ssize_t written = uninterrupted([&] { return calls_.write(descriptor_, position, wanted); });
    if (written <= 0) fail("its bytes cannot be written", written < 0 ? errno : EIO);
    position += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return calls_.fsync(descriptor_); }) != 0)
    fail("its bytes cannot be flushed to the disk", errno);
  // After close() the descriptor is gone even where close() reports an error.
  const int closed = calls_.close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) fail("it cannot be closed", errno);
  const int there = folder_.descriptor();
  if (calls_.rename(there, temporary_.c_str(), there, name_.c_str()) != 0)
    fail("the temporary file cannot be renamed to it", errno);
  committed_ = true;

  const int folder = uninterrupted([&] { return openat(there, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  const int flushed = folder < 0 ? -1 : uninterrupted([&] { return calls_.fsync(folder); });
  const int error_number = errno;
  if (folder >= 0) close(folder);
  // EINVAL: a file system whose folders need no flush.
  if (flushed != 0 && error_number != EINVAL)
    fail("it is in place, but its folder cannot be flushed to the disk", error_number);
}

void AtomicFile::fail(const std::string& step, int error_number) const {
  throw DataError(error_text_of(what_, ": '", given_, "': ", step, " (", std::strerror(error_number), ")",
                                hint(advice_for(error_number))));
}

}  // namespace sectionflow
