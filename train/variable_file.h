#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "runtime/session.h"
#include "swap/profile.h"
#include "train/checkpoint.h"
#include "train/checkpoint_folder.h"

namespace sectionflow {

/// What a file of variables, or a checkpoint, holds.
struct VariableFile {
  std::string path;  ///< for errors
  std::vector<NamedTensor> tensors;
  std::set<std::string> slots{};       ///< the names of those that training had added
  std::vector<std::string> updates{};  ///< update_settings of the graph that has saved it; empty: not known
  std::optional<Profile> profile{};
  AlgorithmChoices choices{};
  /// What a checkpoint has kept for parts of its session; nothing: it is none.
  std::optional<std::map<std::string, std::string>> kept{};
  std::optional<std::uint64_t> cycles{};
};

/// The metadata of a file of a session's variables.
Metadata metadata_of(const CheckpointNotes& notes, const Session& session);

/// Reads a safetensors file, or a checkpoint's folder. Throws: DataError.
VariableFile read_variable_file(const std::string& path);
/// What a checkpoint says of its variables; `path` for errors. Throws: DataError for metadata that are damaged.
VariableFile variable_file_of(CheckpointContent content, const std::string& path);

/// Sets the session's variables, cycles and algorithms, as load_variables says. Throws: as load_variables.
LoadReport load_file(Session& session, const VariableFile& file, const LoadOptions& options, Where where);

}  // namespace sectionflow
