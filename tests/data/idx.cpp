#include "data/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <string_view>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace std::string_literals;

std::string big_endian(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = num_bytes - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i) & 255);
  return bytes;
}

std::string idx_header(int code, const std::vector<std::uint32_t>& dims) {
  std::string header = "\0\0"s + static_cast<char>(code) + static_cast<char>(dims.size());
  for (std::uint32_t dim : dims) header += big_endian(dim, 4);
  return header;
}

const std::string& small_idx() {
  static const std::string bytes = idx_header(0x08, {2, 3}) + "\1\2\3\4\5\xff";
  return bytes;
}

std::filesystem::path compressed(const TemporaryFolder& folder, const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = folder.path() / name;
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

std::string idx_refusal(const std::filesystem::path& path, std::size_t max_bytes = kIdxMaxBytes) {
  const std::string text = error_text<DataError>([&] { read_idx(path, max_bytes); });
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  return text;
}

TEST(Idx, PlainAndCompressedFilesReadTheSame) {
  const TemporaryFolder folder;
  const HostTensor plain = read_idx(folder.file("plain", small_idx()));
  EXPECT_TRUE(bitwise_equal(plain, HostTensor::of<std::uint8_t>({2, 3}, {1, 2, 3, 4, 5, 255})));
  EXPECT_TRUE(bitwise_equal(plain, read_idx(compressed(folder, "small.gz", small_idx()))));
}

TEST(Idx, WideElementsComeInHostOrder) {
  const TemporaryFolder folder;
  const HostTensor ints =
      read_idx(folder.file("i32", idx_header(0x0C, {2}) + big_endian(0x01020304, 4) + big_endian(0xFFFFFFFF, 4)));
  EXPECT_TRUE(bitwise_equal(ints, HostTensor::of<std::int32_t>({2}, {0x01020304, -1})));
  const HostTensor floats = read_idx(folder.file("f32", idx_header(0x0D, {1}) + big_endian(0x3FC00000, 4)));
  EXPECT_TRUE(bitwise_equal(floats, HostTensor::of<float>({1}, {1.5F})));
  const HostTensor doubles = read_idx(folder.file("f64", idx_header(0x0E, {1}) + big_endian(0xC000000000000000, 8)));
  EXPECT_TRUE(bitwise_equal(doubles, HostTensor::of<double>({1}, {-2.0})));
}

TEST(Idx, ScalarsAndEmptyTensorsAreRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_idx(folder.file("scalar", idx_header(0x08, {}) + "\7")).item<std::uint8_t>(), 7);
  EXPECT_EQ(read_idx(folder.file("empty", idx_header(0x08, {0, 5}))).shape(), (Shape{0, 5}));
}

TEST(Idx, TruncatedFileIsRefusedNamingTheFile) {
  const TemporaryFolder folder;
  for (std::size_t length = 0; length < small_idx().size(); ++length) {
    idx_refusal(folder.file("cut", std::string_view(small_idx()).substr(0, length)));
  }
}

TEST(Idx, TruncatedCompressedFileIsRefusedNamingTheFile) {
  const TemporaryFolder folder;
  const std::string whole = bytes_of_file(compressed(folder, "whole.gz", small_idx()));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    idx_refusal(folder.file("cut.gz", std::string_view(whole).substr(0, length)));
  }
}

TEST(Idx, FlippedBitOfCompressedDataIsRefusedOrChangesNothing) {
  const TemporaryFolder folder;
  const std::string whole = bytes_of_file(compressed(folder, "whole.gz", small_idx()));
  const HostTensor wanted = read_idx(folder.file("plain", small_idx()));
  int unchanged = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto path = folder.file("damaged.gz", damaged);
    try {
      EXPECT_TRUE(bitwise_equal(read_idx(path), wanted)) << "bit " << bit;
      ++unchanged;
    } catch (const DataError&) {
    }
  }
  // The time, level and system in gzip's header, and the bits that fill up the last byte of the compressed data.
  EXPECT_LE(unchanged, 8 * 7 + 7);
}

TEST(Idx, TrailingBytesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(idx_refusal(folder.file("long", small_idx() + "x")).find("more bytes follow"), std::string::npos);
  idx_refusal(compressed(folder, "long.gz", small_idx() + "x"));
}

TEST(Idx, HugeDeclaredSizeIsRefusedBeforeAllocation) {
  const TemporaryFolder folder;
  const std::string text = idx_refusal(folder.file("huge", idx_header(0x08, {0x40000000, 2}) + "x"));
  EXPECT_NE(text.find("declares u8[1073741824,2]"), std::string::npos) << text;
  EXPECT_NE(text.find("holds 1"), std::string::npos) << text;
}

TEST(Idx, OverflowOfTheDeclaredSizeIsRefused) {
  const TemporaryFolder folder;
  const std::string text = idx_refusal(folder.file("overflow", idx_header(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})));
  EXPECT_NE(text.find("does not fit 64 bits"), std::string::npos) << text;
}

TEST(Idx, CapHoldsToTheByte) {
  const TemporaryFolder folder;
  const auto path = folder.file("six", small_idx());
  EXPECT_EQ(read_idx(path, 6).num_bytes(), 6U);
  EXPECT_NE(idx_refusal(path, 5).find("at most 5 B"), std::string::npos);
}

TEST(Idx, CompressedBombIsReadNoFurtherThanDeclared) {
  const TemporaryFolder folder;
  const auto path = compressed(folder, "bomb.gz", idx_header(0x08, {1}) + std::string(64_MiB, '\0'));
  EXPECT_NE(idx_refusal(path).find("more bytes follow"), std::string::npos);
}

TEST(Idx, UnsupportedTypesAreRefusedByName) {
  const TemporaryFolder folder;
  EXPECT_NE(idx_refusal(folder.file("i8", idx_header(0x09, {1}) + "x")).find("i8"), std::string::npos);
  EXPECT_NE(idx_refusal(folder.file("i16", idx_header(0x0B, {1}) + "xx")).find("i16"), std::string::npos);
  EXPECT_NE(idx_refusal(folder.file("odd", idx_header(0x77, {1}) + "x")).find("code 119"), std::string::npos);
}

TEST(Idx, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(idx_refusal(folder.file("text", "hello, world")).find("no IDX file"), std::string::npos);
  EXPECT_NE(
      idx_refusal(folder.file("deep", idx_header(0x08, std::vector<std::uint32_t>(17, 1)) + "x")).find("17 dimensions"),
      std::string::npos);
  EXPECT_NE(idx_refusal(folder.path() / "absent").find("missing"), std::string::npos);
  idx_refusal(folder.path());
}

}  // namespace
}  // namespace sectionflow
