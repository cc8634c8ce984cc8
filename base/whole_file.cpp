#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

/// A file descriptor for reading. Owns: it.
class OpenFile {
 public:
  // Without O_NONBLOCK the opening of a pipe that nobody writes would wait for ever.
  explicit OpenFile(const std::filesystem::path& path)
      : descriptor_(uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); })) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

bool may_pass(int error_number) {
  constexpr std::array<int, 13> kReasons = {EMFILE, ENFILE, ENOMEM,    ENOBUFS,   EINTR,        EAGAIN,  EIO,
                                            ESTALE, ENODEV, ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH, ENETDOWN};
  return std::find(kReasons.begin(), kReasons.end(), error_number) != kReasons.end();
}

void throw_read_failure(const std::string& what, int error_number) {
  const bool is_full = error_number == EMFILE || error_number == ENFILE, passes = may_pass(error_number);
  throw DataError(
      error_text_of(what, " (", std::strerror(error_number), ")",
                    hint(is_full  ? "too many files are open: raise ulimit -n, or close some"
                         : passes ? "this may pass: look at the machine's memory, disks and log, and try again"
                                  : "is the path right, and may this process read it?")),
      passes ? ErrorCode::unreadable_now : ErrorCode::data);
}

std::string read_whole_file(const std::filesystem::path& path, std::size_t most_bytes, const std::string& what) {
  check_path(path, what);
  const std::string where = what + ": '" + path.string() + "': ";
  const OpenFile file(path);
  if (file.descriptor() < 0) throw_read_failure(where + "cannot be opened", errno);
  struct stat status {};
  SF_CHECK(fstat(file.descriptor(), &status) == 0, DataError, where, "cannot be examined (", std::strerror(errno), ")");
  SF_CHECK(S_ISREG(status.st_mode), DataError, where, "is no file, but a folder, device or pipe",
           hint("is the path right?"));
  const auto num_bytes = static_cast<std::size_t>(status.st_size);
  SF_CHECK(num_bytes <= most_bytes, DataError, where, "has ", num_bytes, " bytes; wanted at most ", most_bytes);
  std::string bytes(num_bytes, '\0');
  std::size_t done = 0;
  while (done < num_bytes) {
    const ssize_t count = read(file.descriptor(), bytes.data() + done, std::min<std::size_t>(num_bytes - done, 64_MiB));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_failure(where + "cannot be read", errno);
    SF_CHECK(count > 0, DataError, where, "became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes, const std::string& what) {
  AtomicFile file(path, what);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void make_folder(const std::filesystem::path& folder, const std::string& what, ErrorCode code) {
  if (folder.empty()) return;
  check_path(folder, what);
  std::error_code failed;
  std::vector<std::filesystem::path> holders;  // of a name that is new
  for (std::filesystem::path each = folder; !each.empty() && !std::filesystem::exists(each, failed);) {
    const std::filesystem::path holder = each.parent_path();
    holders.push_back(holder.empty() ? "." : holder);
    each = holder == each ? std::filesystem::path() : holder;
  }
  std::filesystem::create_directories(folder, failed);
  SF_CHECK_CODE(!failed, DataError, code, what, ": the folder '", folder.string(), "' cannot be made (",
                failed.message(), ")", hint("choose another folder, in which this process may write"));
  for (const std::filesystem::path& holder : holders) flush_folder(holder, what, code);
}

void flush_folder(const std::filesystem::path& folder, const std::string& what, ErrorCode code) {
  const int opened = uninterrupted([&] { return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  // Names may be made in a folder that may not be read, and only what is open for reading is flushed.
  if (opened < 0 && (errno == EACCES || errno == EPERM)) return;
  const int flushed = opened < 0 ? -1 : uninterrupted([&] { return fsync(opened); });
  const int error_number = errno;
  if (opened >= 0) close(opened);
  // EINVAL: a file system whose folders need no flush.
  SF_CHECK_CODE(flushed == 0 || error_number == EINVAL, DataError, code, what, ": the folder '", folder.string(),
                "' cannot be flushed to the disk (", std::strerror(error_number), ")", hint(advice_for(error_number)));
}

void write_whole_file_in(const std::filesystem::path& folder, const std::string& name, std::string_view bytes,
                         const std::string& what) {
  make_folder(folder, what);
  write_whole_file(folder / name, bytes, what);
}

void check_path(const std::filesystem::path& path, const std::string& what) {
  const std::string& text = path.native();
  SF_CHECK(!text.empty(), DataError, what, ": '': the name of the file is empty", hint("give it a name"));
  const std::size_t zero = text.find('\0');
  // The byte itself would end the error's text.
  SF_CHECK(zero == std::string::npos, DataError, what, ": '", text.substr(0, zero), "\\0",
           zero == std::string::npos ? "" : text.substr(zero + 1).c_str(), "': byte ", zero,
           " of the name is zero, where the system would end it", hint("choose a name without it"));
}

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code failed;  // where the working directory is gone
  std::filesystem::path whole = path.empty() ? path : std::filesystem::absolute(path, failed);
  return failed ? path : whole;
}

void check_writable(const std::filesystem::path& path, const std::string& what) {
  const AtomicFile probe(path, what);
}

void check_writable_in(const std::filesystem::path& folder, const std::string& name, const std::string& what) {
  make_folder(folder, what);
  check_writable(folder / name, what);
}

}  // namespace sectionflow
