#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/failing_files.h"

namespace sectionflow::testing_support {

/// What of a log of changes a disk may show after power was lost.
class PowerLoss {
 public:
  /// `keeps_names`: names are kept in the order of their changing, though nobody has flushed them; content that nobody
  /// has flushed is lost in any case.
  PowerLoss(const std::vector<FileChange>& changes, std::size_t count, bool keeps_names, const std::string& folder)
      : folder_(folder) {
    for (std::size_t i = 0; i < count; ++i) apply(changes[i]);
    if (keeps_names) flushed_names_ = names_;
  }

  /// Writes what is left to another folder.
  void write_to(const std::filesystem::path& to) const {
    for (const auto& [path, number] : flushed_names_) {
      const std::filesystem::path at = to / std::filesystem::path(path).lexically_relative(folder_);
      std::filesystem::create_directories(at.parent_path());
      if (number < 0) {
        std::filesystem::create_directories(at);
      } else {
        const auto content = flushed_.find(number);
        std::ofstream(at, std::ios::binary) << (content == flushed_.end() ? std::string() : content->second);
      }
    }
  }

 private:
  using Names = std::map<std::string, int>;  // files by their number; folders are -1

  void apply(const FileChange& change) {
    const std::string path = std::filesystem::path(change.path).lexically_normal().string();
    const std::string other = std::filesystem::path(change.other).lexically_normal().string();
    switch (change.kind) {
      case FileChange::Kind::make_folder:
        names_[path] = -1;
        break;
      case FileChange::Kind::make_file:
        names_[path] = next_++;
        break;
      case FileChange::Kind::write: {
        std::string& bytes = content_[names_.at(path)];
        bytes.resize(std::max<std::size_t>(bytes.size(), change.offset + change.bytes.size()));
        bytes.replace(change.offset, change.bytes.size(), change.bytes);
        break;
      }
      case FileChange::Kind::flush:
        flushed_[names_.at(path)] = content_[names_.at(path)];
        break;
      case FileChange::Kind::flush_folder:
        flush_names_of(path);
        break;
      case FileChange::Kind::rename:
        names_ = moved(names_, path, other);
        break;
      case FileChange::Kind::exchange:
        names_ = moved(moved(moved(names_, other, other + "-"), path, other), other + "-", path);
        break;
      case FileChange::Kind::remove:
        names_.erase(path);
        break;
    }
  }

  static Names moved(const Names& names, const std::string& from, const std::string& to) {
    Names result;
    for (const auto& [name, number] : names) {
      const bool is_below = name == from || name.starts_with(from + "/");
      result[is_below ? to + name.substr(from.size()) : name] = number;
    }
    return result;
  }

  /// The entries of one folder are what they are now; what a folder that comes or goes holds comes and goes with it.
  void flush_names_of(const std::string& folder) {
    const auto is_entry = [&](const std::string& name) { return std::filesystem::path(name).parent_path() == folder; };
    Names kept;
    // A folder's own entries are told by its own flush, under whatever name it had then.
    for (const auto& [name, number] : flushed_names_) {
      if (!name.starts_with(folder + "/")) kept[name] = number;
    }
    for (const auto& [name, number] : names_) {
      if (!name.starts_with(folder + "/")) continue;
      if (is_entry(name) || flushed_numbers_.contains(number) || number < 0) kept[name] = number;
    }
    for (const auto& [name, number] : names_) {
      if (is_entry(name) && number >= 0) flushed_numbers_.insert(number);
    }
    flushed_names_ = std::move(kept);
  }

  std::string folder_;
  int next_ = 0;
  Names names_, flushed_names_;
  std::map<int, std::string> content_, flushed_;  // by number
  std::set<int> flushed_numbers_;                 // of files whose names in their folders are flushed
};

}  // namespace sectionflow::testing_support
