#include "data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/whole_file.h"

namespace sectionflow {
namespace {

/// A file that reads as its expanded bytes, compressed or not.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path) : path_(path) {
    check_path(path, "read_idx");
    std::error_code ignored;
    SF_CHECK(std::filesystem::is_regular_file(path, ignored), DataError, "read_idx: '", path.string(),
             "' is missing or not a file; wanted an IDX file, gzip-compressed or plain");
    file_.reset(gzopen(path.c_str(), "rb"));
    SF_CHECK(file_ != nullptr, DataError, "read_idx: '", path.string(), "' cannot be opened; check its permissions");
  }

  /// Fills `bytes` as far as the file goes; returns how far.
  std::size_t read(std::byte* bytes, std::size_t num_bytes) {
    std::size_t done = 0;
    while (done < num_bytes) {
      const auto wanted = static_cast<unsigned>(std::min<std::size_t>(num_bytes - done, 1_GiB));
      const int got = gzread(file_.get(), bytes + done, wanted);
      check_stream(got < 0);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    // A stream that ends early counts as its bytes for gzread; only the error state tells.
    check_stream(false);
    return done;
  }

  void rewind() {
    SF_CHECK(gzrewind(file_.get()) == 0, DataError, "read_idx: '", path_.string(), "' cannot be rewound");
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };

  void check_stream(bool failed) const {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    SF_CHECK(!failed && (code == Z_OK || code == Z_STREAM_END), DataError, "read_idx: '", path_.string(),
             "' is damaged or truncated (", text, "); fetch it again");
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

std::uint32_t big_endian_u32(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

Dtype dtype_of_code(unsigned code, const std::string& where) {
  switch (code) {
    case 0x08:
      return Dtype::u8;
    case 0x0C:
      return Dtype::i32;
    case 0x0D:
      return Dtype::f32;
    case 0x0E:
      return Dtype::f64;
    case 0x09:
    case 0x0B:
      throw DataError(text_of(where, "element type ", code == 0x09 ? "i8" : "i16",
                              " is not supported; wanted u8, i32, f32 or f64"));
    default:
      throw DataError(
          text_of(where, "element type code ", code, " is unknown; wanted u8 (8), i32 (12), f32 (13) or f64 (14)"));
  }
}

TensorType read_header(GzipReader& reader, const std::string& where) {
  std::array<std::byte, 4> magic{};
  const std::size_t got = reader.read(magic.data(), magic.size());
  SF_CHECK(got == magic.size(), DataError, where, "ends after ", got,
           " bytes, within the magic number; is the download complete?");
  SF_CHECK(magic[0] == std::byte{0} && magic[1] == std::byte{0}, DataError, where,
           "does not begin with two zero bytes, so it is no IDX file; wanted magic 0x0000TTDD (type, dimensions)");
  const Dtype dtype = dtype_of_code(std::to_integer<unsigned>(magic[2]), where);
  const int rank = std::to_integer<int>(magic[3]);
  SF_CHECK(rank <= Shape::kMaxRank, DataError, where, "declares ", rank, " dimensions; at most ", Shape::kMaxRank,
           " are supported");
  std::vector<std::int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    std::array<std::byte, 4> dim{};
    SF_CHECK(reader.read(dim.data(), dim.size()) == dim.size(), DataError, where, "ends within dimension ", i, " of ",
             rank, "; is the download complete?");
    dims.push_back(big_endian_u32(dim.data()));
  }
  return {dtype, Shape(std::move(dims))};
}

/// Bytes of the elements, checked against the cap before anything trusts them.
std::size_t declared_bytes(const TensorType& type, std::size_t max_bytes, const std::string& where) {
  std::size_t bytes = 0;
  try {
    bytes = type.bytes();
  } catch (const ShapeError&) {
    throw DataError(
        text_of(where, "declares ", type.text(), ", whose size does not fit 64 bits; the header is damaged"));
  }
  SF_CHECK(bytes <= max_bytes, DataError, where, "declares ", type.text(), " of ", bytes_text(bytes), "; at most ",
           bytes_text(max_bytes), " are read, raise max_bytes if the file is right");
  return bytes;
}

/// Reads on to the end, but not past `wanted` bytes by more than one buffer, and throws unless the two agree.
void check_bytes_exist(GzipReader& reader, const TensorType& type, std::size_t wanted, const std::string& where) {
  std::vector<std::byte> buffer(64_KiB);
  std::size_t total = 0;
  while (total <= wanted) {
    const std::size_t got = reader.read(buffer.data(), buffer.size());
    total += got;
    if (got < buffer.size()) break;
  }
  SF_CHECK(total >= wanted, DataError, where, "declares ", type.text(), ", ", wanted, " bytes, but holds ", total,
           "; is the download complete?");
  SF_CHECK(total == wanted, DataError, where, "declares ", type.text(), ", ", wanted,
           " bytes, but more bytes follow; the header is damaged or the file is of another format");
}

template <class Word>
void reverse_bytes_of_each(std::byte* bytes, std::size_t num_bytes) {
  for (std::byte* word = bytes; word != bytes + num_bytes; word += sizeof(Word))
    std::reverse(word, word + sizeof(Word));
}

void to_host_order(HostTensor& tensor) {
  if constexpr (std::endian::native == std::endian::big) return;
  if (dtype_bytes(tensor.dtype()) == 4) reverse_bytes_of_each<std::uint32_t>(tensor.bytes(), tensor.num_bytes());
  if (dtype_bytes(tensor.dtype()) == 8) reverse_bytes_of_each<std::uint64_t>(tensor.bytes(), tensor.num_bytes());
}

}  // namespace

HostTensor read_idx(const std::filesystem::path& path, std::size_t max_bytes) {
  const std::string where = "read_idx: '" + path.string() + "' ";
  GzipReader reader(path);
  const TensorType type = read_header(reader, where);
  const std::size_t wanted = declared_bytes(type, max_bytes, where);
  check_bytes_exist(reader, type, wanted, where);

  reader.rewind();
  SF_CHECK(read_header(reader, where) == type, DataError, where, "changed while it was read");
  HostTensor tensor(type);
  SF_CHECK(reader.read(tensor.bytes(), wanted) == wanted, DataError, where, "changed while it was read");
  to_host_order(tensor);
  return tensor;
}

}  // namespace sectionflow
