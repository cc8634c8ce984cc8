// Safetensors written one tensor at a time, and read in an open folder.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/safetensors.h"
#include "data/tensor_hashes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

FileSink sink_of(std::string& bytes) {
  return {.append = [&](const void* more, std::size_t count) { bytes.append(static_cast<const char*>(more), count); },
          .overwrite_beginning =
              [&](const void* first, std::size_t count) {
                bytes.replace(0, count, static_cast<const char*>(first), count);
              }};
}

std::vector<NamedType> types_of(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedType> types;
  for (const auto& [name, tensor] : tensors) types.push_back({name, tensor.type()});
  return types;
}

TEST(StreamedSafetensors, HaveTheBytesOfThoseWrittenAtOnce) {
  constexpr std::array<Dtype, 7> dtypes = {Dtype::f32, Dtype::f64,  Dtype::i32,    Dtype::i64,
                                           Dtype::u8,  Dtype::bf16, Dtype::boolean};
  const TemporaryFolder folder;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    std::uint64_t block = 0;
    const auto below = [&](std::uint32_t bound) { return random_words({.seed = seed}, block++)[0] % bound; };
    std::vector<NamedTensor> tensors;
    for (std::uint32_t i = below(7); i > 0; --i) {
      std::vector<std::int64_t> dims(below(9));
      for (auto& dim : dims) dim = below(3);
      tensors.push_back({text_of("größe ", i), HostTensor(dtypes[below(7)], Shape(dims))});
      HostTensor& tensor = tensors.back().tensor;
      for (std::size_t at = 0; at < tensor.num_bytes(); ++at)
        tensor.bytes()[at] = static_cast<std::byte>(below(tensor.dtype() == Dtype::boolean ? 2 : 256));
    }
    const Metadata metadata = {{"k", text_of(seed)}};
    std::string bytes;
    std::vector<std::string> asked;
    const auto hashes = stream_safetensors(
        sink_of(bytes), types_of(tensors),
        [&](const std::string& name) {
          asked.push_back(name);
          return std::find_if(tensors.begin(), tensors.end(), [&](const auto& each) { return each.name == name; })
              ->tensor.view();
        },
        metadata);
    write_safetensors(folder.path() / "whole", views_of(tensors), metadata);
    EXPECT_EQ(bytes, bytes_of_file(folder.path() / "whole"));
    EXPECT_EQ(asked.size(), tensors.size()) << "each is asked for once";
    for (const auto& [name, tensor] : tensors) EXPECT_EQ(hashes.at(name), tensor_hash(tensor.view()));
  }
}

TEST(StreamedSafetensors, PassOnWhatTheirSourceAndTheirSinkThrow) {
  std::string bytes;
  const std::vector<NamedType> types = {{"a", {Dtype::f32, {2}}}, {"b", {Dtype::f32, {2}}}};
  const HostTensor right(Dtype::f32, {2}), wrong(Dtype::f32, {3});
  EXPECT_THROW(stream_safetensors(sink_of(bytes), types,
                                  [&](const std::string& name) { return (name == "a" ? right : wrong).view(); }),
               ArgumentError);
  EXPECT_THROW(stream_safetensors(sink_of(bytes), types,
                                  [](const std::string&) -> TensorView { throw std::runtime_error("no"); }),
               std::runtime_error);
  FileSink full = sink_of(bytes);
  full.overwrite_beginning = [](const void*, std::size_t) { throw DataError("full"); };
  EXPECT_THROW(stream_safetensors(full, types, [&](const std::string&) { return right.view(); }), DataError);
  EXPECT_THROW(stream_safetensors(sink_of(bytes), {types[0], types[0]}, [&](const auto&) { return right.view(); }),
               ArgumentError);
  EXPECT_THROW(stream_safetensors(sink_of(bytes), types, [&](const auto&) { return right.view(); }, {{"xxh3", "0"}}),
               ArgumentError);
  HostTensor two(Dtype::boolean, {1});
  two.bytes()[0] = std::byte{2};
  EXPECT_THROW(stream_safetensors(sink_of(bytes), {{"two", two.type()}}, [&](const auto&) { return two.view(); }),
               ArgumentError);
}

TEST(SafetensorsInAFolder, AreReadAndLinksAreNotFollowed) {
  const TemporaryFolder folder;
  const HostTensor tensor = HostTensor::scalar(1.5F);
  write_safetensors(folder.path() / "file", {{"x", tensor.view()}});
  std::filesystem::create_symlink("file", folder.path() / "link");
  const int opened = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(opened, 0);
  EXPECT_TRUE(bitwise_equal(read_safetensors_in(opened, "file", "shown").tensors.at(0).tensor, tensor));
  EXPECT_NE(error_text<DataError>([&] { read_safetensors_in(opened, "link", "shown"); }).find("'shown': is a symbolic"),
            std::string::npos);
  EXPECT_NE(error_text<DataError>([&] { read_safetensors_in(opened, "absent", "shown"); }).find("'shown': cannot be"),
            std::string::npos);
  EXPECT_NO_THROW(read_safetensors(folder.path() / "link")) << "a user's own path may be a link";
  close(opened);
}

}  // namespace
}  // namespace sectionflow
