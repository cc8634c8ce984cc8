#include "data/tensor_hashes.h"

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "base/error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectionflow {
namespace {

constexpr std::string_view kOfMetadata = "xxh3";
constexpr std::string_view kOfTensor = "xxh3:";

std::string digits(std::uint64_t hash) {
  std::string text(17, '\0');
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  text.pop_back();
  return text;
}

/// Of all entries but its own, in the order of their keys, each text behind its length.
std::string metadata_hash(const Metadata& metadata) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += std::to_string(part.size()) + ":" + part; };
  for (const auto& [key, value] : metadata) {
    if (key == kOfMetadata) continue;
    add(key);
    add(value);
  }
  return text_hash(text);
}

}  // namespace

bool is_hash_key(const std::string& key) {
  return key == kOfMetadata || key.starts_with(kOfTensor);
}

std::string tensor_hash(const TensorView& tensor) {
  const std::string type = tensor.type.text();
  const std::size_t num_bytes = tensor.type.bytes();
  const std::uint64_t seed = XXH3_64bits(type.data(), type.size());
  return digits(XXH3_64bits_withSeed(num_bytes > 0 ? tensor.data : "", num_bytes, seed));
}

std::string text_hash(std::string_view text) {
  return digits(XXH3_64bits(text.data(), text.size()));
}

void add_hashes(const TensorHashes& hashes, Metadata& metadata) {
  for (const auto& [name, hash] : hashes) metadata[std::string(kOfTensor) + name] = hash;
  metadata[std::string(kOfMetadata)] = metadata_hash(metadata);
}

TensorHashes take_hashes(Metadata& metadata, const std::string& where) {
  const auto of_metadata = metadata.find(std::string(kOfMetadata));
  if (of_metadata != metadata.end()) {
    SF_CHECK(of_metadata->second == metadata_hash(metadata), DataError, where,
             "its metadata are damaged: they do not have the hash that was saved with them",
             hint("take another copy; a program that means to change the metadata drops 'xxh3' and every 'xxh3:NAME' "
                  "from them"));
    metadata.erase(of_metadata);
  } else {
    // Who writes hashes of tensors writes that of the metadata beside them: its key itself is damaged.
    const auto any = metadata.lower_bound(std::string(kOfTensor));
    SF_CHECK(any == metadata.end() || !any->first.starts_with(kOfTensor), DataError, where,
             "its metadata are damaged: they have the hash '", any->first, "', and not their own, 'xxh3'",
             hint("take another copy; a program that means to change the metadata drops 'xxh3' and every 'xxh3:NAME' "
                  "from them"));
  }
  TensorHashes hashes;
  for (auto entry = metadata.begin(); entry != metadata.end();) {
    if (entry->first.starts_with(kOfTensor)) {
      hashes.emplace(entry->first.substr(kOfTensor.size()), std::move(entry->second));
      entry = metadata.erase(entry);
    } else {
      ++entry;
    }
  }
  return hashes;
}

}  // namespace sectionflow
