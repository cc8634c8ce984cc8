#include "data/png_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::uint32_t big_endian_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes.at(i));
  return value;
}

/// The chunks of a PNG by name, checked by their sums; written from the specification, not from the writer.
std::map<std::string, std::string> chunks_of(const std::string& png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::map<std::string, std::string> chunks;
  std::size_t at = 8;
  while (at < png.size()) {
    const std::size_t length = big_endian_at(png, at);
    const std::string body = png.substr(at + 4, 4 + length);
    EXPECT_EQ(big_endian_at(png, at + 8 + length),
              crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    chunks[body.substr(0, 4)] = body.substr(4);
    at += 12 + length;
  }
  EXPECT_EQ(at, png.size());
  return chunks;
}

/// The pixels of a PNG without filters.
std::string pixels_of(const std::string& data, std::size_t height, std::size_t row_bytes) {
  std::string rows(height * (row_bytes + 1) + 1, 'x');
  uLongf num_bytes = rows.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(rows.data()), &num_bytes, reinterpret_cast<const Bytef*>(data.data()),
                       data.size()),
            Z_OK);
  EXPECT_EQ(num_bytes, rows.size() - 1);
  std::string pixels;
  for (std::size_t row = 0; row < height; ++row) {
    EXPECT_EQ(rows[row * (row_bytes + 1)], 0);
    pixels += rows.substr(row * (row_bytes + 1) + 1, row_bytes);
  }
  return pixels;
}

TEST(Png, HoldsThePixelsOfEveryNumberOfChannels) {
  const std::map<std::int64_t, char> colour_types = {{1, 0}, {2, 4}, {3, 2}, {4, 6}};
  for (const auto& [channels, colour_type] : colour_types) {
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {200, 70}}) {
      HostTensor image(Dtype::u8, {height, width, channels});
      std::uint8_t level = 0;
      for (std::uint8_t& value : image.values<std::uint8_t>()) value = level = static_cast<std::uint8_t>(level * 5 + 3);
      const auto chunks = chunks_of(png_of(image, "image"));
      ASSERT_EQ(chunks.size(), 3U);
      const std::string& header = chunks.at("IHDR");
      ASSERT_EQ(header.size(), 13U);
      EXPECT_EQ(big_endian_at(header, 0), width);
      EXPECT_EQ(big_endian_at(header, 4), height);
      EXPECT_EQ(header.substr(8), std::string({8, colour_type, 0, 0, 0}));
      const std::string pixels(reinterpret_cast<const char*>(image.bytes()), image.num_bytes());
      EXPECT_EQ(
          pixels_of(chunks.at("IDAT"), static_cast<std::size_t>(height), static_cast<std::size_t>(width * channels)),
          pixels);
      EXPECT_EQ(chunks.at("IEND"), "");
    }
  }
}

TEST(Png, WhatIsNoImageIsRefused) {
  const auto refusal = [](HostTensor image) {
    return whole_error_text<ArgumentError>([&] { (void)png_of(image, "here"); });
  };
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{4, 4}, Shape{1, 4, 4, 3}, Shape{4, 4, 0}, Shape{4, 4, 5},
                             Shape{0, 4, 3}, Shape{4, 0, 3}}) {
    EXPECT_THAT(refusal(HostTensor(Dtype::u8, shape)), AllOf(HasSubstr("SF-E431"), HasSubstr("here: got u8")));
  }
  EXPECT_THAT(refusal(HostTensor(Dtype::f32, {4, 4, 3})), HasSubstr("brought to 0 to 255"));
  EXPECT_THAT(refusal(HostTensor(Dtype::u8, {8192, 8192, 3})), HasSubstr("128 MiB"));
}

TEST(Png, FilesAppearWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "image.png";
  HostTensor image(Dtype::u8, {2, 3, 3});
  std::fill(image.values<std::uint8_t>().begin(), image.values<std::uint8_t>().end(), std::uint8_t{7});
  write_png(path, image);
  EXPECT_EQ(read_whole_file(path, 1_MiB, "test"), png_of(image));
  EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                write_png(path, HostTensor(Dtype::f32, {2, 3, 3}));
              }),
              AllOf(HasSubstr("SF-E431"), HasSubstr("write_png '" + path.string() + "': got f32")));
  EXPECT_EQ(read_whole_file(path, 1_MiB, "test"), png_of(image));
  EXPECT_THAT(whole_error_text<DataError>([&] { write_png(folder.path() / "absent" / "image.png", image); }),
              HasSubstr("write_png"));
}

}  // namespace
}  // namespace sectionflow
