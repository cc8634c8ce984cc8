#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/checkpoint_manifest.h"
#include "train/checkpoint_reading.h"

namespace sectionflow {

/// A folder of checkpoints, `step-N` each, and the file `latest` that names one of them. Every change of it leaves each
/// checkpoint as it was, or whole and new, or gone, wherever it is cut off. Threads: one at a time.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// Of a checkpoint that was being replaced when its process ended, the name that it has until somebody writes.
  std::filesystem::path path_of(std::int64_t step) const;

  /// The steps that have a checkpoint, in their order; none where there is no folder.
  std::vector<std::int64_t> steps() const;
  /// What `read` gives of the path of a step's checkpoint. Nothing where there is none any more: another process that
  /// trains has removed it; where it has put another in its place, that one is read. Throws: as `read` of one that
  /// stays.
  template <class Read>
  auto read_while_there(std::int64_t step, const Read& read) const -> std::optional<decltype(read(path_of(step)))> {
    for (;;) {
      const auto before = identity_of(step);
      if (!before) return std::nullopt;
      try {
        return read(path_of(step));
      } catch (const DataError&) {
        if (identity_of(step) == before) throw;
      }
    }
  }
  /// What `latest` names. Nothing where there is none; `problem` then tells what is wrong with one that is there.
  std::optional<std::int64_t> latest(std::string& problem) const;

  /// Makes the folder where it is not there, and keeps other processes from writing to it as long as this lives. What
  /// others, or a write that failed, have left unfinished is removed. A folder that is not at its path any more is let
  /// go. True where the folder is another than before: what is known of its checkpoints is not of this one. Throws:
  /// DataError, with SF-E423 while another writes to it; ArgumentError for a folder of something else.
  bool open_for_writing();
  /// Throws: DataError where this process may not make files in the folder that is open.
  void check_writable() const;
  /// Bytes that the file system has for this process; the most there can be where it does not tell.
  std::uint64_t free_bytes() const;
  /// Writes `step-N`: `write_tensors` writes the tensors and fills in what the manifest tells of them. Whatever fails,
  /// a checkpoint of that step that was there is as it was. What has its name and is no checkpoint is set aside, with a
  /// warning: it is `step-N.set-aside` then. Throws: DataError, and what `write_tensors` throws.
  void write(CheckpointManifest manifest, const std::function<TensorHashes(const FileSink& sink)>& write_tensors);
  /// Has `latest` name a checkpoint. Throws: DataError.
  void set_latest(std::int64_t step);
  /// Removes a checkpoint: first, and at once, from the names of checkpoints. Throws: DataError.
  void remove(std::int64_t step);

 private:
  /// Of the folder that a step's checkpoint is now: its device and number. Nothing: there is none.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> identity_of(std::int64_t step) const;
  [[noreturn]] void fail(const std::string& name, const std::string& what, int error_number) const;
  void remove_leftover(const std::string& name) const;
  void tidy();
  void set_aside(const std::string& name) const;
  void put_in_place(const std::string& temporary, const std::string& name);
  void flush() const;
  void write_file(int folder, const std::string& name, const std::string& shown,
                  const std::function<void(const FileSink&)>& write) const;

  std::filesystem::path path_;
  Descriptor folder_;     // open, and locked, for writing
  bool is_tidy_ = false;  // nothing unfinished is in it
};

}  // namespace sectionflow
