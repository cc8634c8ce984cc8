#include "sources/codecs.h"
#include "sources/missing_library.h"

#ifdef SF_HAS_JPEG
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#include <vector>
#endif

namespace sectionflow {

#ifdef SF_HAS_JPEG
namespace {

// libjpeg reports errors by longjmp. Jumps begin in its own code and end in the three functions below that call setjmp,
// in which nothing has a destructor; everybody else sees what they return.

struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg knows the whole by it
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

/// Pictures that come in passes may have as many of them as their bytes allow, each as long as the whole.
constexpr int kMaxJpegScans = 200;

extern "C" {
void sf_jpeg_fail(j_common_ptr common) {
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  errors->manager.format_message(common, errors->text);
  std::longjmp(errors->jump, 1);
}

/// What libjpeg would pass over by inventing pixels is an error.
void sf_jpeg_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  switch (common->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
      sf_jpeg_fail(common);
      break;
    default:
      break;
  }
}

void sf_jpeg_progress(j_common_ptr common) {
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= kMaxJpegScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans", kMaxJpegScans);
  std::longjmp(errors->jump, 1);
}
}

/// Owns: what libjpeg has taken for the picture.
struct Jpeg {
  Jpeg() {
    decompress.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = sf_jpeg_fail;
    errors.manager.emit_message = sf_jpeg_message;
    errors.text[0] = '\0';
    progress.progress_monitor = sf_jpeg_progress;
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ~Jpeg() { jpeg_destroy_decompress(&decompress); }

  jpeg_decompress_struct decompress{};
  JpegErrors errors{};
  jpeg_progress_mgr progress{};
};

bool read_jpeg_header(Jpeg& jpeg, const unsigned char* bytes, unsigned long num_bytes) {
  if (setjmp(jpeg.errors.jump) != 0) return false;
  jpeg_create_decompress(&jpeg.decompress);
  jpeg.decompress.progress = &jpeg.progress;
  jpeg_mem_src(&jpeg.decompress, bytes, num_bytes);
  return jpeg_read_header(&jpeg.decompress, TRUE) == JPEG_HEADER_OK;
}

bool find_jpeg_size(Jpeg& jpeg) {
  if (setjmp(jpeg.errors.jump) != 0) return false;
  jpeg_calc_output_dimensions(&jpeg.decompress);
  return true;
}

/// The light that inks leave of white, for each pixel. Programs of Adobe's, which say so in the file, write the light
/// of each ink and not its amount. A grey level is weighed as libjpeg weighs colours.
void mix_inks(const unsigned char* inks, std::size_t count, bool is_inverted, int channels, unsigned char* pixels) {
  const auto light = [&](unsigned char ink) { return is_inverted ? ink : 255 - ink; };
  for (std::size_t i = 0; i < count; ++i, inks += 4, pixels += channels) {
    const int black = light(inks[3]);
    const auto level = [&](int ink) { return (light(inks[ink]) * black + 127) / 255; };
    const int red = level(0), green = level(1), blue = level(2);
    if (channels == 1) {
      pixels[0] = static_cast<unsigned char>((299 * red + 587 * green + 114 * blue + 500) / 1000);
      continue;
    }
    pixels[0] = static_cast<unsigned char>(red);
    pixels[1] = static_cast<unsigned char>(green);
    pixels[2] = static_cast<unsigned char>(blue);
  }
}

/// `inks`: of one row, where the picture is printed with four; null: it has colours or grey levels.
bool read_jpeg_rows(Jpeg& jpeg, unsigned char* pixels, int channels, unsigned char* inks) {
  if (setjmp(jpeg.errors.jump) != 0) return false;
  jpeg_decompress_struct& decompress = jpeg.decompress;
  jpeg_start_decompress(&decompress);
  const std::size_t row_bytes = std::size_t{decompress.output_width} * static_cast<std::size_t>(channels);
  while (decompress.output_scanline < decompress.output_height) {
    unsigned char* const to = pixels + decompress.output_scanline * row_bytes;
    JSAMPROW row = inks != nullptr ? inks : to;
    jpeg_read_scanlines(&decompress, &row, 1);
    if (inks != nullptr) mix_inks(inks, decompress.output_width, decompress.saw_Adobe_marker != 0, channels, to);
  }
  jpeg_finish_decompress(&jpeg.decompress);
  return true;
}

[[noreturn]] void refuse_jpeg(const Jpeg& jpeg, const std::string& where) {
  throw DataError(error_text_of(where, "the JPEG file is damaged, or of a kind that is not decoded (", jpeg.errors.text,
                                ")", hint("fetch it again, or convert it")),
                  ErrorCode::damaged_image);
}

/// The largest of 1, 2, 4 and 8 by which both sides may be divided.
unsigned jpeg_scale(const jpeg_decompress_struct& decompress, std::int64_t min_side) {
  unsigned scale = 1;
  const auto keeps_side = [&](std::int64_t side, unsigned by) { return (side + by - 1) / by >= min_side; };
  while (min_side > 0 && scale < 8 && keeps_side(decompress.image_width, 2 * scale) &&
         keeps_side(decompress.image_height, 2 * scale))
    scale *= 2;
  return scale;
}

}  // namespace

HostTensor decode_jpeg(std::string_view file, const ImageOptions& options, const std::string& where) {
  Jpeg jpeg;
  jpeg_decompress_struct& decompress = jpeg.decompress;
  if (!read_jpeg_header(jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size()))
    refuse_jpeg(jpeg, where);
  decompress.scale_num = 1;
  decompress.scale_denom = jpeg_scale(decompress, options.min_side);
  const bool has_inks = decompress.jpeg_color_space == JCS_CMYK || decompress.jpeg_color_space == JCS_YCCK;
  decompress.out_color_space = has_inks ? JCS_CMYK : options.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  if (!find_jpeg_size(jpeg)) refuse_jpeg(jpeg, where);
  HostTensor picture = picture_of(decompress.output_width, decompress.output_height, decompress.image_width,
                                  decompress.image_height, options, where);
  std::vector<unsigned char> inks(has_inks ? std::size_t{4} * decompress.output_width : 0);
  unsigned char* const to = picture.values<std::uint8_t>().data();
  if (!read_jpeg_rows(jpeg, to, options.channels, has_inks ? inks.data() : nullptr)) refuse_jpeg(jpeg, where);
  return picture;
}
#else
HostTensor decode_jpeg(std::string_view, const ImageOptions&, const std::string& where) {
  missing_library(where + "a JPEG file", "libjpeg-turbo", "libjpeg-dev");
}
#endif

}  // namespace sectionflow
