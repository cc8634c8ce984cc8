#include "sources/codecs.h"
#include "sources/missing_library.h"

#ifdef SF_HAS_PNG
#include <png.h>

#include <cstdint>
#include <vector>
#endif

namespace sectionflow {

#ifdef SF_HAS_PNG
namespace {

/// Owns: what libpng has taken for the picture. Its simple interface catches libpng's jumps itself.
struct PngImage {
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  ~PngImage() { png_image_free(&image); }
  png_image image{};
};

[[noreturn]] void refuse_png(const png_image& image, const std::string& where) {
  throw DataError(error_text_of(where, "the PNG file is damaged (", image.message, ")", hint("fetch it again")),
                  ErrorCode::damaged_image);
}

}  // namespace

HostTensor decode_png(std::string_view file, const ImageOptions& options, const std::string& where) {
  PngImage png;
  png_image& image = png.image;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) refuse_png(image, where);
  HostTensor picture = picture_of(image.width, image.height, image.width, image.height, options, where);
  image.format = PNG_FORMAT_RGBA;
  // With alpha beside them colours are as the file has them; without it they would be mixed with a background.
  std::vector<std::uint8_t> pixels(std::size_t{4} * image.width * image.height);
  if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) refuse_png(image, where);
  std::uint8_t* to = picture.values<std::uint8_t>().data();
  for (std::size_t i = 0; i < pixels.size(); i += 4) {
    if (options.channels == 3) {
      for (std::size_t channel = 0; channel < 3; ++channel) *to++ = pixels[i + channel];
    } else {
      // The luminance of JPEG (ITU-R BT.601).
      *to++ = static_cast<std::uint8_t>(
          (19595U * pixels[i] + 38470U * pixels[i + 1] + 7471U * pixels[i + 2] + 32768U) >> 16);
    }
  }
  return picture;
}
#else
HostTensor decode_png(std::string_view, const ImageOptions&, const std::string& where) {
  missing_library(where + "a PNG file", "libpng", "libpng-dev");
}
#endif

}  // namespace sectionflow
