#include "data/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>

#include "base/random.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace std::string_literals;

/// A file of this header and data, the length in front.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 255);
  return bytes + header + data;
}

std::string safetensors_refusal(const TemporaryFolder& folder, const std::string& bytes) {
  const auto path = folder.file("refused.safetensors", bytes);
  const std::string text = error_text<DataError>([&] { read_safetensors(path); });
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  return text;
}

void expect_safetensors_refusal(const std::string& header, const std::string& data, const std::string& reason) {
  const TemporaryFolder folder;
  const std::string text = safetensors_refusal(folder, file_of(header, data));
  EXPECT_NE(text.find(reason), std::string::npos) << reason << " in: " << text;
}

std::vector<NamedTensor> small_tensors() {
  std::vector<NamedTensor> tensors;
  tensors.push_back({"b", HostTensor::of<std::uint8_t>({3}, {1, 2, 3})});
  tensors.push_back({"a", HostTensor::of<float>({2}, {1.0F, -2.0F})});
  return tensors;
}

// Spelled byte by byte from the format's description: 8 + 136 bytes of header, 8 of "a", 3 of "b".
const std::string& small_safetensors() {
  static const std::string bytes =
      "\x88\0\0\0\0\0\0\0"
      R"({"__metadata__":{"k":"v"},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})"
      "    "
      "\0\0\x80\x3f\0\0\0\xc0\1\2\3"s;
  return bytes;
}

/// The same with hashes, as it is written.
const std::string& hashed_file() {
  static const std::string bytes = file_of(
      R"({"__metadata__":{"k":"v","xxh3":"0c40a5cd263a4cc1","xxh3:a":"0374f036d22c86ed","xxh3:b":"5d71c7a8850332f3"},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})"
      "  ",
      "\0\0\x80\x3f\0\0\0\xc0\1\2\3"s);
  return bytes;
}

TEST(Safetensors, SmallFileIsExactToTheByte) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "small.safetensors";
  write_safetensors(path, views_of(small_tensors()), {{"k", "v"}});
  EXPECT_EQ(bytes_of_file(path), hashed_file());
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(Safetensors, BFloat16ComesBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "narrow.safetensors";
  std::vector<NamedTensor> tensors;
  tensors.push_back({"x", HostTensor::of<BFloat16>({3}, {BFloat16(1.5F), BFloat16(-0x1p100F), BFloat16(NAN)})});
  write_safetensors(path, views_of(tensors), {});
  EXPECT_NE(bytes_of_file(path).find(R"("dtype":"BF16","shape":[3],"data_offsets":[0,6])"), std::string::npos);
  const auto file = read_safetensors(path);
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_TRUE(bitwise_equal(file.tensors[0].tensor, tensors[0].tensor));
}

TEST(Safetensors, SmallFileWrittenByHandIsRead) {
  const TemporaryFolder folder;
  const auto [tensors, metadata] = read_safetensors(folder.file("small.safetensors", small_safetensors()));
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_TRUE(bitwise_equal(tensors[0].tensor, HostTensor::of<float>({2}, {1.0F, -2.0F})));
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_TRUE(bitwise_equal(tensors[1].tensor, HostTensor::of<std::uint8_t>({3}, {1, 2, 3})));
  EXPECT_EQ(metadata, (Metadata{{"k", "v"}}));
}

TEST(Safetensors, LargerElementsComeFirstThenNames) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "order.safetensors";
  std::vector<NamedTensor> tensors;
  tensors.push_back({"a", HostTensor(Dtype::u8, {1})});
  tensors.push_back({"c", HostTensor(Dtype::f32, {1})});
  tensors.push_back({"b", HostTensor(Dtype::i32, {1})});
  tensors.push_back({"d", HostTensor(Dtype::f64, {1})});
  write_safetensors(path, views_of(tensors));
  std::string names;
  for (const NamedTensor& tensor : read_safetensors(path).tensors) names += tensor.name;
  EXPECT_EQ(names, "dbca");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes_of_file(path).data(), sizeof(header_bytes));
  EXPECT_EQ(header_bytes % 8, 0U);
}

/// Random words, one after another.
class Words {
 public:
  explicit Words(std::uint64_t seed) : seed_(seed) {}
  std::uint32_t next() { return random_words({.seed = seed_}, block_++)[0]; }
  std::uint32_t below(std::uint32_t bound) { return next() % bound; }

 private:
  std::uint64_t seed_;
  std::uint64_t block_ = 0;
};

NamedTensor random_tensor(Words& words, std::size_t index) {
  constexpr std::array<Dtype, 7> dtypes = {Dtype::f32, Dtype::f64,     Dtype::i32, Dtype::i64,
                                           Dtype::u8,  Dtype::boolean, Dtype::i8};
  std::vector<std::int64_t> dims(words.below(6));
  for (auto& dim : dims) dim = words.below(4);
  // Names with quotes, control characters and letters beyond ASCII.
  const std::array<std::string, 4> beginnings = {"layer/", "\"quoted\"\n", "größe ", ""};
  NamedTensor tensor{beginnings[words.below(4)] + std::to_string(index),
                     HostTensor(dtypes[words.below(7)], Shape(dims))};
  const bool is_boolean = tensor.tensor.dtype() == Dtype::boolean;
  for (std::size_t i = 0; i < tensor.tensor.num_bytes(); ++i) {
    tensor.tensor.bytes()[i] = static_cast<std::byte>(words.below(is_boolean ? 2 : 256));  // NaN payloads among them
  }
  return tensor;
}

TEST(Safetensors, RandomTensorsComeBackBitForBit) {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Words words(seed);
    std::vector<NamedTensor> tensors;
    for (std::size_t i = words.below(8); i > 0; --i) tensors.push_back(random_tensor(words, i));
    const Metadata metadata =
        words.below(2) == 0 ? Metadata{} : Metadata{{"step", std::to_string(seed)}, {"ü\t\"", "\\"}};
    const auto path = folder.path() / "random.safetensors";
    write_safetensors(path, views_of(tensors), metadata);
    const SafetensorsFile content = read_safetensors(path);
    EXPECT_EQ(content.metadata, metadata);
    ASSERT_EQ(content.tensors.size(), tensors.size());
    for (const NamedTensor& written : tensors) {
      const auto read = std::find_if(content.tensors.begin(), content.tensors.end(),
                                     [&](const NamedTensor& each) { return each.name == written.name; });
      ASSERT_NE(read, content.tensors.end()) << written.name;
      EXPECT_TRUE(bitwise_equal(read->tensor, written.tensor)) << written.name;
    }
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  for (std::size_t length = 0; length < small_safetensors().size(); ++length)
    safetensors_refusal(folder, small_safetensors().substr(0, length));
}

TEST(Safetensors, TrailingByteIsRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(safetensors_refusal(folder, small_safetensors() + "x").find("the tensors need 11 bytes but 12 follow"),
            std::string::npos);
}

// The format does not protect names and metadata: 27 of the 1,152 flips change a letter there and are read, with the
// tensors as they were; all others are refused.
TEST(Safetensors, EveryFlippedBitOfTheHeaderIsRefusedOrChangesOnlyANameOrTheMetadata) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> wanted = small_tensors();
  int num_read = 0;
  for (std::size_t bit = 0; bit < 8 * (small_safetensors().size() - 11); ++bit) {
    std::string damaged = small_safetensors();
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto path = folder.file("damaged.safetensors", damaged);
    try {
      const auto [tensors, metadata] = read_safetensors(path);
      ASSERT_EQ(tensors.size(), 2U);
      EXPECT_TRUE(bitwise_equal(tensors[0].tensor, wanted[1].tensor)) << "bit " << bit;
      EXPECT_TRUE(bitwise_equal(tensors[1].tensor, wanted[0].tensor)) << "bit " << bit;
      ++num_read;
    } catch (const DataError&) {
    }
  }
  EXPECT_EQ(num_read, 27);
}

TEST(Safetensors, HeaderLengthIsCheckedBeforeItIsBelieved) {
  const TemporaryFolder folder;
  EXPECT_NE(safetensors_refusal(folder, ""s).find("fewer than the length of a header"), std::string::npos);
  EXPECT_NE(safetensors_refusal(folder, std::string(8, '\0')).find("a header of 0 bytes"), std::string::npos);
  EXPECT_NE(safetensors_refusal(folder, "\xff\xff\xff\xff\xff\xff\xff\xff{}"s).find("wanted 1 to 100000000"),
            std::string::npos);
  EXPECT_NE(safetensors_refusal(folder, "\3\0\0\0\0\0\0\0{}"s).find("only 2 follow"), std::string::npos);
}

TEST(Safetensors, HeaderThatIsNoObjectOfTensorsIsRefused) {
  expect_safetensors_refusal("[]", "", "does not begin with '{'");
  expect_safetensors_refusal(" {}", "", "does not begin with '{'");
  expect_safetensors_refusal("{}\0{}"s, "", "zero byte");
  expect_safetensors_refusal("{}{}", "", "damaged at byte");
  expect_safetensors_refusal("{\"a\":", "", "damaged at byte");
  expect_safetensors_refusal("{\"\xff\":{}}", "", "damaged at byte");
  expect_safetensors_refusal(R"({"a":1})", "", "a number near 'a'");
  expect_safetensors_refusal(R"({"a":null})", "", "null");
  expect_safetensors_refusal(R"({"a":true})", "", "a boolean");
  expect_safetensors_refusal(R"({"a":{"b":{}}})", "", "the field 'b'");
  expect_safetensors_refusal(R"({"a":{"dtype":{}}})", "", "wanted the name of a dtype");
  expect_safetensors_refusal(R"({"a":)" + std::string(100000, '[') + "}", "", "an array near 'a'");
  expect_safetensors_refusal(R"({"a":{"shape":)" + std::string(100000, '['), "", "an array near 'a'");
}

TEST(Safetensors, FieldsOfATensorAreChecked) {
  expect_safetensors_refusal(R"({"a":{"shape":[],"data_offsets":[0,1]}})", "x", "'a' has no dtype");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x", "'a' has no shape");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[]}})", "x", "'a' has no data_offsets");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0]}})", "x", "1 data_offsets");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1,1]}})", "x",
                             "more than two data_offsets");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x", "a negative number");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", "x", "a fraction");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", "x", "a string");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", "x",
                             "beyond 64 bits");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[9999999999999999999],"data_offsets":[0,1]}})", "x",
                             "does not fit 63 bits");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
                             "x", "more than 16 dimensions");
  expect_safetensors_refusal(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "",
                             "does not fit 64 bits");
  expect_safetensors_refusal("{\"" + std::string(4097, 'n') + R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                             "x", "a name of 4097 bytes");
}

TEST(Safetensors, DuplicateKeysAreRefused) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]})";
  expect_safetensors_refusal("{" + entry + "," + entry + "}", "x", "'a' twice");
  expect_safetensors_refusal(R"({"__metadata__":{},"__metadata__":{}})", "", "'__metadata__' twice");
  expect_safetensors_refusal(R"({"__metadata__":{"k":"1","k":"2"}})", "", "'k' twice");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", "x",
                             "'dtype' twice");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[],"shape":[],"data_offsets":[0,1]}})", "x",
                             "'shape' twice");
}

TEST(Safetensors, HolesAndOverlapsAreRefused) {
  const std::string a =
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":)";
  expect_safetensors_refusal(a + "[3,5]}}", "xxxxx", "'b' begins at byte 3 of the data but the one before ends at 2");
  expect_safetensors_refusal(a + "[1,3]}}", "xxx", "'b' begins at byte 1");
  expect_safetensors_refusal(a + "[0,2]}}", "xx", "begins at byte 0");
  expect_safetensors_refusal(a + "[2,5]}}", "xxxxx", "needs 2 bytes but has 3");
  expect_safetensors_refusal(a + "[5,2]}}", "xxxxx", "ends at 2 before it begins at 5");
  expect_safetensors_refusal(a + "[2,4]}}", "xxx", "the tensors need 4 bytes but 3 follow");
  expect_safetensors_refusal(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[18446744073709551615,0]}})", "x",
                             "before it begins");
}

TEST(Safetensors, MetadataIsOfStringsOnly) {
  expect_safetensors_refusal(R"({"__metadata__":{"k":1}})", "", "wanted a string as value of the metadata");
  expect_safetensors_refusal(R"({"__metadata__":{"k":{}}})", "", "an object near '__metadata__'");
  expect_safetensors_refusal(R"({"__metadata__":"k"})", "", "a string near '__metadata__'");
}

TEST(Safetensors, UnsupportedDtypeIsRefusedByName) {
  expect_safetensors_refusal(R"({"w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", "xx",
                             "tensor 'w' has the dtype 'F16'");
}

TEST(Safetensors, BooleansOtherThanZeroAndOneAreRefused) {
  const std::string header = R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  expect_safetensors_refusal(header, "\0\1\2"s, "tensor 'm' bool[3] has a byte other than 0 and 1");
  const TemporaryFolder folder;
  const std::uint8_t bytes[] = {0, 1, 2};
  const NamedView view{"m", {{Dtype::boolean, {3}}, bytes}};
  EXPECT_THROW(write_safetensors(folder.path() / "f", {view}), ArgumentError);
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(Safetensors, MissingFileAndFolderAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(error_text<DataError>([&] { read_safetensors(folder.path() / "absent"); }).find("absent"),
            std::string::npos);
  EXPECT_THROW(read_safetensors(folder.path()), DataError);
}

TEST(Safetensors, WritingIntoAMissingFolderLeavesNothing) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "absent" / "file.safetensors";
  const std::string text = error_text<DataError>([&] { write_safetensors(path, views_of(small_tensors())); });
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(Safetensors, WhatIsNoFileIsNotReplaced) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "taken");
  EXPECT_THROW(write_safetensors(folder.path() / "taken", views_of(small_tensors())), DataError);
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "taken"));
  EXPECT_EQ(folder.num_files(), 1U);
}

/// Files cannot grow beyond `bytes` while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limited{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST(Safetensors, FailedWriteLeavesTheOldFileAndNoOther) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "kept.safetensors";
  write_safetensors(path, views_of(small_tensors()), {{"k", "v"}});
  const HostTensor large(Dtype::f32, {1000});
  // Within the length, within the header, within the data, at the last byte.
  for (rlim_t bytes : {0, 5, 60, 1000, 4151}) {
    std::string text;
    {
      const FileSizeLimit limit(bytes);
      text = error_text<DataError>([&] { write_safetensors(path, {{"large", large.view()}}); });
    }
    EXPECT_NE(text.find("cannot be written"), std::string::npos) << text;
    EXPECT_EQ(bytes_of_file(path), hashed_file());
    EXPECT_EQ(folder.num_files(), 1U);
  }
  write_safetensors(path, {{"large", large.view()}});
  EXPECT_EQ(read_safetensors(path).tensors[0].name, "large");
}

TEST(Safetensors, LeftoverOfAKilledWriterIsNoObstacle) {
  const TemporaryFolder folder;
  folder.file("f.safetensors.tmp-" + std::to_string(getpid()) + "-0", "leftover");
  write_safetensors(folder.path() / "f.safetensors", views_of(small_tensors()));
  EXPECT_EQ(read_safetensors(folder.path() / "f.safetensors").tensors.size(), 2U);
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(Safetensors, NamesThatTheFormatForbidsAreRefused) {
  const TemporaryFolder folder;
  const HostTensor one = HostTensor::scalar(1.0F);
  const auto write = [&](const std::vector<std::string>& names, const Metadata& metadata = {}) {
    std::vector<NamedView> views;
    for (const std::string& name : names) views.push_back({name, one.view()});
    write_safetensors(folder.path() / "f", views, metadata);
  };
  EXPECT_NE(error_text<ArgumentError>([&] {
              write({"x", "x"});
            }).find("two tensors have the name 'x'"),
            std::string::npos);
  EXPECT_THROW(write({"__metadata__"}), ArgumentError);
  EXPECT_THROW(write({std::string(4097, 'n')}), ArgumentError);
  EXPECT_THROW(write({"\xff"}), ArgumentError);
  EXPECT_THROW(write({"x"}, {{"k", "\xff"}}), ArgumentError);
  EXPECT_EQ(folder.num_files(), 0U);
}

}  // namespace
}  // namespace sectionflow
