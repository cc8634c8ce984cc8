#include "data/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/whole_file.h"
#include "data/file_at.h"
#include "data/safetensors_header.h"
#include "data/tensor_hashes.h"

namespace sectionflow {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data are little-endian and go to disk as they lie");

bool is_zero_or_one(std::byte byte) {
  return byte <= std::byte{1};
}

/// A file read from its beginning to its end, whose size is known.
class FileReader {
 public:
  /// `flags`: as open_regular_file has them.
  FileReader(int folder, const char* name, int flags, const std::string& where)
      : where_(where), file_(open_regular_file(folder, name, flags, where)) {}
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  ~FileReader() { close(file_.descriptor); }

  std::uint64_t num_bytes() const { return file_.num_bytes; }

  void read(void* bytes, std::size_t num_bytes) {
    char* position = static_cast<char*>(bytes);
    while (num_bytes > 0) {
      const ssize_t got = ::read(file_.descriptor, position, std::min<std::size_t>(num_bytes, 64_MiB));
      if (got < 0 && errno == EINTR) continue;
      SF_CHECK(got >= 0, DataError, where_, "cannot be read (", std::strerror(errno), ")");
      SF_CHECK(got > 0, DataError, where_, "became shorter while it was read");
      position += got;
      num_bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  const std::string& where_;
  OpenedFile file_;
};

void check_names(const std::vector<NamedType>& tensors) {
  std::set<std::string> names;
  for (const auto& [name, type] : tensors) {
    SF_CHECK(name != kMetadataKey, ArgumentError, "write_safetensors: the name '", name, "' is reserved by the format");
    SF_CHECK(name.size() <= kMaxTensorNameBytes, ArgumentError, "write_safetensors: tensor ", shown_name(name),
             " has a name of ", name.size(), " bytes; wanted at most ", kMaxTensorNameBytes);
    SF_CHECK(names.insert(name).second, ArgumentError, "write_safetensors: two tensors have the name ",
             shown_name(name));
  }
}

void check_booleans(const std::string& name, const TensorView& tensor) {
  if (tensor.type.dtype != Dtype::boolean) return;
  const std::byte* bytes = tensor.as<std::byte>();
  SF_CHECK(std::all_of(bytes, bytes + tensor.type.bytes(), is_zero_or_one), ArgumentError, "write_safetensors: tensor ",
           shown_name(name), " ", tensor.type.text(), " has a byte other than 0 and 1");
}

/// Falling element size, then name: each tensor begins at a multiple of its element size without padding.
std::vector<NamedType> in_file_order(std::vector<NamedType> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedType& a, const NamedType& b) {
    const std::size_t bytes_a = dtype_bytes(a.type.dtype), bytes_b = dtype_bytes(b.type.dtype);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a.name < b.name;
  });
  return tensors;
}

/// The metadata of a file: the caller's, and hashes.
Metadata hashed(const TensorHashes& hashes, Metadata metadata) {
  for (const auto& [key, value] : metadata) {
    SF_CHECK(!is_hash_key(key), ArgumentError, "write_safetensors: the key ", shown_name(key),
             " of the metadata is reserved for the hashes of tensors");
  }
  add_hashes(hashes, metadata);
  return metadata;
}

/// The length of the header, and the header.
std::string beginning_of(const std::vector<NamedType>& order, Metadata metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = std::move(metadata)};
  std::uint64_t end = 0;
  for (const auto& [name, type] : order) {
    const std::uint64_t begin = end;
    end += type.bytes();
    header.entries.push_back({name, type, begin, end});
  }
  const std::string text = safetensors_header_text(header);
  SF_CHECK(text.size() <= kMaxHeaderBytes, ArgumentError, "write_safetensors: the header takes ", text.size(),
           " bytes; the format allows ", kMaxHeaderBytes, ", store less metadata or fewer tensors");
  const std::uint64_t header_bytes = text.size();
  std::string bytes(sizeof(header_bytes), '\0');
  std::memcpy(bytes.data(), &header_bytes, sizeof(header_bytes));
  return bytes + text;
}

HostTensor read_tensor(FileReader& file, const HeaderEntry& entry, const std::string& where) {
  HostTensor tensor(entry.type);
  file.read(tensor.bytes(), tensor.num_bytes());
  const bool is_sound = entry.type.dtype != Dtype::boolean ||
                        std::all_of(tensor.bytes(), tensor.bytes() + tensor.num_bytes(), is_zero_or_one);
  SF_CHECK(is_sound, DataError, where, "tensor ", shown_name(entry.name), " ", entry.type.text(),
           " has a byte other than 0 and 1");
  return tensor;
}

/// Checks the tensors by the hashes that the file has, if any.
void check_hashes(const SafetensorsFile& content, TensorHashes hashes, const std::string& where) {
  for (const auto& [name, tensor] : content.tensors) {
    const auto hash = hashes.find(name);
    if (hash == hashes.end()) continue;
    SF_CHECK(hash->second == tensor_hash(tensor.view()), DataError, where, "tensor ", shown_name(name), " ",
             tensor.type().text(), " is damaged: it does not have the hash that was saved with it",
             hint("take another copy of the file; a program that means to change a tensor drops its hash, 'xxh3:' and "
                  "its name, from the metadata"));
    hashes.erase(hash);
  }
  SF_CHECK(hashes.empty(), DataError, where, "has a hash of tensor ", shown_name(hashes.begin()->first),
           ", which is not there");
}

}  // namespace

std::vector<NamedView> views_of(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedView> views;
  for (const auto& [name, tensor] : tensors) views.push_back({name, tensor.view()});
  return views;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors,
                       const Metadata& metadata) {
  std::vector<NamedType> types;
  for (const auto& [name, tensor] : tensors) types.push_back({name, tensor.type});
  check_names(types);
  std::map<std::string, TensorView> by_name;
  TensorHashes hashes;
  for (const auto& [name, tensor] : tensors) {
    check_booleans(name, tensor);
    hashes[name] = tensor_hash(tensor);
    by_name[name] = tensor;
  }
  types = in_file_order(std::move(types));
  const std::string beginning = beginning_of(types, hashed(hashes, metadata));
  AtomicFile file(path, "write_safetensors");
  file.write(beginning.data(), beginning.size());
  for (const auto& [name, type] : types) file.write(by_name.at(name).data, type.bytes());
  file.commit();
}

TensorHashes stream_safetensors(const FileSink& sink, const std::vector<NamedType>& tensors,
                                const std::function<TensorView(const std::string& name)>& tensor_of,
                                const Metadata& metadata) {
  check_names(tensors);
  const std::vector<NamedType> order = in_file_order(tensors);
  // Every hash has as many digits: the header that is written first is as long as the one that takes its place.
  TensorHashes hashes;
  for (const auto& [name, type] : order) hashes[name] = text_hash({});
  const std::string first = beginning_of(order, hashed(hashes, metadata));
  sink.append(first.data(), first.size());
  for (const auto& [name, type] : order) {
    const TensorView tensor = tensor_of(name);
    SF_CHECK(tensor.type == type, ArgumentError, "write_safetensors: tensor ", shown_name(name), " is ",
             tensor.type.text(), "; wanted ", type.text());
    check_booleans(name, tensor);
    hashes[name] = tensor_hash(tensor);
    sink.append(tensor.data, type.bytes());
  }
  const std::string beginning = beginning_of(order, hashed(hashes, metadata));
  sink.overwrite_beginning(beginning.data(), beginning.size());
  return hashes;
}

namespace {

SafetensorsFile read_from(FileReader& file, const std::string& where) {
  std::uint64_t header_bytes = 0;
  SF_CHECK(file.num_bytes() >= sizeof(header_bytes), DataError, where, "has ", file.num_bytes(),
           " bytes, fewer than the length of a header; is the file complete?");
  file.read(&header_bytes, sizeof(header_bytes));
  const std::uint64_t rest = file.num_bytes() - sizeof(header_bytes);
  SF_CHECK(header_bytes > 0 && header_bytes <= kMaxHeaderBytes, DataError, where, "declares a header of ", header_bytes,
           " bytes; wanted 1 to ", kMaxHeaderBytes, ". Is it a safetensors file?");
  SF_CHECK(header_bytes <= rest, DataError, where, "declares a header of ", header_bytes, " bytes but only ", rest,
           " follow; is the file complete?");
  std::string text(header_bytes, ' ');
  file.read(text.data(), text.size());

  SafetensorsHeader header = parse_safetensors_header(text, rest - header_bytes, where);
  TensorHashes hashes = take_hashes(header.metadata, where);
  SafetensorsFile content{.tensors = {}, .metadata = std::move(header.metadata)};
  content.tensors.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {
    HostTensor tensor = read_tensor(file, entry, where);
    content.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  check_hashes(content, std::move(hashes), where);
  return content;
}

}  // namespace

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  check_path(path, "read_safetensors");
  const std::string where = "read_safetensors: '" + path.string() + "': ";
  FileReader file(AT_FDCWD, path.c_str(), 0, where);
  return read_from(file, where);
}

SafetensorsFile read_safetensors_in(int folder, const std::string& name, const std::string& shown) {
  const std::string where = "read_safetensors: '" + shown + "': ";
  FileReader file(folder, name.c_str(), O_NOFOLLOW, where);
  return read_from(file, where);
}

}  // namespace sectionflow
