#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// What decode_image gives, and the most that it takes.
struct ImageOptions {
  int channels = 3;  ///< 3: red, green, blue; 1: grey
  /// Where above 0 a JPEG may be decoded at a half, a quarter or an eighth of its size, as long as both sides keep so
  /// many pixels: faster by as much. What is to be cropped to 224 pixels afterwards loses nothing by 224.
  std::int64_t min_side = 0;
  /// A file of more pixels is refused before memory is taken, of which decoding needs up to 16 bytes a pixel.
  std::int64_t max_pixels = std::int64_t{1} << 26;
};

/// The picture in a JPEG or PNG file, told by its first bytes: u8 [H, W, channels]. Transparency is dropped. A PNG
/// gives the levels that it has, those of 16 bits rounded to 8, whatever it says of their gamma. A JPEG of four inks
/// (CMYK) gives the light that they leave, by no profile of a printer. A JPEG may be turned by a note in it (Exif);
/// that is not looked at. `where` begins every error. Threads: any number at once. Throws: DataError (SF-E409) for
/// bytes that are neither, damaged or cut off, and for too many pixels; DataError (SF-E408) where libjpeg-turbo or
/// libpng is absent; ArgumentError for options outside of their range.
HostTensor decode_image(std::string_view file, ImageOptions options = {}, const std::string& where = "decode_image: ");
/// The same of a tensor u8 [n] with a file's bytes, as records and image folders give them. Throws: ShapeError or
/// ArgumentError for another tensor.
HostTensor decode_image(const HostTensor& file, ImageOptions options = {});

/// The picture in a file of 256 MiB at most, as decode_image gives it. Throws: as decode_image, with the file's name;
/// DataError for a file that is absent, larger, or cannot be read (SF-E411 where that may pass).
HostTensor read_image(const std::filesystem::path& file, ImageOptions options = {});

/// Whether a file begins as a JPEG does.
bool is_jpeg(std::string_view file);
/// Whether a file begins as a PNG does.
bool is_png(std::string_view file);

}  // namespace sectionflow
