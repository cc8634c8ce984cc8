#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/file_kind.h"

namespace sectionflow {

using Json = nlohmann::ordered_json;

/// What is shown of a file: for people, and for programs.
struct Inspection {
  std::string text;
  Json json = Json::object();
};

// Each reads the whole file and checks what there is to check. Throws: DataError for a damaged one.
Inspection inspect_safetensors(const std::filesystem::path& path);
Inspection inspect_checkpoint(const std::filesystem::path& path);
Inspection inspect_checkpoint_folder(const std::filesystem::path& path);
Inspection inspect_graph(const std::filesystem::path& path);
Inspection inspect_profile(const std::filesystem::path& path);
Inspection inspect_events(const std::filesystem::path& path);
Inspection inspect_tfrecord(const std::filesystem::path& path);
Inspection inspect_npy(const std::filesystem::path& path);
Inspection inspect_idx(const std::filesystem::path& path);

/// Of that kind.
Inspection inspect(FileKind kind, const std::filesystem::path& path);

/// "3 tensors", "1 tensor".
std::string counted(std::size_t count, const std::string& what);
/// A name of a file for people: control characters, which could steer a terminal, as '?'.
std::string printable(const std::string& name);

}  // namespace sectionflow
