#include "base/atomic_file.h"

#include <dirent.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

constexpr mode_t kPermissions = 0777;

/// The file that is written for one of this name: a name that only just fits has one whose name fits, too.
std::string name_of_sibling(const std::string& name, std::string_view ending) {
  return name.substr(0, std::min(name.size(), NAME_MAX - ending.size())).append(ending);
}

/// ".tmp-123-0" of such a name; empty of any other.
std::string_view ending_of_sibling(std::string_view name) {
  const std::size_t at = name.rfind(".tmp-");
  if (at == std::string_view::npos) return {};
  const std::string_view numbers = name.substr(at + 5);
  const std::size_t between = numbers.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (between == std::string_view::npos || !is_number(numbers.substr(0, between))) return {};
  return is_number(numbers.substr(between + 1)) ? name.substr(at) : std::string_view();
}

/// Whether a descriptor is of what the folder has under that name.
bool has_name(int descriptor, int folder, const std::string& name) {
  struct stat own {};
  struct stat there {};
  return fstat(descriptor, &own) == 0 && fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

bool lock_sibling(int descriptor) {
  return uninterrupted([&] { return flock(descriptor, LOCK_EX | LOCK_NB); }) == 0;
}

/// Whoever writes a sibling has its lock, which goes with the process: what can be locked is left from one that was
/// killed. It is removed; where that fails, or nothing can be locked, it stays.
void remove_left_sibling(int folder, const std::string& name) {
  const int left =
      uninterrupted([&] { return openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
  if (left < 0) return;
  struct stat status {};
  const bool is_left = fstat(left, &status) == 0 && S_ISREG(status.st_mode) && lock_sibling(left);
  if (is_left && has_name(left, folder, name)) unlinkat(folder, name.c_str(), 0);
  close(left);
}

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

void AtomicFile::Descriptor::reset(int descriptor) {
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

/// Those of writers that were killed.
void AtomicFile::remove_left_siblings() const {
  const int folder =
      uninterrupted([&] { return openat(folder_.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (folder < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> names(fdopendir(folder), closedir);
  if (names == nullptr) {
    close(folder);
    return;
  }
  while (const dirent* const entry = readdir(names.get())) {
    const std::string name = entry->d_name;
    const std::string_view ending = ending_of_sibling(name);
    if (!ending.empty() && name == name_of_sibling(name_, ending)) remove_left_sibling(folder, name);
  }
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
  remove_left_siblings();
  // A sibling of the same name may be another's, in a process of the same number elsewhere; the next number is free.
  constexpr int kMaxAttempts = 1000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    temporary_ = name_of_sibling(name_, text_of(".tmp-", getpid(), '-', attempt));
    descriptor_ = uninterrupted([&] {
      return openat(folder_.descriptor(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    });
    if (descriptor_ >= 0) {
      // Before it is locked somebody may take it for left, and remove it.
      const bool may_be_taken = !lock_sibling(descriptor_) && errno == EWOULDBLOCK;
      if (!may_be_taken && has_name(descriptor_, folder_.descriptor(), temporary_)) return;
      close(std::exchange(descriptor_, -1));
    } else if (errno != EEXIST) {
      break;
    }
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
  // Another descriptor keeps the lock until it has its name.
  Descriptor locked;
  const int copy = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) fail("its lock cannot be kept", errno);
  locked.reset(copy);
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
