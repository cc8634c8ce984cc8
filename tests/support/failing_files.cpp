// Takes the place of the C library's calls for files in the program that it is linked to.

#include "tests/support/failing_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <mutex>

namespace sectionflow::testing_support {
namespace {

std::mutex mutex;
bool has_plan = false, has_log = false;
FilePlan plan;
std::int64_t calls_so_far = 0, num_written = 0;
std::string first_to_fail;
std::vector<FileChange> log_of_changes;

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path.data(), path.size());
  path.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return path;
}

std::string path_in(int folder, const char* name) {
  if (name[0] == '/') return name;
  const std::string parent = folder == AT_FDCWD ? "." : path_of(folder);
  return parent + "/" + name;
}

/// Whether this call fails. Sets errno.
bool fails(const char* name, bool is_interruptible = false) {
  const std::lock_guard lock(mutex);
  if (!has_plan) return false;
  const std::int64_t number = calls_so_far++;
  const bool is_named = plan.first >= 0 && (plan.persistent ? number >= plan.first : number == plan.first);
  if (!is_named || plan.fault == FileFault::short_write) return false;
  if (plan.fault == FileFault::interrupted && !is_interruptible) return false;
  if (plan.fault == FileFault::kill) _exit(kKilledExit);
  if (first_to_fail.empty()) first_to_fail = name;
  errno = plan.fault == FileFault::interrupted ? EINTR : plan.error_number;
  return true;
}

bool has_rename_flags() {
  const std::lock_guard lock(mutex);
  return !has_plan || plan.has_rename_flags;
}

/// How much of a write goes through; negative: it fails. Sets errno.
std::int64_t allowed(std::size_t wanted) {
  const std::lock_guard lock(mutex);
  if (!has_plan) return static_cast<std::int64_t>(wanted);
  auto bytes = static_cast<std::int64_t>(wanted);
  if (plan.fault == FileFault::short_write && bytes > 3) bytes = 1 + bytes / 3;
  if (plan.disk_bytes >= 0) {
    bytes = std::min(bytes, plan.disk_bytes - num_written);
    if (bytes <= 0 && wanted > 0) {
      if (first_to_fail.empty()) first_to_fail = "write";
      errno = ENOSPC;
      return -1;
    }
  }
  num_written += bytes;
  return bytes;
}

void note(FileChange change) {
  const std::lock_guard lock(mutex);
  if (has_log) log_of_changes.push_back(std::move(change));
}

}  // namespace

FailingFiles::FailingFiles(const FilePlan& wanted) {
  const std::lock_guard lock(mutex);
  plan = wanted;
  calls_so_far = num_written = 0;
  first_to_fail.clear();
  has_plan = true;
}
FailingFiles::~FailingFiles() {
  const std::lock_guard lock(mutex);
  has_plan = false;
}
std::int64_t FailingFiles::num_calls() const {
  const std::lock_guard lock(mutex);
  return calls_so_far;
}
std::int64_t FailingFiles::num_written_bytes() const {
  const std::lock_guard lock(mutex);
  return num_written;
}
std::string FailingFiles::first_failed() const {
  const std::lock_guard lock(mutex);
  return first_to_fail;
}

FileLog::FileLog() {
  const std::lock_guard lock(mutex);
  log_of_changes.clear();
  has_log = true;
}
FileLog::~FileLog() {
  const std::lock_guard lock(mutex);
  has_log = false;
}
const std::vector<FileChange>& FileLog::changes() const {
  return log_of_changes;
}

}  // namespace sectionflow::testing_support

using namespace sectionflow::testing_support;

namespace {

int open_noted(const char* name, int folder, const char* path, int flags, mode_t mode) {
  if (fails(name, true)) return -1;
  const int opened = real<int (*)(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
  if (opened >= 0 && (flags & O_CREAT) != 0) note({.kind = FileChange::Kind::make_file, .path = path_in(folder, path)});
  return opened;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : mode_t{0};
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_noted("open", AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_noted("openat", folder, path, flags, mode);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (fails("mkdir")) return -1;
  const int result = real<int (*)(const char*, mode_t)>("mkdir")(path, mode);
  if (result == 0) note({.kind = FileChange::Kind::make_folder, .path = path});
  return result;
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  if (fails("mkdirat")) return -1;
  const std::string shown = path_in(folder, path);
  const int result = real<int (*)(int, const char*, mode_t)>("mkdirat")(folder, path, mode);
  if (result == 0) note({.kind = FileChange::Kind::make_folder, .path = shown});
  return result;
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (descriptor <= 2) return call(descriptor, bytes, count);
  if (fails("write", true)) return -1;
  const std::int64_t part = allowed(count);
  if (part < 0) return -1;
  const off_t offset = lseek(descriptor, 0, SEEK_CUR);
  const ssize_t written = call(descriptor, bytes, static_cast<size_t>(part));
  if (written > 0)
    note({.kind = FileChange::Kind::write,
          .path = path_of(descriptor),
          .offset = static_cast<std::uint64_t>(offset),
          .bytes = std::string(static_cast<const char*>(bytes), static_cast<size_t>(written))});
  return written;
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (fails("pwrite", true)) return -1;
  const std::int64_t part = allowed(count);
  if (part < 0) return -1;
  const ssize_t written = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(
      descriptor, bytes, static_cast<size_t>(part), offset);
  if (written > 0)
    note({.kind = FileChange::Kind::write,
          .path = path_of(descriptor),
          .offset = static_cast<std::uint64_t>(offset),
          .bytes = std::string(static_cast<const char*>(bytes), static_cast<size_t>(written))});
  return written;
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  static const auto call = real<ssize_t (*)(int, void*, size_t)>("read");
  if (descriptor > 2 && fails("read", true)) return -1;
  return call(descriptor, bytes, count);
}

int fsync(int descriptor) {
  if (fails("fsync", true)) return -1;
  // That it is called is what counts: nobody loses power here but in FileLog.
  struct stat status {};
  const bool is_folder = fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
  note({.kind = is_folder ? FileChange::Kind::flush_folder : FileChange::Kind::flush, .path = path_of(descriptor)});
  return 0;
}

int close(int descriptor) {
  static const auto call = real<int (*)(int)>("close");
  // The descriptor is gone even where an error is reported.
  const bool failed = descriptor > 2 && fails("close", true);
  const int error_number = errno, result = call(descriptor);
  if (failed) errno = error_number;
  return failed ? -1 : result;
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (fails("renameat")) return -1;
  const std::string path = path_in(from_folder, from), other = path_in(to_folder, to);
  const int result = real<int (*)(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder, to);
  if (result == 0) note({.kind = FileChange::Kind::rename, .path = path, .other = other});
  return result;
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (fails("renameat2")) return -1;
  if (flags != 0 && !has_rename_flags()) {
    errno = EINVAL;
    return -1;
  }
  const std::string path = path_in(from_folder, from), other = path_in(to_folder, to);
  const int result =
      real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
  const auto kind = (flags & RENAME_EXCHANGE) != 0 ? FileChange::Kind::exchange : FileChange::Kind::rename;
  if (result == 0) note({.kind = kind, .path = path, .other = other});
  return result;
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (fails("unlinkat")) return -1;
  const std::string shown = path_in(folder, path);
  const int result = real<int (*)(int, const char*, int)>("unlinkat")(folder, path, flags);
  if (result == 0) note({.kind = FileChange::Kind::remove, .path = shown});
  return result;
}

int flock(int descriptor, int operation) noexcept {
  if (fails("flock", true)) return -1;
  return real<int (*)(int, int)>("flock")(descriptor, operation);
}

int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  if (fails("fstatat")) return -1;
  return real<int (*)(int, const char*, struct stat*, int)>("fstatat")(folder, path, status, flags);
}
}
