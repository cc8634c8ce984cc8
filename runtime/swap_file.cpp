#include "runtime/swap_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

std::string folder_or_temporary(const std::string& folder) {
  if (!folder.empty()) return folder;
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  SF_CHECK_CODE(!error, ArgumentError, ErrorCode::swap_folder, "disk: the system's temporary folder cannot be used (",
                error.message(), "); try a swap_directory of your own");
  return temporary.string();
}

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& reason) {
  throw ArgumentError(error_text_of("disk: the swap file cannot be made in '", folder, "': ", reason,
                                    hint("take an existing folder for swap_directory that may be written to")),
                      ErrorCode::swap_folder);
}

void close_descriptor(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

SwapFile::SwapFile(const std::string& folder, std::size_t num_bytes, const DiskCalls& calls)
    : calls_(calls), folder_(folder_or_temporary(folder)), num_bytes_(num_bytes) {
  try {
    open_unnamed();
    check_space();
    take_space();
    open_direct();
  } catch (...) {
    close_descriptor(direct_descriptor_);
    close_descriptor(descriptor_);
    throw;
  }
}

SwapFile::~SwapFile() {
  close_descriptor(direct_descriptor_);
  close_descriptor(descriptor_);
}

void SwapFile::open_unnamed() {
  // The system would end the name there.
  if (const std::size_t zero = folder_.find('\0'); zero != std::string::npos) {
    refuse_folder(folder_.substr(0, zero) + "\\0", text_of("byte ", zero, " of the name is zero"));
  }
  struct stat status {};
  if (::stat(folder_.c_str(), &status) != 0) refuse_folder(folder_, std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) refuse_folder(folder_, std::strerror(ENOTDIR));
  constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
  // With O_EXCL nobody can give the file a name later.
  descriptor_ = calls_.open(folder_.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, kOwnerOnly);
  // Kernels and file systems without it take the call for one that opens the folder.
  if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
    std::string path = folder_ + "/sectionflow-swap-XXXXXX";
    descriptor_ = mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ >= 0 && unlink(path.c_str()) != 0) {
      const int error = errno;
      throw DeviceError(text_of("disk: the swap file '", path, "' cannot be unlinked: ", std::strerror(error)),
                        ErrorCode::disk_io);
    }
  }
  if (descriptor_ < 0) refuse_folder(folder_, std::strerror(errno));
  // The mask of the process may have taken bits away.
  if (fchmod(descriptor_, kOwnerOnly) != 0) refuse_folder(folder_, std::strerror(errno));
}

std::size_t SwapFile::free_bytes() const {
  struct statvfs status {};
  if (calls_.statvfs(folder_.c_str(), &status) != 0) refuse_folder(folder_, std::strerror(errno));
  return static_cast<std::size_t>(status.f_bavail) * static_cast<std::size_t>(status.f_frsize);
}

void SwapFile::check_space() const {
  const std::size_t free = free_bytes();
  if (free < num_bytes_) {
    throw BudgetError(error_text_of("disk: the swap file needs ", bytes_text(num_bytes_), " (", num_bytes_,
                                    " bytes), and folder '", folder_, "' has ", bytes_text(free), " free (", free,
                                    " bytes)", hint("make space there, or take another swap_directory")),
                      free, num_bytes_);
  }
  // Beyond this limit the process would get a signal that ends it.
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < num_bytes_) {
    throw BudgetError(error_text_of("disk: the swap file needs ", bytes_text(num_bytes_),
                                    ", and the process may write files of ", bytes_text(limit.rlim_cur),
                                    " at most (RLIMIT_FSIZE)", hint("raise the limit: ulimit -f unlimited")),
                      limit.rlim_cur, num_bytes_);
  }
}

void SwapFile::take_space() {
  if (num_bytes_ == 0) return;
  const auto length = static_cast<off_t>(num_bytes_);
  int error = 0;
  do {
    error = calls_.fallocate(descriptor_, 0, 0, length) == 0 ? 0 : errno;
  } while (error == EINTR);
  // Where the file system cannot take space at once, every page is written.
  if (error == EOPNOTSUPP || error == ENOSYS) error = posix_fallocate(descriptor_, 0, length);
  if (error == 0) return;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    const std::size_t free = free_bytes();
    throw BudgetError(
        error_text_of("disk: the swap file needs ", bytes_text(num_bytes_), " (", num_bytes_, " bytes), and folder '",
                      folder_, "' with ", bytes_text(free), " free (", free, " bytes) refuses: ", std::strerror(error),
                      hint("make space there, or take another swap_directory")),
        free, num_bytes_);
  }
  throw DeviceError(text_of("disk: taking ", bytes_text(num_bytes_), " for the swap file in '", folder_,
                            "' has failed: ", std::strerror(error), "; try another swap_directory"),
                    ErrorCode::disk_io);
}

void SwapFile::open_direct() {
  if (!calls_.try_direct || num_bytes_ < kPageBytes) return;
  // The file has no name of its own, but its descriptor has one.
  const std::string name = text_of("/proc/self/fd/", descriptor_);
  direct_descriptor_ = calls_.open(name.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC, 0);
  if (direct_descriptor_ < 0) return;
  // Some file systems take the flag and then refuse every access, or want larger units.
  const std::unique_ptr<void, void (*)(void*)> page(std::aligned_alloc(kPageBytes, kPageBytes), std::free);
  if (page == nullptr) throw std::bad_alloc();
  std::memset(page.get(), 0, kPageBytes);
  const auto whole = static_cast<ssize_t>(kPageBytes);
  if (calls_.pwrite(direct_descriptor_, page.get(), kPageBytes, 0) != whole ||
      calls_.pread(direct_descriptor_, page.get(), kPageBytes, 0) != whole) {
    close_descriptor(direct_descriptor_);
    return;
  }
  // Only the ends of blocks still go through the page cache; what lies beside them belongs to others.
  (void)posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
}

int open_file(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}

}  // namespace sectionflow
