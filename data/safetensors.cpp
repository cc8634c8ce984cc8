#include "data/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/whole_file.h"
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
  FileReader(const std::filesystem::path& path, const std::string& where) : where_(where) {
    // Without O_NONBLOCK the opening of a pipe that nobody writes would wait for ever.
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SF_CHECK(descriptor_ >= 0, DataError, where_, "cannot be opened (", std::strerror(errno), ")",
             hint("is the path right, and may this process read it?"));
    struct stat status {};
    const bool is_file = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!is_file) close(descriptor_);
    SF_CHECK(is_file, DataError, where_, "is no file, but a folder, device or pipe", hint("is the path right?"));
    num_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  ~FileReader() { close(descriptor_); }

  std::uint64_t num_bytes() const { return num_bytes_; }

  void read(void* bytes, std::size_t num_bytes) {
    char* position = static_cast<char*>(bytes);
    while (num_bytes > 0) {
      const ssize_t got = ::read(descriptor_, position, std::min<std::size_t>(num_bytes, 64_MiB));
      if (got < 0 && errno == EINTR) continue;
      SF_CHECK(got >= 0, DataError, where_, "cannot be read (", std::strerror(errno), ")");
      SF_CHECK(got > 0, DataError, where_, "became shorter while it was read");
      position += got;
      num_bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  const std::string& where_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
};

void check_views(const std::vector<NamedView>& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    SF_CHECK(name != kMetadataKey, ArgumentError, "write_safetensors: the name '", name, "' is reserved by the format");
    SF_CHECK(name.size() <= kMaxTensorNameBytes, ArgumentError, "write_safetensors: tensor ", shown_name(name),
             " has a name of ", name.size(), " bytes; wanted at most ", kMaxTensorNameBytes);
    SF_CHECK(names.insert(name).second, ArgumentError, "write_safetensors: two tensors have the name ",
             shown_name(name));
    if (tensor.type.dtype != Dtype::boolean) continue;
    const std::byte* bytes = tensor.as<std::byte>();
    SF_CHECK(std::all_of(bytes, bytes + tensor.type.bytes(), is_zero_or_one), ArgumentError,
             "write_safetensors: tensor ", shown_name(name), " ", tensor.type.text(), " has a byte other than 0 and 1");
  }
}

/// Falling element size, then name: each tensor begins at a multiple of its element size without padding.
std::vector<const NamedView*> in_file_order(const std::vector<NamedView>& tensors) {
  std::vector<const NamedView*> order;
  for (const NamedView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedView* a, const NamedView* b) {
    const std::size_t bytes_a = dtype_bytes(a->tensor.type.dtype), bytes_b = dtype_bytes(b->tensor.type.dtype);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a->name < b->name;
  });
  return order;
}

/// The metadata of a file: the caller's, and hashes.
Metadata hashed(const std::vector<NamedView>& tensors, Metadata metadata) {
  for (const auto& [key, value] : metadata) {
    SF_CHECK(!is_hash_key(key), ArgumentError, "write_safetensors: the key ", shown_name(key),
             " of the metadata is reserved for the hashes of tensors");
  }
  add_hashes(tensors, metadata);
  return metadata;
}

SafetensorsHeader header_of(const std::vector<const NamedView*>& order, Metadata metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = std::move(metadata)};
  std::uint64_t end = 0;
  for (const NamedView* view : order) {
    const std::uint64_t begin = end;
    end += view->tensor.type.bytes();
    header.entries.push_back({view->name, view->tensor.type, begin, end});
  }
  return header;
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
void check_hashes(const SafetensorsFile& content, std::map<std::string, std::string> hashes, const std::string& where) {
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
  check_views(tensors);
  const auto order = in_file_order(tensors);
  const std::string header = safetensors_header_text(header_of(order, hashed(tensors, metadata)));
  SF_CHECK(header.size() <= kMaxHeaderBytes, ArgumentError, "write_safetensors: the header for '", path.string(),
           "' takes ", header.size(), " bytes; the format allows ", kMaxHeaderBytes,
           ", store less metadata or fewer tensors");
  AtomicFile file(path, "write_safetensors");
  const std::uint64_t header_bytes = header.size();
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(header.data(), header.size());
  for (const NamedView* view : order) file.write(view->tensor.data, view->tensor.type.bytes());
  file.commit();
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  check_path(path, "read_safetensors");
  const std::string where = "read_safetensors: '" + path.string() + "': ";
  FileReader file(path, where);
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
  std::map<std::string, std::string> hashes = take_hashes(header.metadata, where);
  SafetensorsFile content{.tensors = {}, .metadata = std::move(header.metadata)};
  content.tensors.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {
    HostTensor tensor = read_tensor(file, entry, where);
    content.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  check_hashes(content, std::move(hashes), where);
  return content;
}

}  // namespace sectionflow
