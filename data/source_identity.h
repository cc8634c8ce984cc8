#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

// What IndexedSource::identity and StreamSource::identity tell of data in files: what they are, not where they lie.

/// Files by their names, without folders, in the order given, their sizes and their last bytes, which have the checksum
/// of what is compressed and of a last record: "'a.csv' (names and sizes 0123456789abcdef)", "'a.csv' and 2 more
/// (...)". What cannot be read counts as empty. Throws: DataError (SF-E411) for what cannot be read just now, of
/// which nobody must remember anything.
std::string identity_of_files(const std::vector<std::filesystem::path>& files);
/// Some names, and a hash of all: "'cat', 'dog'", "'a', 'b', ... (1000 names, 0123456789abcdef)".
std::string identity_of_names(const std::vector<std::string>& names);
/// The bytes of a file; 0 for what is not there or cannot be looked at. Throws: as identity_of_files.
std::uintmax_t size_for_identity(const std::filesystem::path& path);
/// A text of 16 letters that stands for another.
std::string identity_hash(const std::string& text);

/// Tells in the log of what is odd about data and no error.
void warn_of_data(const std::string& text);

/// A text that is made when it is asked for first; where that throws, it is made the next time. Threads: any number at
/// once.
class TextOnce {
 public:
  const std::string& get(const std::function<std::string()>& make) const {
    std::call_once(once_, [&] { text_ = make(); });
    return text_;
  }

 private:
  mutable std::once_flag once_;
  mutable std::string text_;
};

}  // namespace sectionflow
