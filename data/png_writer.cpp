#include "data/png_writer.h"

#include <zlib.h>

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

// By zlib, which the library needs anyway: a writer chooses one of the many forms that a PNG may have, so that this is
// all of it, while libpng is there only where images are read.

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xFF);
  return bytes;
}

std::string chunk(const char* name, std::string_view data) {
  const std::string body = std::string(name) + std::string(data);
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(sum));
}

std::string deflated(const std::string& bytes) {
  uLongf num_bytes = compressBound(static_cast<uLong>(bytes.size()));
  std::string result(num_bytes, '\0');
  const int done =
      compress2(reinterpret_cast<Bytef*>(result.data()), &num_bytes, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  if (done == Z_MEM_ERROR) throw std::bad_alloc();
  SF_CHECK(done == Z_OK, InternalError, "png_of: zlib refuses with ", done);
  result.resize(num_bytes);
  return result;
}

}  // namespace

std::string png_of(const HostTensor& image, const std::string& what) {
  constexpr std::int64_t kMostBytes = std::int64_t{128} << 20;  // well below what a chunk holds, and readers take
  const Shape& shape = image.shape();
  const bool is_image = image.dtype() == Dtype::u8 && shape.rank() == 3 && shape[2] >= 1 && shape[2] <= 4;
  SF_CHECK_CODE(is_image && shape[0] > 0 && shape[1] > 0, ArgumentError, ErrorCode::event_content, what, ": got ",
                image.type().text(), "; wanted an image u8 [height, width, channels] with 1 to 4 channels and a pixel",
                hint("numbers are brought to 0 to 255 first"));
  const std::int64_t height = shape[0], width = shape[1], row_bytes = checked_multiply(width, shape[2]);
  SF_CHECK_CODE(checked_multiply(height, checked_add(row_bytes, 1)) <= kMostBytes, ArgumentError,
                ErrorCode::event_content, what, ": an image ", image.type().text(), " of more than 128 MiB",
                hint("make it smaller"));
  std::string rows;
  rows.reserve(static_cast<std::size_t>(height * (row_bytes + 1)));
  const auto* pixels = reinterpret_cast<const char*>(image.bytes());
  for (std::int64_t row = 0; row < height; ++row) {
    rows += '\0';  // the filter of the row: none
    rows.append(pixels + row * row_bytes, static_cast<std::size_t>(row_bytes));
  }
  constexpr char kColourTypes[] = {0, 4, 2, 6};  // by channels
  std::string header = big_endian(static_cast<std::uint32_t>(width)) + big_endian(static_cast<std::uint32_t>(height));
  header += '\x08';  // bits a channel
  header += kColourTypes[shape[2] - 1];
  header += std::string(3, '\0');  // compression, filters, no interlacing
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", deflated(rows)) + chunk("IEND", {});
}

void write_png(const std::filesystem::path& path, const HostTensor& image) {
  write_whole_file(path, png_of(image, text_of("write_png '", path.string(), "'")), "write_png");
}

}  // namespace sectionflow
