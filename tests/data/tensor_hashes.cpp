// Hashes in the metadata of safetensors files.

#include "data/tensor_hashes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

std::vector<NamedTensor> two_tensors() {
  std::vector<NamedTensor> tensors;
  tensors.push_back({"b", HostTensor::of<std::uint8_t>({3}, {1, 2, 3})});
  tensors.push_back({"a", HostTensor::of<float>({2}, {1.0F, -2.0F})});
  return tensors;
}

/// The bytes of a file of these, "a" first, 11 bytes of data.
std::string hashed_safetensors(const TemporaryFolder& folder) {
  const auto path = folder.path() / "good.safetensors";
  write_safetensors(path, views_of(two_tensors()), {{"k", "v"}});
  return bytes_of_file(path);
}

TEST(TensorHashes, AnyFlippedBitIsRefused) {
  const TemporaryFolder folder;
  const std::string good = hashed_safetensors(folder);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const auto path = folder.file("flipped.safetensors", bytes);
    const std::string text = error_text<DataError>([&] { read_safetensors(path); });
    EXPECT_NE(text.find(path.string()), std::string::npos) << "bit " << bit << " in byte " << bit / 8 << ": " << text;
  }
}

/// The text of a file without tensors that has these metadata.
std::string only_metadata(const std::string& metadata) {
  const std::string header = R"({"__metadata__":{)" + metadata + "}}";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header;
}

TEST(TensorHashes, WithoutThatOfTheMetadataAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder.file("bare.safetensors", only_metadata(R"("k":"v","xxh3:a":"0123456789abcdef","z":"v")"));
  const std::string text = error_text<DataError>([&] { read_safetensors(path); });
  EXPECT_NE(text.find("they have the hash 'xxh3:a', and not their own, 'xxh3'"), std::string::npos) << text;
  const auto foreign = folder.file("foreign.safetensors", only_metadata(R"("k":"v","xxh2":"v","z":"v")"));
  EXPECT_EQ(read_safetensors(foreign).metadata.size(), 3U) << "files of others have no hashes";
}

TEST(TensorHashes, ADamagedTensorIsNamed) {
  const TemporaryFolder folder;
  std::string bytes = hashed_safetensors(folder);
  bytes.back() = '\7';
  const auto path = folder.file("damaged.safetensors", bytes);
  const std::string text = error_text<DataError>([&] { read_safetensors(path); });
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  EXPECT_NE(text.find("tensor 'b' u8[3] is damaged"), std::string::npos) << text;
  EXPECT_NE(text.find("hint:"), std::string::npos) << text;
}

TEST(TensorHashes, OneOfATensorThatIsNotThereIsRefused) {
  const TemporaryFolder folder;
  Metadata metadata{{"xxh3:gone", "0123456789abcdef"}};
  add_hashes({}, metadata);
  const auto path = folder.file(
      "gone.safetensors", only_metadata(R"("xxh3:gone":"0123456789abcdef","xxh3":")" + metadata.at("xxh3") + '"'));
  const std::string text = error_text<DataError>([&] { read_safetensors(path); });
  EXPECT_NE(text.find("hash of tensor 'gone', which is not there"), std::string::npos) << text;
}

TEST(TensorHashes, TellTypesThatHaveTheSameBytesApart) {
  const HostTensor a(Dtype::f32, {2, 3}), b(Dtype::f32, {3, 2}), c(Dtype::i32, {2, 3}), d(Dtype::f32, {0});
  EXPECT_EQ(tensor_hash(a.view()), tensor_hash(HostTensor(Dtype::f32, {2, 3}).view()));
  for (const HostTensor* other : {&b, &c, &d}) EXPECT_NE(tensor_hash(a.view()), tensor_hash(other->view()));
}

TEST(TensorHashes, KeysOfHashesAreReserved) {
  const TemporaryFolder folder;
  for (const char* key : {"xxh3", "xxh3:", "xxh3:a"}) {
    const std::string text = error_text<ArgumentError>([&] {
      write_safetensors(folder.path() / "reserved", views_of(two_tensors()), {{key, "v"}});
    });
    EXPECT_NE(text.find("reserved for the hashes"), std::string::npos) << text;
  }
  EXPECT_EQ(folder.num_files(), 0U);
}

}  // namespace
}  // namespace sectionflow
