#include "sources/codecs.h"
#include "sources/missing_library.h"

#ifdef SF_HAS_PNG
#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>
#endif

namespace sectionflow {

#ifdef SF_HAS_PNG
namespace {

// libpng reports errors by longjmp. Jumps end in the three functions below that call setjmp, in which nothing has a
// destructor; everybody else sees what they return. Its simple interface, which needs no jumps, takes levels of 16 bits
// for linear light and applies what a file says of its gamma; levels are to be those of the file.

/// The bytes of a file that are not read yet, and what was wrong with those before them.
struct PngInput {
  std::string_view left;
  char text[128] = "";
};

extern "C" {
void sf_png_fail(png_structp png, png_const_charp text) {
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::snprintf(input->text, sizeof input->text, "%s", text);
  png_longjmp(png, 1);
}
void sf_png_warn(png_structp, png_const_charp) {}
void sf_png_read(png_structp png, png_bytep bytes, std::size_t num_bytes) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (input->left.size() < num_bytes) png_error(png, "it ends early");
  std::memcpy(bytes, input->left.data(), num_bytes);
  input->left.remove_prefix(num_bytes);
}
}

/// Owns: what libpng has taken for the picture.
struct Png {
  explicit Png(std::string_view file) : input{.left = file} {
    reader = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, sf_png_fail, sf_png_warn);
    if (reader != nullptr) info = png_create_info_struct(reader);
    if (info != nullptr) return;
    png_destroy_read_struct(&reader, nullptr, nullptr);
    throw std::bad_alloc();
  }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() { png_destroy_read_struct(&reader, &info, nullptr); }

  PngInput input;
  png_structp reader = nullptr;
  png_infop info = nullptr;
  int passes = 1;  // of an interlaced picture several
};

bool read_png_header(Png& png) {
  if (setjmp(png_jmpbuf(png.reader)) != 0) return false;
  png_set_read_fn(png.reader, &png.input, sf_png_read);
  png_read_info(png.reader, png.info);
  return true;
}

/// Every kind of picture as red, green and blue of 8 bits each.
bool begin_png_rows(Png& png) {
  if (setjmp(png_jmpbuf(png.reader)) != 0) return false;
  png_set_expand(png.reader);
  png_set_scale_16(png.reader);
  png_set_strip_alpha(png.reader);
  png_set_gray_to_rgb(png.reader);
  png.passes = png_set_interlace_handling(png.reader);
  png_read_update_info(png.reader, png.info);
  return true;
}

bool read_png_rows(Png& png, png_bytep pixels, std::size_t row_bytes, std::size_t num_rows) {
  if (setjmp(png_jmpbuf(png.reader)) != 0) return false;
  for (int pass = 0; pass < png.passes; ++pass) {
    for (std::size_t y = 0; y < num_rows; ++y) png_read_row(png.reader, pixels + y * row_bytes, nullptr);
  }
  // The checksum of the last bytes is behind them.
  png_read_end(png.reader, nullptr);
  return true;
}

[[noreturn]] void refuse_png(const Png& png, const std::string& where) {
  throw DataError(error_text_of(where, "the PNG file is damaged (", png.input.text, ")", hint("fetch it again")),
                  ErrorCode::damaged_image);
}

/// The luminance of JPEG (ITU-R BT.601).
std::uint8_t luminance(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16);
}

}  // namespace

HostTensor decode_png(std::string_view file, const ImageOptions& options, const std::string& where) {
  Png png(file);
  if (!read_png_header(png)) refuse_png(png, where);
  const png_uint_32 width = png_get_image_width(png.reader, png.info);
  const png_uint_32 height = png_get_image_height(png.reader, png.info);
  HostTensor picture = picture_of(width, height, width, height, options, where);
  if (!begin_png_rows(png)) refuse_png(png, where);
  const std::size_t row_bytes = std::size_t{3} * width;
  SF_CHECK(png_get_rowbytes(png.reader, png.info) == row_bytes, InternalError, where, "libpng gives rows of ",
           png_get_rowbytes(png.reader, png.info), " bytes; wanted ", row_bytes);
  std::uint8_t* const levels = picture.values<std::uint8_t>().data();
  if (options.channels == 3) {
    if (!read_png_rows(png, levels, row_bytes, height)) refuse_png(png, where);
    return picture;
  }
  std::vector<std::uint8_t> pixels(row_bytes * height);
  if (!read_png_rows(png, pixels.data(), row_bytes, height)) refuse_png(png, where);
  for (std::size_t i = 0; i < pixels.size() / 3; ++i) levels[i] = luminance(pixels.data() + 3 * i);
  return picture;
}
#else
HostTensor decode_png(std::string_view, const ImageOptions&, const std::string& where) {
  missing_library(where + "a PNG file", "libpng", "libpng-dev");
}
#endif

}  // namespace sectionflow
