#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "base/error.h"

namespace sectionflow {

/// A fresh, empty folder for the files of one test. Owns: the folder, which goes with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sectionflow-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder at " + name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  /// Writes a new file of these bytes, in the place of one of that name; returns its path.
  std::filesystem::path file(const std::string& name, std::string_view bytes) const {
    // Some file systems flush a file that is cut to nothing and written again, which takes milliseconds.
    std::error_code ignored;
    std::filesystem::remove(path_ / name, ignored);
    std::ofstream stream(path_ / name, std::ios::binary);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!stream.flush()) throw std::runtime_error("cannot write " + name);
    return path_ / name;
  }

  std::size_t num_files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// The whole text of the Wanted that `call` throws. Throws: std::runtime_error when it does not throw; another error as
/// it is.
template <class Wanted, class Call>
std::string whole_error_text(const Call& call) {
  try {
    call();
  } catch (const Wanted& error) {
    return error.what();
  }
  throw std::runtime_error("the call did not throw");
}

/// The same from the message on: without the code and the type before it.
template <class Wanted, class Call>
std::string error_text(const Call& call) {
  const std::string text = whole_error_text<Wanted>(call);
  if constexpr (!std::is_base_of_v<Error, Wanted>) return text;
  const auto colon = text.find(": ");
  return text.starts_with("SF-E") && colon != std::string::npos ? text.substr(colon + 2) : text;
}

}  // namespace sectionflow
