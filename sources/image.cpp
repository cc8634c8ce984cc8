#include "sources/image.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "sources/codecs.h"

namespace sectionflow {
namespace {

/// What others' pictures begin with; nullptr: none that is known.
const char* foreign_kind(std::string_view file) {
  if (file.starts_with("GIF87a") || file.starts_with("GIF89a")) return "GIF";
  if (file.starts_with("BM")) return "BMP";
  if (file.starts_with("RIFF") && file.substr(0, 12).ends_with("WEBP")) return "WebP";
  if (file.starts_with(std::string_view("II*\0", 4)) || file.starts_with(std::string_view("MM\0*", 4))) return "TIFF";
  return file.size() >= 12 && file.substr(4, 4) == "ftyp" ? "HEIF or AVIF" : nullptr;
}

}  // namespace

HostTensor picture_of(std::int64_t width, std::int64_t height, std::int64_t source_width, std::int64_t source_height,
                      const ImageOptions& options, const std::string& where) {
  // Sides are of 31 bits at most, so that their product fits.
  if (width <= 0 || height <= 0 || source_width > options.max_pixels / source_height) {
    throw DataError(error_text_of(where, "a picture of ", source_width, " x ", source_height, " pixels; at most ",
                                  options.max_pixels, " are decoded", hint("raise max_pixels if the file is right")),
                    ErrorCode::damaged_image);
  }
  return HostTensor(Dtype::u8, {height, width, options.channels});
}

HostTensor decode_image(std::string_view file, ImageOptions options, const std::string& where) {
  SF_CHECK(options.channels == 1 || options.channels == 3, ArgumentError, where, "channels is ", options.channels,
           "; wanted 1 or 3");
  SF_CHECK(options.min_side >= 0 && options.max_pixels > 0, ArgumentError, where, "min_side is ", options.min_side,
           " and max_pixels ", options.max_pixels, "; wanted 0 and 1 at least");
  if (is_jpeg(file)) return decode_jpeg(file, options, where);
  if (is_png(file)) return decode_png(file, options, where);
  const char* const kind = foreign_kind(file);
  if (kind != nullptr) {
    throw DataError(error_text_of(where, "it is a ", kind, " file; wanted a JPEG or a PNG file",
                                  hint("convert it to PNG, as ImageMagick does: convert FILE FILE.png")),
                    ErrorCode::damaged_image);
  }
  throw DataError(error_text_of(where, "its ", file.size(), " bytes begin neither as a JPEG nor as a PNG file",
                                hint("convert it to one of these")),
                  ErrorCode::damaged_image);
}

HostTensor decode_image(const HostTensor& file, ImageOptions options) {
  SF_CHECK(file.shape().rank() == 1, ShapeError, "decode_image: got ", file.type().text(),
           "; wanted a file's bytes, u8 [n]");
  const auto bytes = file.values<std::uint8_t>();
  return decode_image({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options);
}

HostTensor read_image(const std::filesystem::path& file, ImageOptions options) {
  return decode_image(read_whole_file(file, 256_MiB, "read_image"), options,
                      text_of("read_image: '", file.string(), "': "));
}

bool is_jpeg(std::string_view file) {
  return file.starts_with("\xff\xd8\xff");
}
bool is_png(std::string_view file) {
  return file.starts_with("\x89PNG\r\n\x1a\n");
}

}  // namespace sectionflow
