#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tensor_hashes.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace sectionflow {

/// Names in the folder of a checkpoint.
inline constexpr const char* kManifestName = "manifest.json";
/// What a manifest begins with telling of itself.
inline constexpr const char* kManifestFormat = "sectionflow-checkpoint";
inline constexpr const char* kVariablesName = "variables.safetensors";
inline constexpr std::size_t kMostManifestBytes = 100'000'000;

/// Of one tier.
struct TierFigures {
  std::uint64_t budget_bytes = 0, planned_peak_bytes = 0;
};

/// What a checkpoint tells besides its tensors.
struct CheckpointManifest {
  std::int64_t step = 0;
  std::uint64_t sequence = 0;  ///< grows with every checkpoint of a folder, whatever its step
  std::uint64_t completed_cycles = 0;
  std::uint64_t seed = 0;
  std::string data_position{};
  std::map<std::string, double> metrics{};
  std::vector<std::string> optimizers{};  ///< ops that apply gradients
  std::string strategy{};                 ///< a note: any other may go on
  std::string device{};                   ///< a note
  TierFigures device_memory{}, host_memory{}, disk{};
  std::optional<Profile> profile{};
  AlgorithmChoices algorithms{};
  std::map<std::string, std::string> kept{};  ///< by parts of the session, which alone read it
  std::string file = kVariablesName;          ///< of the tensors, in the folder of the manifest
  std::uint64_t file_bytes = 0;
  TensorHashes hashes{};
};

/// The manifest as JSON, its own hash at its end. The same manifest gives the same text.
/// Throws: ArgumentError for texts that are not UTF-8, and for more than kMostManifestBytes.
std::string manifest_text(const CheckpointManifest& manifest);

/// The checked content of a text that nobody vouches for. Takes memory of at most 40 times the text.
/// Throws: DataError (SF-E422) beginning with `where` for one that is damaged, of another version, or none.
CheckpointManifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace sectionflow
