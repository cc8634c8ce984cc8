#include "data/source_identity.h"

#include <glog/logging.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/file_at.h"
#include "data/tensor_hashes.h"

namespace sectionflow {
namespace {

/// The size of a file, and its last bytes.
std::string ends_of(const std::filesystem::path& path) {
  constexpr std::uint64_t kLastBytes = 16;
  try {
    const FileAt file(path, "file");
    std::string last(std::min(file.num_bytes(), kLastBytes), '\0');
    file.read_at(file.num_bytes() - last.size(), last.data(), last.size());
    return text_of(file.num_bytes(), " ", last);
  } catch (const DataError& error) {
    if (error.code() == ErrorCode::unreadable_now) throw;
    return "0";
  }
}

}  // namespace

std::uintmax_t size_for_identity(const std::filesystem::path& path) {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
  if (failed && may_pass(failed.value()))
    throw_read_failure("'" + path.string() + "' cannot be examined", failed.value());
  return failed ? 0 : bytes;
}

std::string identity_hash(const std::string& text) {
  return text_hash(text);
}

void warn_of_data(const std::string& text) {
  LOG(WARNING) << text;
}

std::string identity_of_files(const std::vector<std::filesystem::path>& files) {
  std::string all;
  for (const std::filesystem::path& path : files) all += text_of(path.filename().string(), '\0', ends_of(path), '\0');
  const std::string first = files.empty() ? std::string() : files.front().filename().string();
  return text_of("'", first, "'", files.size() > 1 ? text_of(" and ", files.size() - 1, " more") : "",
                 " (names and sizes ", identity_hash(all), ")");
}

std::string identity_of_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text, all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i < kShown) text += text_of(i == 0 ? "'" : ", '", names[i], "'");
    all += names[i] + '\0';
  }
  return names.size() <= kShown ? text : text_of(text, ", ... (", names.size(), " names, ", identity_hash(all), ")");
}

}  // namespace sectionflow
