#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace sectionflow {

/// A folder for what a program writes and nobody wants to keep. Owns: it, and all that is in it when it goes.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& program)
      : path_(std::filesystem::temp_directory_path() / (program + "-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sectionflow
