#include "data/npy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::expect_read_or_refused;
using namespace std::string_literals;

std::string npy_file(const std::string& dictionary, const std::string& elements) {
  return "\x93NUMPY\1\0"s + static_cast<char>(dictionary.size()) + '\0' + dictionary + elements;
}

std::string npy_refusal(const std::string& bytes) {
  return error_text<DataError>([&] { parse_npy(bytes, "here: "); });
}

TEST(Npy, HeadersAreThoseOfNumPy) {
  const std::string bytes = npy_bytes(HostTensor::of<float>({3}, {1, 2, 3}));
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(bytes.substr(0, 10), "\x93NUMPY\1\0\x76\0"s);
  EXPECT_EQ(bytes.substr(10, dictionary.size()), dictionary);
  EXPECT_EQ(bytes.find('\n'), 127U);
  EXPECT_EQ(bytes.size(), 128U + 12U);
  EXPECT_TRUE(
      contains(npy_bytes(HostTensor::scalar<std::uint8_t>(1)), "'descr': '|u1', 'fortran_order': False, 'shape': ()"));
  EXPECT_TRUE(contains(npy_bytes(HostTensor(Dtype::i64, {2, 0, 3})), "'shape': (2, 0, 3)"));
}

TEST(Npy, RandomTensorsComeBackBitForBit) {
  const std::vector<Dtype> dtypes = {Dtype::f32, Dtype::f64,     Dtype::i32, Dtype::i64,
                                     Dtype::u8,  Dtype::boolean, Dtype::i8};
  constexpr std::uint64_t kSeed = 11;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const auto words = random_words({.seed = kSeed, .node = i}, 0);
    std::vector<std::int64_t> dims;
    for (std::uint32_t axis = 0; axis < words[0] % 9; ++axis) dims.push_back((words[1] >> (3 * axis)) % 4);
    HostTensor tensor(dtypes[words[2] % dtypes.size()], Shape(dims));
    for (std::size_t byte = 0; byte < tensor.num_bytes(); ++byte) {
      const auto value = random_words({.seed = kSeed, .node = i}, 1 + byte)[0];
      tensor.bytes()[byte] = static_cast<std::byte>(tensor.dtype() == Dtype::boolean ? value & 1U : value & 255U);
    }
    ASSERT_TRUE(bitwise_equal(parse_npy(npy_bytes(tensor), ""), tensor)) << "seed " << kSeed << ", tensor " << i;
  }
}

TEST(Npy, OtherByteOrdersAndTheOrderOfFortranAreUndone) {
  const HostTensor big =
      parse_npy(npy_file("{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}\n", "\0\0\1\2\xff\xff\xff\xfe"s), "");
  EXPECT_TRUE(bitwise_equal(big, HostTensor::of<std::int32_t>({2}, {258, -2})));
  const HostTensor columns =
      parse_npy(npy_file("{\"shape\": (2, 3), 'fortran_order': True, 'descr': '|u1'}", "\1\4\2\5\3\6"), "");
  EXPECT_TRUE(bitwise_equal(columns, HostTensor::of<std::uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6})));
}

TEST(Npy, WhatIsNoArrayOfOursIsRefused) {
  const auto with = [](const std::string& dictionary) { return npy_refusal(npy_file(dictionary, "abcd")); };
  EXPECT_TRUE(contains(with("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "elements '|O'"));
  EXPECT_TRUE(contains(with("{'descr': '<f2', 'fortran_order': False, 'shape': (2,)}"), "elements '<f2'"));
  EXPECT_TRUE(contains(with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
                       "declares f32[2] of 8 bytes, but has 4"));
  EXPECT_TRUE(
      contains(with("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904)}"),
               "does not fit 64 bits"));
  EXPECT_TRUE(contains(with("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "64 bits"));
  EXPECT_TRUE(contains(with("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "wanted a dimension"));
  EXPECT_TRUE(contains(with("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"), "twice"));
  EXPECT_TRUE(contains(with("{'descr': '<f4', 'fortran_order': False}"), "lacks one of"));
  EXPECT_TRUE(
      contains(with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + exit()"), "behind its dictionary"));
  EXPECT_TRUE(contains(with("{'descr': '<f4', 'fortran_order': maybe, 'shape': (1,)}"), "True or False"));
  EXPECT_TRUE(contains(with("{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}"), "boolean other than 0 and 1"));
  EXPECT_TRUE(contains(npy_refusal("PK\3\4 and so on"), "does not begin as files of NumPy's"));
  EXPECT_THROW(npy_bytes(HostTensor(Dtype::bf16, {1})), ArgumentError);
}

TEST(Npy, DamagedFilesAreReadOrRefused) {
  expect_read_or_refused(npy_bytes(HostTensor::of<float>({2, 2}, {1, 2, 3, 4})),
                         [](const std::string& damaged) { parse_npy(damaged, ""); });
}

TEST(NpySource, GivesRowsOfFilesThatAWriterHasFilled) {
  const TemporaryFolder folder;
  const auto features = folder.path() / "features.npy", labels = folder.path() / "labels.npy";
  NpyWriter writer(features, {Dtype::f32, {5, 2}});
  writer.append(HostTensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5}));
  writer.append(HostTensor(Dtype::f32, {0, 2}));
  EXPECT_THROW(writer.finish(), ArgumentError);
  EXPECT_THROW(writer.append(HostTensor(Dtype::f32, {3, 2})), ShapeError);
  EXPECT_THROW(writer.append(HostTensor(Dtype::f64, {1, 2})), ShapeError);
  EXPECT_THROW(writer.append(HostTensor(Dtype::f32, {})), ShapeError);
  EXPECT_FALSE(std::filesystem::exists(features));
  writer.append(HostTensor::of<float>({2, 2}, {6, 7, 8, 9}));
  writer.finish();
  write_npy(labels, HostTensor::of<std::int64_t>({5}, {5, 6, 7, 8, 9}));
  EXPECT_EQ(read_npy(features).shape(), (Shape{5, 2}));
  const auto source = npy_source({{"features", features}, {"label", labels}});
  EXPECT_EQ(source->size(), 5);
  const Example third = source->at(3);
  EXPECT_TRUE(bitwise_equal(third.at("features"), HostTensor::of<float>({2}, {6, 7})));
  EXPECT_TRUE(bitwise_equal(third.at("label"), HostTensor::scalar<std::int64_t>(8)));
  EXPECT_THROW(source->at(5), ArgumentError);
  EXPECT_THROW(source->at(-1), ArgumentError);
  std::filesystem::resize_file(labels, 140);
  EXPECT_THROW(source->at(4), DataError);
  EXPECT_THROW(npy_source({{"label", labels}}), DataError);
  EXPECT_THROW(npy_source({}), ArgumentError);
  write_npy(labels, HostTensor(Dtype::i64, {4}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { npy_source({{"a", features}, {"b", labels}}); }), "has 4 rows"));
}

}  // namespace
}  // namespace sectionflow
