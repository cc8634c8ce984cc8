#include <gtest/gtest.h>
// jpeglib.h takes these for granted.
#include <jpeglib.h>
#include <png.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/whole_file.h"
#include "sources/image.h"
#include "tests/sources/pictures.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::expect_read_or_refused;
using testing_support::jpeg_of;
using testing_support::png_of;
using testing_support::some_picture;

TEST(DecodeImage, PngGivesThePixelsThatWereSaved) {
  const HostTensor picture = some_picture(5, 7, 3);
  EXPECT_TRUE(bitwise_equal(decode_image(png_of(picture)), picture));
  const HostTensor grey = some_picture(4, 9, 1);
  EXPECT_TRUE(bitwise_equal(decode_image(png_of(grey), {.channels = 1}), grey));
  const HostTensor as_colour = decode_image(png_of(grey));
  EXPECT_EQ(as_colour.shape(), (Shape{4, 9, 3}));
  for (std::size_t i = 0; i < 36; ++i)
    ASSERT_EQ(as_colour.values<std::uint8_t>()[3 * i + 1], grey.values<std::uint8_t>()[i]);
}

/// How a PNG file says its levels.
struct PngKind {
  int bits = 8;
  int color = PNG_COLOR_TYPE_GRAY;
  int interlacing = PNG_INTERLACE_NONE;
  double gamma = 0;  // above 0: what the file says of it
};

/// A picture of one row after the other, of bytes as the kind has them; of a palette white, red and half green.
std::string png_of_rows(const PngKind& kind, png_uint_32 width, const std::vector<std::string>& rows) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, width, static_cast<png_uint_32>(rows.size()), kind.bits, kind.color, kind.interlacing,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (kind.color == PNG_COLOR_TYPE_PALETTE) {
    const png_color palette[] = {{255, 255, 255}, {255, 0, 0}, {0, 128, 0}};
    const png_byte alpha[] = {255, 0, 7};
    png_set_PLTE(png, info, palette, 3);
    png_set_tRNS(png, info, alpha, 3, nullptr);
  }
  if (kind.gamma > 0) png_set_gAMA(png, info, kind.gamma);
  std::vector<png_bytep> pointers;
  std::vector<std::string> copies = rows;
  for (std::string& row : copies) pointers.push_back(reinterpret_cast<png_bytep>(row.data()));
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::vector<int> levels_of(const std::string& file, int channels = 1) {
  const HostTensor picture = decode_image(file, {.channels = channels});
  const auto levels = picture.values<std::uint8_t>();
  return {levels.begin(), levels.end()};
}

TEST(DecodeImage, PngOf16BitsGivesItsLevelsRoundedTo8) {
  const std::string grey("\x00\x00\x40\x40\x80\x80\xff\xff\x40\xff", 10);
  for (const double gamma : {0.0, 1.0, 0.45455}) {
    const std::string file = png_of_rows({.bits = 16, .gamma = gamma}, 5, {grey});
    EXPECT_EQ(levels_of(file), (std::vector<int>{0, 64, 128, 255, 65})) << gamma;
  }
  const std::string colour("\x00\x00\x40\x40\x80\x80\xff\xff", 8);
  EXPECT_EQ(levels_of(png_of_rows({.bits = 16, .color = PNG_COLOR_TYPE_RGBA}, 1, {colour}), 3),
            (std::vector<int>{0, 64, 128}));
}

TEST(DecodeImage, PngGivesTheLevelsOfTheFileWhateverItSaysOfItsGamma) {
  for (const double gamma : {1.0, 0.3, 0.45455}) {
    EXPECT_EQ(levels_of(png_of_rows({.gamma = gamma}, 4, {std::string("\x00\x40\x80\xff", 4)})),
              (std::vector<int>{0, 64, 128, 255}))
        << gamma;
  }
}

TEST(DecodeImage, PngOfEveryKindGivesRedGreenAndBlue) {
  EXPECT_EQ(levels_of(png_of_rows({.bits = 1}, 3, {"\xa0"})), (std::vector<int>{255, 0, 255}));
  EXPECT_EQ(levels_of(png_of_rows({.bits = 4}, 2, {"\x1f"})), (std::vector<int>{17, 255}));
  const std::string with_alpha("\x10\x00\x20\xff", 4);
  EXPECT_EQ(levels_of(png_of_rows({.color = PNG_COLOR_TYPE_GRAY_ALPHA}, 2, {with_alpha})), (std::vector<int>{16, 32}));
  EXPECT_EQ(levels_of(png_of_rows({.bits = 2, .color = PNG_COLOR_TYPE_PALETTE}, 3, {"\x18"}), 3),
            (std::vector<int>{255, 255, 255, 255, 0, 0, 0, 128, 0}));
  std::vector<std::string> rows;
  std::vector<int> wanted;
  for (int y = 0; y < 9; ++y) {
    std::string& row = rows.emplace_back();
    for (int x = 0; x < 10; ++x) {
      row += static_cast<char>(20 * y + x);
      wanted.push_back(20 * y + x);
    }
  }
  EXPECT_EQ(levels_of(png_of_rows({.interlacing = PNG_INTERLACE_ADAM7}, 10, rows)), wanted);
}

TEST(DecodeImage, JpegGivesAboutThePixelsThatWereSaved) {
  const HostTensor picture = some_picture(40, 56, 3);
  const HostTensor decoded = decode_image(jpeg_of(picture, 95));
  ASSERT_EQ(decoded.shape(), picture.shape());
  double difference = 0;
  for (std::size_t i = 0; i < picture.num_bytes(); ++i)
    difference += std::abs(int{decoded.values<std::uint8_t>()[i]} - int{picture.values<std::uint8_t>()[i]});
  EXPECT_LT(difference / static_cast<double>(picture.num_bytes()), 6.0);
  EXPECT_EQ(decode_image(jpeg_of(picture, 95), {.channels = 1}).shape(), (Shape{40, 56, 1}));
}

TEST(DecodeImage, JpegIsDecodedSmallerAsLongAsBothSidesKeepWhatIsWanted) {
  const std::string file = jpeg_of(some_picture(64, 100, 3), 90);
  EXPECT_EQ(decode_image(file, {.min_side = 64}).shape(), (Shape{64, 100, 3}));
  EXPECT_EQ(decode_image(file, {.min_side = 32}).shape(), (Shape{32, 50, 3}));
  EXPECT_EQ(decode_image(file, {.min_side = 9}).shape(), (Shape{16, 25, 3}));
  EXPECT_EQ(decode_image(file, {.min_side = 1}).shape(), (Shape{8, 13, 3}));
}

TEST(DecodeImage, TooManyPixelsAreRefusedBeforeTheyAreDecoded) {
  for (const std::string& file : {jpeg_of(some_picture(20, 30, 3), 90), png_of(some_picture(20, 30, 3))}) {
    EXPECT_EQ(decode_image(file, {.max_pixels = 600}).shape(), (Shape{20, 30, 3}));
    const std::string text = whole_error_text<DataError>([&] { decode_image(file, {.max_pixels = 599}, "'x.jpg': "); });
    EXPECT_TRUE(contains(text, "SF-E409 DataError: 'x.jpg': a picture of 30 x 20 pixels; at most 599")) << text;
  }
}

TEST(DecodeImage, AJpegOfFourInksGivesTheLightThatTheyLeave) {
  // One level for each ink: what JPEG keeps of it is exact to a step or two.
  const std::array<int, 4> inks = {40, 120, 200, 180};
  HostTensor picture(Dtype::u8, {16, 16, 4});
  for (std::size_t i = 0; i < picture.num_bytes(); ++i)
    picture.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(inks[i % 4]);
  for (const bool by_adobe : {true, false}) {
    const std::string file = jpeg_of(picture, 100, by_adobe);
    std::array<double, 3> wanted{};
    for (std::size_t c = 0; c < 3; ++c)
      wanted[c] = by_adobe ? inks[c] * inks[3] / 255.0 : (255 - inks[c]) * (255 - inks[3]) / 255.0;
    const HostTensor colours = decode_image(file), grey = decode_image(file, {.channels = 1});
    ASSERT_EQ(colours.shape(), (Shape{16, 16, 3}));
    ASSERT_EQ(grey.shape(), (Shape{16, 16, 1}));
    for (std::size_t i = 0; i < colours.num_bytes(); ++i) {
      ASSERT_NEAR(std::as_const(colours).values<std::uint8_t>()[i], wanted[i % 3], 2) << by_adobe << " " << i;
    }
    const double level = 0.299 * wanted[0] + 0.587 * wanted[1] + 0.114 * wanted[2];
    EXPECT_NEAR(std::as_const(grey).values<std::uint8_t>()[0], level, 2);
  }
  // The whole of it is read, at an eighth of its size too.
  EXPECT_EQ(decode_image(jpeg_of(some_picture(64, 80, 4), 90), {.min_side = 8}).shape(), (Shape{8, 10, 3}));
}

TEST(DecodeImage, PicturesOfOtherKindsAreNamed) {
  using namespace std::string_literals;
  const std::map<std::string, std::string> kinds = {{"GIF89a and so on", "GIF"},
                                                    {"BM and so on", "BMP"},
                                                    {"RIFF\x10\0\0\0WEBPVP8 "s, "WebP"},
                                                    {"II*\0and so on"s, "TIFF"},
                                                    {"\0\0\0\x18"
                                                     "ftypheic"s,
                                                     "HEIF or AVIF"}};
  for (const auto& [file, kind] : kinds) {
    const std::string text = whole_error_text<DataError>([&, &file = file] { decode_image(file); });
    EXPECT_TRUE(contains(text, "SF-E409")) << text;
    EXPECT_TRUE(contains(text, "it is a " + kind + " file; wanted a JPEG or a PNG file")) << text;
    EXPECT_TRUE(contains(text, "convert it to PNG")) << text;
  }
}

TEST(ReadImage, GivesWhatTheFileHoldsAndNamesItWhereThatIsNoPicture) {
  const TemporaryFolder folder;
  const HostTensor picture = some_picture(5, 7, 3);
  write_whole_file(folder.path() / "a.png", png_of(picture), "test");
  EXPECT_TRUE(bitwise_equal(read_image(folder.path() / "a.png"), picture));
  EXPECT_EQ(read_image(folder.path() / "a.png", {.channels = 1}).shape(), (Shape{5, 7, 1}));
  write_whole_file(folder.path() / "b.png", "no picture", "test");
  for (const char* const name : {"b.png", "absent.png"}) {
    try {
      (void)read_image(folder.path() / name);
      ADD_FAILURE() << name << " was read";
    } catch (const DataError& error) {
      EXPECT_TRUE(contains(error.what(), name)) << error.what();
    }
  }
}

TEST(DecodeImage, OtherBytesAndOptionsAreRefused) {
  EXPECT_THROW(decode_image(""), DataError);
  EXPECT_THROW(decode_image("GIF89a and so on"), DataError);
  EXPECT_THROW(decode_image(png_of(some_picture(2, 2, 3)), {.channels = 2}), ArgumentError);
  EXPECT_THROW(decode_image(png_of(some_picture(2, 2, 3)), {.max_pixels = 0}), ArgumentError);
  EXPECT_THROW(decode_image(HostTensor(Dtype::u8, {2, 2})), ShapeError);
  EXPECT_THROW(decode_image(HostTensor(Dtype::f32, {2})), ArgumentError);
}

TEST(DecodeImage, EveryTruncationIsRefusedAndFlippedBitsAreReadOrRefused) {
  const std::string jpeg = jpeg_of(some_picture(9, 8, 3), 50), png = png_of(some_picture(5, 4, 3));
  for (const std::string& file : {jpeg, png}) {
    expect_read_or_refused(file, [](const std::string& damaged) { decode_image(damaged, {.max_pixels = 1 << 22}); });
  }
  // Without its last marker a JPEG has all of its pixels.
  for (std::size_t length = 0; length + 2 < jpeg.size(); ++length)
    EXPECT_THROW(decode_image(jpeg.substr(0, length)), DataError) << length;
  for (std::size_t length = 0; length < png.size(); ++length)
    EXPECT_THROW(decode_image(png.substr(0, length)), DataError) << length;
}

}  // namespace
}  // namespace sectionflow
