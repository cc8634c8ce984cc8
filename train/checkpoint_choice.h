#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {

// What a folder of checkpoints has, while another process may be saving to it.

/// What a manifest tells.
CheckpointInfo info_of(const CheckpointManifest& manifest, const std::filesystem::path& path);

/// The checkpoints of a folder by their sequence; those without a manifest that can be read first. Throws: DataError
/// where the folder cannot be listed.
std::vector<CheckpointInfo> list_checkpoints(const CheckpointFolder& folder);

/// Which of them to try, and what is wrong with the others.
struct CheckpointChoice {
  std::vector<std::int64_t> steps;      ///< that of `latest`, then the others, the newest first
  std::vector<std::string> problems;    ///< of `latest`, and of the checkpoint that it names
  std::vector<std::string> unreadable;  ///< of the others that need not be tried
};
/// Throws: DataError where the folder cannot be listed.
CheckpointChoice choose_checkpoints(const CheckpointFolder& folder);

/// How often a folder is looked at whose checkpoints come and go faster than they are read.
inline constexpr int kMostLooksAtCheckpoints = 20;

}  // namespace sectionflow
