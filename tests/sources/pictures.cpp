#include "tests/sources/pictures.h"

#include <png.h>

#include <cmath>
// jpeglib.h takes these for granted.
#include <jpeglib.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace sectionflow::testing_support {

HostTensor some_picture(std::int64_t height, std::int64_t width, std::int64_t channels) {
  HostTensor picture(Dtype::u8, {height, width, channels});
  std::uint8_t* to = picture.values<std::uint8_t>().data();
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      for (std::int64_t channel = 0; channel < channels; ++channel)
        *to++ =
            static_cast<std::uint8_t>(128 + 100 * std::sin(0.05 * static_cast<double>(row + 2 * column + 9 * channel)));
    }
  }
  return picture;
}

std::string png_of(const HostTensor& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(picture.shape()[0]);
  image.width = static_cast<png_uint_32>(picture.shape()[1]);
  image.format = picture.shape()[2] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t num_bytes = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &num_bytes, 0, picture.bytes(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  bytes.resize(num_bytes);
  return bytes;
}

std::string jpeg_of(const HostTensor& picture, int quality, bool by_adobe) {
  jpeg_compress_struct compress{};
  jpeg_error_mgr errors{};
  compress.err = jpeg_std_error(&errors);
  jpeg_create_compress(&compress);
  unsigned char* bytes = nullptr;
  unsigned long num_bytes = 0;
  jpeg_mem_dest(&compress, &bytes, &num_bytes);
  compress.image_height = static_cast<JDIMENSION>(picture.shape()[0]);
  compress.image_width = static_cast<JDIMENSION>(picture.shape()[1]);
  compress.input_components = static_cast<int>(picture.shape()[2]);
  compress.in_color_space = compress.input_components == 4   ? JCS_CMYK
                            : compress.input_components == 3 ? JCS_RGB
                                                             : JCS_GRAYSCALE;
  jpeg_set_defaults(&compress);
  if (compress.input_components == 4) compress.write_Adobe_marker = by_adobe ? TRUE : FALSE;
  jpeg_set_quality(&compress, quality, TRUE);
  jpeg_start_compress(&compress, TRUE);
  auto* pixels = const_cast<unsigned char*>(picture.values<std::uint8_t>().data());
  while (compress.next_scanline < compress.image_height) {
    JSAMPROW row = pixels + std::size_t{compress.next_scanline} * compress.image_width *
                                static_cast<std::size_t>(compress.input_components);
    jpeg_write_scanlines(&compress, &row, 1);
  }
  jpeg_finish_compress(&compress);
  jpeg_destroy_compress(&compress);
  std::string file(reinterpret_cast<const char*>(bytes), num_bytes);
  std::free(bytes);
  return file;
}

}  // namespace sectionflow::testing_support
