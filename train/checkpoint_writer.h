#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/safetensors.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {

/// A checkpoint that is to be written.
struct CheckpointJob {
  CheckpointManifest manifest;
  Metadata metadata;
  std::vector<NamedType> types;
  std::function<TensorView(const std::string& name)> tensor_of;
  std::uint64_t num_bytes = 0;  ///< of all tensors
};

/// Writes checkpoints one after the other, and deletes those that are not to stay. Threads: one at a time.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path folder, const CheckpointOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  const CheckpointFolder& folder() const { return folder_; }

  /// Makes and locks the folder where that is to be done. Throws: DataError.
  void open();
  /// The same before there is anything to write. Throws: DataError for a folder that is not to be written to, too.
  void open_early();
  /// Writes the checkpoint, then `latest`, then deletes. Returns what kept an old one from being deleted, if anything.
  /// Throws: DataError, and what tensor_of throws; older checkpoints are then as they were.
  std::string write(CheckpointJob job);

 private:
  /// What decides whether a checkpoint stays.
  struct Known {
    std::uint64_t sequence = 0;
    std::map<std::string, double> metrics;
  };
  void look_at_folder();
  std::int64_t best() const;
  std::string delete_old();

  CheckpointFolder folder_;
  CheckpointOptions options_;
  bool has_looked_ = false;              // known_ is what the folder has
  std::map<std::int64_t, Known> known_;  // by step; those whose manifest cannot be read are nobody's to delete
};

}  // namespace sectionflow
