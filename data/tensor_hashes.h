#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/host_tensor.h"
#include "data/safetensors.h"

namespace sectionflow {

// Hashes of tensors in the metadata of a file: XXH3 (64 bits), 16 hexadecimal digits, by "xxh3:" and the tensor's name;
// the seed is the hash of the tensor's type as a text ("f32[2,3]"). That of the other metadata has the key "xxh3".
// Source: Yann Collet, xxHash 0.8.

/// Hashes by the names of tensors.
using TensorHashes = std::map<std::string, std::string>;

/// Whether a key of the metadata is one of these.
bool is_hash_key(const std::string& key);

/// The hash of a tensor's type and bytes.
std::string tensor_hash(const TensorView& tensor);
/// The hash of a text, of as many digits.
std::string text_hash(std::string_view text);

/// Adds the hash of each tensor to the metadata, and that of all metadata.
void add_hashes(const TensorHashes& hashes, Metadata& metadata);

/// Takes the hashes out of the metadata and gives them back by the names of the tensors.
/// Throws: DataError, beginning with `where`, when the metadata have a hash that is not theirs, or hashes of tensors
/// and none of their own.
TensorHashes take_hashes(Metadata& metadata, const std::string& where);

}  // namespace sectionflow
