#include "train/checkpoint_reading.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStep = "step-";

[[noreturn]] void fail_to_read(const fs::path& path, const std::string& what, int error_number) {
  throw DataError(error_text_of("the checkpoint '", path.string(), "' ", what, " (", std::strerror(error_number), ")",
                                hint("is the path right, and may this process read it?")));
}

/// Opens a file or folder of a folder, and follows no link.
Descriptor open_in(int folder, const std::string& name, int flags, const fs::path& shown) {
  Descriptor opened(uninterrupted(
      [&] { return openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | flags); }));
  if (!opened.is_open()) {
    const int error_number = errno;
    fail_to_read(shown, error_number == ELOOP ? "is a symbolic link, which is not followed" : "cannot be opened",
                 error_number);
  }
  return opened;
}

Descriptor open_checkpoint(const fs::path& checkpoint) {
  check_path(checkpoint, "a checkpoint");
  return open_in(AT_FDCWD, checkpoint.string(), O_DIRECTORY, checkpoint);
}

CheckpointManifest read_manifest(const Descriptor& folder, const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestName;
  const std::string text = read_file_in(folder.number(), kManifestName, kMostManifestBytes, path);
  CheckpointManifest manifest = parse_manifest(text, text_of("'", path.string(), "': "));
  // A folder may have any name; one that is named after a step must be of that step.
  const auto step = step_of(checkpoint.filename().string());
  SF_CHECK_CODE(!step || *step == manifest.step, DataError, ErrorCode::checkpoint_damaged, "'", path.string(),
                "': is of step ", manifest.step, ", not of that of its folder",
                hint("take another checkpoint of the folder"));
  return manifest;
}

void check_tensors(const CheckpointContent& content, const fs::path& checkpoint) {
  const auto refuse = [&](const auto&... why) {
    throw DataError(error_text_of("the checkpoint '", checkpoint.string(), "': ", why...,
                                  hint("take another checkpoint of the folder")),
                    ErrorCode::checkpoint_damaged);
  };
  const TensorHashes& hashes = content.manifest.hashes;
  for (const auto& [name, tensor] : content.file.tensors) {
    const auto wanted = hashes.find(name);
    if (wanted == hashes.end()) refuse("its manifest does not know the tensor '", name, "'");
    if (wanted->second != tensor_hash(tensor.view())) refuse("tensor '", name, "' is not the one of its manifest");
  }
  if (hashes.size() != content.file.tensors.size())
    refuse("has ", content.file.tensors.size(), " tensors; its manifest tells of ", hashes.size());
}

}  // namespace

std::string step_name(std::int64_t step) {
  return kStep + std::to_string(step);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(std::strlen(kStep));
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool is_step = error == std::errc() && end == digits.data() + digits.size() && step_name(step) == name;
  return is_step && step >= 0 ? std::optional(step) : std::nullopt;
}

std::string read_file_in(int folder, const std::string& name, std::size_t most_bytes, const fs::path& shown) {
  const Descriptor file = open_in(folder, name, 0, shown);
  struct stat status {};
  if (fstat(file.number(), &status) != 0) fail_to_read(shown, "cannot be examined", errno);
  SF_CHECK(S_ISREG(status.st_mode), DataError, "'", shown.string(), "' is no file, but a folder, device or pipe");
  SF_CHECK(static_cast<std::uint64_t>(status.st_size) <= most_bytes, DataError, "'", shown.string(), "' has ",
           status.st_size, " bytes; wanted at most ", most_bytes);
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        uninterrupted([&] { return ::read(file.number(), bytes.data() + done, bytes.size() - done); });
    if (count < 0) fail_to_read(shown, "cannot be read", errno);
    SF_CHECK(count > 0, DataError, "'", shown.string(), "' became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

CheckpointManifest read_checkpoint_manifest(const fs::path& checkpoint) {
  return read_manifest(open_checkpoint(checkpoint), checkpoint);
}

CheckpointContent read_checkpoint(const fs::path& checkpoint) {
  const Descriptor folder = open_checkpoint(checkpoint);
  CheckpointContent content{.manifest = read_manifest(folder, checkpoint), .file = {}};
  const fs::path path = checkpoint / content.manifest.file;
  struct stat status {};
  if (fstatat(folder.number(), content.manifest.file.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    fail_to_read(path, "cannot be examined", errno);
  const bool is_size =
      !S_ISREG(status.st_mode) || content.manifest.file_bytes == static_cast<std::uint64_t>(status.st_size);
  SF_CHECK_CODE(is_size, DataError, ErrorCode::checkpoint_damaged, "'", path.string(), "': has ", status.st_size,
                " bytes; its manifest tells of ", content.manifest.file_bytes,
                hint("take another checkpoint of the folder"));
  content.file = read_safetensors_in(folder.number(), content.manifest.file, path.string());
  check_tensors(content, checkpoint);
  return content;
}

}  // namespace sectionflow
