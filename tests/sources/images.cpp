#include <gtest/gtest.h>
// jpeglib.h takes these for granted.
#include <jpeglib.h>
#include <png.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "sources/image.h"
#include "sources/image_folder.h"
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
}

TEST(ImageFolder, ClassesAreFoldersByName) {
  const TemporaryFolder folder;
  for (const char* name : {"dog", "cat"}) std::filesystem::create_directory(folder.path() / name);
  const HostTensor first = some_picture(3, 4, 3), second = some_picture(5, 2, 3);
  folder.file("dog/b.PNG", png_of(first));
  folder.file("cat/a.png", png_of(second));
  folder.file("cat/0.jpeg", jpeg_of(first, 90));
  folder.file("cat/notes.txt", "none");
  folder.file("readme.png", "none");
  const ImageFolder found = image_folder(folder.path());
  EXPECT_EQ(found.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(found.files, (std::vector<std::string>{"cat/0.jpeg", "cat/a.png", "dog/b.PNG"}));
  ASSERT_EQ(found.source->size(), 3);
  EXPECT_TRUE(bitwise_equal(found.source->at(2).at("image"), first));
  EXPECT_EQ(found.source->at(2).at("label").item<std::int32_t>(), 1);
  EXPECT_TRUE(bitwise_equal(found.source->at(1).at("image"), second));
  EXPECT_THROW(found.source->at(3), ArgumentError);
  const ImageFolder files = image_folder(folder.path(), {.decode = false});
  EXPECT_TRUE(bitwise_equal(decode_image(files.source->at(1).at("image")), second));
  folder.file("cat/a.png", png_of(second).substr(0, 60));
  EXPECT_TRUE(contains(error_text<DataError>([&] { found.source->at(1); }), "cat/a.png': the PNG file is damaged"));
  std::filesystem::remove(folder.path() / "cat/a.png");
  EXPECT_THROW(found.source->at(1), DataError);
}

TEST(ImageFolder, WithoutFoldersOrFilesIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(image_folder(folder.path()), DataError);
  EXPECT_THROW(image_folder(folder.path() / "none"), DataError);
  std::filesystem::create_directory(folder.path() / "class");
  EXPECT_THROW(image_folder(folder.path()), DataError);
}

TEST(ImageList, FilesAndLabelsComeInTheListsOrder) {
  const TemporaryFolder folder;
  const HostTensor picture = some_picture(3, 4, 3);
  folder.file("with space.png", png_of(picture));
  const auto list = folder.file("list.txt", "with space.png 7\r\n\nwith space.png\t0");
  const ImageFolder found = image_list(list, folder.path());
  ASSERT_EQ(found.source->size(), 2);
  EXPECT_TRUE(bitwise_equal(found.source->at(0).at("image"), picture));
  EXPECT_EQ(found.source->at(0).at("label").item<std::int32_t>(), 7);
  EXPECT_EQ(found.source->at(1).at("label").item<std::int32_t>(), 0);
  for (const char* line :
       {"a.png", "a.png -1", "a.png 1x", "7", "../a.png 1", "/a.png 1", "b/../../a.png 1", "a.png 99999999999"}) {
    const auto wrong = folder.file("wrong.txt", std::string("a.png 1\n") + line + "\n");
    EXPECT_TRUE(contains(error_text<DataError>([&] { image_list(wrong, folder.path()); }), "line 2: ")) << line;
  }
  EXPECT_THROW(image_list(folder.file("empty.txt", "\n"), folder.path()), DataError);
}

}  // namespace
}  // namespace sectionflow
