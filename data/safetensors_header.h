#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/safetensors.h"

namespace sectionflow {

/// Limits of the format and, for names, of ours.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensorNameBytes = 4096;
inline constexpr const char* kMetadataKey = "__metadata__";

/// A tensor of a header. Its bytes are [begin, end) of the data area.
struct HeaderEntry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  // in the order of their bytes
  Metadata metadata;
};

/// The JSON text, padded by spaces so that the data behind it and its length start at a multiple of 8.
/// Throws: ArgumentError for text that is not UTF-8.
std::string safetensors_header_text(const SafetensorsHeader& header);

/// The checked content of a header's JSON text: nothing but what the format allows, no key twice, and entries that
/// cover the `data_bytes` of the data area without hole or overlap. Throws: DataError beginning with `where`.
SafetensorsHeader parse_safetensors_header(const std::string& text, std::uint64_t data_bytes, const std::string& where);

/// A name of a file for an error's text: in quotes, without control characters, shortened.
std::string shown_name(const std::string& name);

}  // namespace sectionflow
