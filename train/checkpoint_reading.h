#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "data/safetensors.h"
#include "train/checkpoint_manifest.h"

namespace sectionflow {

/// A descriptor of the operating system. Owns: it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Gives the number away.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// What a checkpoint holds.
struct CheckpointContent {
  CheckpointManifest manifest;
  SafetensorsFile file;
};

/// Reads a checkpoint's manifest, or all of it, in its folder: no link is followed, and every byte is checked.
/// Throws: DataError naming the file, and the tensor where one is at fault.
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& checkpoint);
CheckpointContent read_checkpoint(const std::filesystem::path& checkpoint);

/// The name of the folder of a step's checkpoint, "step-N".
std::string step_name(std::int64_t step);
/// The N of a name "step-N", written as step_name does.
std::optional<std::int64_t> step_of(std::string_view name);
/// A file of a folder that is open (or AT_FDCWD); errors call it `shown`. No link is followed. Throws: DataError, also
/// for more than `most_bytes`.
std::string read_file_in(int folder, const std::string& name, std::size_t most_bytes,
                         const std::filesystem::path& shown);

}  // namespace sectionflow
