#include "train/checkpoint_folder.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "train/checkpoint_place.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatest = "latest";
// Names that nobody gives to a copy of a checkpoint: what has them goes when the folder is tidied.
constexpr const char* kUnfinished = ".sectionflow-new";
constexpr const char* kRemoved = ".sectionflow-old";
constexpr const char* kReplaced = ".sectionflow-replaced";
// What has this one is somebody's, and stays.
constexpr const char* kSetAside = ".set-aside";
constexpr std::size_t kMostLatestBytes = 64;

/// The names in a folder. Opening it may be interrupted, as any other call.
std::vector<std::string> names_in(const fs::path& folder, std::error_code& failed) {
  std::vector<std::string> names;
  do {
    failed.clear();
    names.clear();
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
      names.push_back(entry->path().filename().string());
  } while (failed == std::errc::interrupted);
  return names;
}

/// Whether a path leads to a folder that is open. One that cannot be looked at just now is taken to.
bool leads_to(const fs::path& path, const Descriptor& folder) {
  struct stat named {};
  struct stat opened {};
  if (stat(path.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
  return fstat(folder.number(), &opened) != 0 || (named.st_dev == opened.st_dev && named.st_ino == opened.st_ino);
}

}  // namespace

fs::path CheckpointFolder::path_of(std::int64_t step) const {
  const fs::path path = path_ / step_name(step), before = path_ / (step_name(step) + kReplaced);
  std::error_code ignored;
  return !fs::exists(path, ignored) && fs::exists(before, ignored) ? before : path;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> CheckpointFolder::identity_of(std::int64_t step) const {
  struct stat status {};
  const fs::path path = path_of(step);
  if (uninterrupted([&] { return lstat(path.c_str(), &status); }) != 0) {
    // What cannot be looked at is there, and its reader tells why it cannot be read.
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return std::pair<std::uint64_t, std::uint64_t>{};
  }
  return std::pair<std::uint64_t, std::uint64_t>{status.st_dev, status.st_ino};
}

void CheckpointFolder::fail(const std::string& name, const std::string& what, int error_number) const {
  throw DataError(error_text_of("Checkpoints: '", (path_ / name).string(), "': ", what, " (",
                                std::strerror(error_number), ")", hint(advice_for(error_number))));
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code failed;
  if (!fs::exists(path_, failed) && !failed) return steps;
  for (const std::string& name : names_in(path_, failed)) {
    const fs::path path = name;
    if (const auto step = step_of(path.extension() == kReplaced ? path.stem().string() : name)) steps.push_back(*step);
  }
  SF_CHECK(!failed, DataError, "Checkpoints: the folder '", path_.string(), "' cannot be listed (", failed.message(),
           ")", hint("is it a folder, and may this process read it?"));
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::optional<std::int64_t> CheckpointFolder::latest(std::string& problem) const {
  const fs::path path = path_ / kLatest;
  std::error_code failed;
  const auto status = fs::symlink_status(path, failed);
  if (status.type() == fs::file_type::not_found) return std::nullopt;
  try {
    const std::string text = read_file_in(AT_FDCWD, path.string(), kMostLatestBytes, path);
    if (text.ends_with('\n')) {
      if (const auto step = step_of(std::string_view(text).substr(0, text.size() - 1))) return step;
    }
    problem = text_of("'", path.string(), "' does not name a checkpoint");
  } catch (const DataError& error) {
    problem = error.message();
  }
  return std::nullopt;
}

bool CheckpointFolder::open_for_writing() {
  if (folder_.is_open() && leads_to(path_, folder_)) {
    if (!is_tidy_) tidy();
    return false;
  }
  folder_ = Descriptor();
  check_takes_checkpoints(path_);
  make_folder(path_, "Checkpoints");
  Descriptor folder(uninterrupted([&] { return open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder.is_open()) fail("", "the folder cannot be opened", errno);
  // The lock goes with the process, however that ends, and with the last child that was forked and has called no exec.
  // File systems without locks do without.
  const int locked = uninterrupted([&] { return flock(folder.number(), LOCK_EX | LOCK_NB); });
  SF_CHECK_CODE(
      locked == 0 || errno != EWOULDBLOCK, DataError, ErrorCode::checkpoint_in_use, "Checkpoints: '", path_.string(),
      "' is the folder of another training, which writes to it now",
      hint("give each training a folder of its own, or wait for the other to end; of ranks that train together one "
           "alone saves"));
  folder_ = std::move(folder);
  tidy();
  return true;
}

void CheckpointFolder::check_writable() const {
  if (uninterrupted([&] { return faccessat(folder_.number(), ".", W_OK | X_OK, AT_EACCESS); }) == 0) return;
  const int error_number = errno;
  // What is none of permissions may pass until there is something to save.
  if (error_number != EACCES && error_number != EPERM && error_number != EROFS) return;
  throw DataError(error_text_of("Checkpoints: the folder '", path_.string(), "' cannot be written to (",
                                std::strerror(error_number), ")", hint(advice_for(error_number))));
}

/// Removes what is unfinished, and brings back what was to be replaced where nothing has taken its place: between the
/// two renames of put_in_place there is no other checkpoint of that step. Flags of renameat2 are no help: where there
/// are two renames the file system has none.
void CheckpointFolder::tidy() {
  std::error_code failed;
  const std::vector<std::string> names = names_in(path_, failed);
  is_tidy_ = !failed;
  for (const std::string& each : names) {
    const fs::path name = each, stem = name.stem(), ending = name.extension();
    if (stem != kLatest && !step_of(stem.string())) continue;
    struct stat status {};
    const int folder = folder_.number();
    if (ending == kReplaced && fstatat(folder, stem.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      const bool is_back = errno == ENOENT && renameat(folder, name.c_str(), folder, stem.c_str()) == 0;
      is_tidy_ = is_tidy_ && is_back;
    } else if (ending == kUnfinished || ending == kRemoved || ending == kReplaced) {
      remove_leftover(each);
    }
  }
}

std::uint64_t CheckpointFolder::free_bytes() const {
  struct statvfs status {};
  if (statvfs(path_.c_str(), &status) != 0) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bytes = 0;
  const bool is_more = __builtin_mul_overflow(static_cast<std::uint64_t>(status.f_bavail),
                                              static_cast<std::uint64_t>(status.f_frsize), &bytes);
  return is_more ? std::numeric_limits<std::uint64_t>::max() : bytes;
}

/// What could not be removed is tried again when the folder is tidied the next time.
void CheckpointFolder::remove_leftover(const std::string& name) const {
  std::error_code ignored;
  fs::remove_all(path_ / name, ignored);
}

void CheckpointFolder::flush() const {
  // EINVAL: a file system whose folders need no flush.
  if (uninterrupted([&] { return fsync(folder_.number()); }) != 0 && errno != EINVAL)
    fail("", "the folder cannot be flushed to the disk", errno);
}

void CheckpointFolder::write_file(int folder, const std::string& name, const std::string& shown,
                                  const std::function<void(const FileSink&)>& write) const {
  Descriptor file(uninterrupted(
      [&] { return openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666); }));
  if (!file.is_open()) fail(shown, "it cannot be created", errno);
  const auto put = [&](const void* bytes, std::size_t num_bytes, const auto& call) {
    std::size_t done = 0;
    while (done < num_bytes) {
      // Linux writes at most 2 GiB at once; smaller calls also end sooner when the disk is full.
      const std::size_t wanted = std::min<std::size_t>(num_bytes - done, 64_MiB);
      const ssize_t count = uninterrupted([&] { return call(static_cast<const char*>(bytes) + done, wanted, done); });
      if (count <= 0) fail(shown, "its bytes cannot be written", count < 0 ? errno : EIO);
      done += static_cast<std::size_t>(count);
    }
  };
  write({.append =
             [&](const void* bytes, std::size_t num_bytes) {
               put(bytes, num_bytes, [&](const char* from, std::size_t count, std::size_t) {
                 return ::write(file.number(), from, count);
               });
             },
         .overwrite_beginning =
             [&](const void* bytes, std::size_t num_bytes) {
               put(bytes, num_bytes, [&](const char* from, std::size_t count, std::size_t at) {
                 return pwrite(file.number(), from, count, static_cast<off_t>(at));
               });
             }});
  if (uninterrupted([&] { return fsync(file.number()); }) != 0)
    fail(shown, "its bytes cannot be flushed to the disk", errno);
  // After close() the descriptor is gone even where close() reports an error.
  if (close(file.release()) != 0 && errno != EINTR) fail(shown, "it cannot be closed", errno);
}

void CheckpointFolder::write(CheckpointManifest manifest,
                             const std::function<TensorHashes(const FileSink& sink)>& write_tensors) {
  const std::string name = step_name(manifest.step), temporary = name + kUnfinished;
  remove_leftover(temporary);
  const bool was_tidy = std::exchange(is_tidy_, false);
  if (mkdirat(folder_.number(), temporary.c_str(), 0777) != 0) fail(temporary, "the folder cannot be made", errno);
  try {
    const Descriptor folder(uninterrupted(
        [&] { return openat(folder_.number(), temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); }));
    if (!folder.is_open()) fail(temporary, "the folder cannot be opened", errno);
    write_file(folder.number(), manifest.file, temporary + "/" + manifest.file,
               [&](const FileSink& sink) { manifest.hashes = write_tensors(sink); });
    struct stat status {};
    if (fstatat(folder.number(), manifest.file.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      fail(temporary, "its file cannot be examined", errno);
    manifest.file_bytes = static_cast<std::uint64_t>(status.st_size);
    const std::string text = manifest_text(manifest);
    write_file(folder.number(), kManifestName, temporary + "/" + kManifestName,
               [&](const FileSink& sink) { sink.append(text.data(), text.size()); });
    if (uninterrupted([&] { return fsync(folder.number()); }) != 0 && errno != EINVAL)
      fail(temporary, "the folder cannot be flushed to the disk", errno);
    put_in_place(temporary, name);
  } catch (...) {
    remove_leftover(temporary);
    throw;
  }
  flush();
  // A checkpoint of that step that was there before.
  remove_leftover(temporary);
  is_tidy_ = was_tidy;
}

/// Gives what has the name of a checkpoint and is none, as a folder whose manifest is gone, a name that it keeps: what
/// lies in it may be somebody's only copy.
void CheckpointFolder::set_aside(const std::string& name) const {
  const int folder = folder_.number();
  constexpr int kMostAside = 1000;
  for (int number = 1; number <= kMostAside; ++number) {
    const std::string aside = name + kSetAside + (number > 1 ? text_of("-", number) : "");
    int renamed = renameat2(folder, name.c_str(), folder, aside.c_str(), RENAME_NOREPLACE);
    if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) {
      // Of a file system that knows no flags. Two names in one folder, which nobody else writes to.
      struct stat status {};
      if (fstatat(folder, aside.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) continue;
      renamed = renameat(folder, name.c_str(), folder, aside.c_str());
    }
    if (renamed != 0 && errno == EEXIST) continue;
    if (renamed != 0) fail(name, "it is no checkpoint, and cannot be renamed", errno);
    LOG(WARNING) << "Checkpoints: '" << (path_ / name).string() << "' was no checkpoint; it is '" << aside
                 << "' from now on, and nobody but you removes it";
    return;
  }
  fail(name, text_of("it is no checkpoint, and ", kMostAside, " of its name have been set aside already"), EEXIST);
}

void CheckpointFolder::put_in_place(const std::string& temporary, const std::string& name) {
  const int folder = folder_.number();
  if (renameat(folder, temporary.c_str(), folder, name.c_str()) == 0) return;
  const bool is_taken = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;
  if (!is_taken) fail(temporary, "it cannot be renamed to " + name, errno);
  if (!is_checkpoint(path_ / name)) {
    set_aside(name);
    if (renameat(folder, temporary.c_str(), folder, name.c_str()) != 0)
      fail(temporary, "it cannot be renamed to " + name, errno);
    return;
  }
  // There is one of that step: they change places at once, where the file system can do that.
  if (renameat2(folder, temporary.c_str(), folder, name.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail(temporary, "it cannot change places with " + name, errno);
  const std::string before = name + kReplaced;
  remove_leftover(before);
  if (renameat(folder, name.c_str(), folder, before.c_str()) != 0) fail(name, "it cannot be renamed", errno);
  if (renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    const int error_number = errno;
    (void)renameat(folder, before.c_str(), folder, name.c_str());
    fail(temporary, "it cannot be renamed to " + name, error_number);
  }
  remove_leftover(before);
}

void CheckpointFolder::set_latest(std::int64_t step) {
  const std::string temporary = std::string(kLatest) + kUnfinished, text = step_name(step) + "\n";
  remove_leftover(temporary);
  try {
    write_file(folder_.number(), temporary, temporary,
               [&](const FileSink& sink) { sink.append(text.data(), text.size()); });
    if (renameat(folder_.number(), temporary.c_str(), folder_.number(), kLatest) != 0)
      fail(temporary, "it cannot be renamed to latest", errno);
  } catch (...) {
    remove_leftover(temporary);
    throw;
  }
  flush();
}

void CheckpointFolder::remove(std::int64_t step) {
  const std::string name = step_name(step), removed = name + kRemoved;
  remove_leftover(removed);
  // A folder is not removed at once: half of one must not look like a checkpoint.
  const bool is_there = renameat(folder_.number(), name.c_str(), folder_.number(), removed.c_str()) == 0;
  if (!is_there && errno != ENOENT) fail(name, "it cannot be removed", errno);
  remove_leftover(removed);
}

}  // namespace sectionflow
