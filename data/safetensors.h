#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace sectionflow {

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

/// A tensor to be written that somebody else owns.
struct NamedView {
  std::string name;
  TensorView tensor;
};

/// A tensor to be written whose bytes come later.
struct NamedType {
  std::string name;
  TensorType type;
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in the order of their bytes in the file
  Metadata metadata;
};

std::vector<NamedView> views_of(const std::vector<NamedTensor>& tensors);

/// Writes tensors of any of our dtypes in the safetensors format: the larger elements first, then by name, so that each
/// tensor is aligned to its elements; the same arguments give the same bytes. The metadata get a hash of each tensor
/// and one of themselves (tensor_hashes.h). A file that was at `path` is replaced
/// only when the new one is complete and on the disk; on any failure it is left as it was, and nothing beside it.
/// Throws: ArgumentError for names that are equal, reserved (`__metadata__`; keys `xxh3` and `xxh3:...` of the
/// metadata), longer than 4 KiB or, like keys and values of the metadata, no UTF-8, for booleans other than 0 and 1,
/// and for a header beyond 100 MB; DataError when the file cannot be written. Source:
/// github.com/huggingface/safetensors, README ("Format").
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors,
                       const Metadata& metadata = {});

/// A new, empty file for stream_safetensors.
struct FileSink {
  std::function<void(const void* bytes, std::size_t num_bytes)> append;
  std::function<void(const void* bytes, std::size_t num_bytes)> overwrite_beginning;
};

/// The same bytes without having all tensors at once: `tensor_of` is asked for each, in the order of the file, and what
/// it gives has to be there until it is asked for the next. Returns the hashes of the tensors by their names.
/// Throws: as write_safetensors, and what the sink and `tensor_of` throw; what has been written is then no such file.
std::map<std::string, std::string> stream_safetensors(
    const FileSink& sink, const std::vector<NamedType>& tensors,
    const std::function<TensorView(const std::string& name)>& tensor_of, const Metadata& metadata = {});

/// Reads a safetensors file of dtypes BOOL, U8, I8, I32, I64, BF16, F32 and F64. The file is not trusted: its header is
/// checked against its size before any tensor is allocated, and memory stays below the tensors' bytes and 40 times the
/// header's. Hashes that it has are checked, and left out of the metadata. Throws: DataError naming the file, and the
/// tensor where one is at fault, for a missing or damaged file and for dtypes outside this list.
SafetensorsFile read_safetensors(const std::filesystem::path& path);
/// The same of a file in an open folder, `shown` in errors. A symbolic link is refused.
SafetensorsFile read_safetensors_in(int folder, const std::string& name, const std::string& shown);

}  // namespace sectionflow
