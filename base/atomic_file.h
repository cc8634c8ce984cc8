#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace sectionflow {

/// A call of the operating system, repeated while signals interrupt it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}
/// What to do where a call for a file to be written fails so.
const char* advice_for(int error_number);

/// The calls of the operating system that can fail while a file is written. Tests put others in their places. Each
/// returns and sets errno as the real one does.
struct FileCalls {
  std::function<ssize_t(int, const void*, std::size_t)> write = ::write;
  std::function<int(int, mode_t)> fchmod = ::fchmod;
  std::function<int(int)> fsync = ::fsync;
  std::function<int(int)> close = ::close;
  std::function<int(int, const char*, int, const char*)> rename = ::renameat;
};

/// A file that appears whole or not at all. The bytes go to a temporary sibling (`<path>.tmp-<pid>-<n>`, created new;
/// of a name that leaves no room for that, the beginning); `commit()` puts it in the place of `path`. Until then, and
/// on every failure, what was at `path` stays as it was. Siblings of the same file that nobody has the lock of (flock)
/// are left from writers that were killed: they are removed. A file that is replaced hands on its mode, and its owner
/// and group where the system lets it; a new one gets what the umask leaves of 0666. Where `path` is a symbolic link,
/// the file it points to is the one that is meant: the link stays. Other names of a replaced file (hard links) keep the
/// old bytes. Names are looked up in the file's folder, which stays open, so that a path may be as long as the system
/// takes. Owns: the sibling, which is removed unless committed.
class AtomicFile {
 public:
  /// `what` begins every error, as in "write_safetensors". Throws: DataError when the sibling cannot be created
  /// and when `path` is something other than a file or holds a byte of zero.
  AtomicFile(const std::filesystem::path& path, std::string what, FileCalls calls = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends. Throws: DataError when the disk or a limit refuses.
  void write(const void* bytes, std::size_t num_bytes);

  /// Flushes the bytes to the disk, renames, and flushes the folder, so that a loss of power leaves the old file or the
  /// new one. To be called once. Throws: DataError; only when the text says so is the new file already in place.
  void commit();

 private:
  /// Of a folder, at first that of the process. Owns: it.
  class Descriptor {
   public:
    Descriptor() = default;
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { reset(-1); }
    void reset(int descriptor);
    int descriptor() const { return descriptor_; }

   private:
    int descriptor_ = AT_FDCWD;
  };

  void enter_folder_of(const std::filesystem::path& path);
  void follow_links();
  void create_sibling(mode_t mode);
  void remove_left_siblings() const;
  void take_over(const struct stat& replaced);
  [[noreturn]] void fail(const std::string& step, int error_number) const;

  std::string what_;
  std::string given_;  // the caller's path
  Descriptor folder_;  // behind all links
  std::string name_;   // the file's there
  std::string temporary_;
  FileCalls calls_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace sectionflow
