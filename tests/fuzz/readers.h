#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sectionflow::fuzz {

/// A reader of bytes that are not trusted.
struct Reader {
  std::string name{};
  /// Reads all of it; of errors only DataError leaves it when all is well.
  std::function<void(const std::string& bytes)> read{};
  /// Sound files, to begin with.
  std::vector<std::string> seeds{};
  /// It takes no more memory at once than so many bytes for each byte it reads, and others besides.
  std::size_t memory_per_byte = 0, other_memory = 0;
};

/// By the names of reader_names.inc.
const std::vector<std::string>& reader_names();
/// Throws: std::out_of_range for another name.
Reader reader_named(const std::string& name);

/// Has the reader read; whether it refuses. Throws: std::runtime_error where it takes more memory than it may, or more
/// than a second; what leaves the reader besides DataError.
bool is_refused(const Reader& reader, const std::string& bytes);

#define SF_READER(name) Reader name##_reader();
#include "tests/fuzz/reader_names.inc"
#undef SF_READER

}  // namespace sectionflow::fuzz
