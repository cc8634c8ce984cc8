#include "data/rows.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "data/cifar.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using namespace std::string_literals;

TEST(Rows, AreTheElementsAlongTheFirstAxis) {
  Example tensors;
  tensors.emplace("x", HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  tensors.emplace("label", HostTensor::of<std::int32_t>({2}, {7, 8}));
  const auto source = rows_of("some", std::move(tensors));
  EXPECT_EQ(source->size(), 2);
  EXPECT_TRUE(bitwise_equal(source->at(1).at("x"), HostTensor::of<float>({2}, {3, 4})));
  EXPECT_EQ(source->at(0).at("label").item<std::int32_t>(), 7);
  EXPECT_THROW(source->at(2), ArgumentError);
  EXPECT_THROW(source->at(-1), ArgumentError);
  EXPECT_THROW(rows_of("none", {}), ArgumentError);
  Example uneven;
  uneven.emplace("x", HostTensor(Dtype::f32, {2}));
  uneven.emplace("y", HostTensor(Dtype::f32, {3}));
  EXPECT_TRUE(
      contains(error_text<ShapeError>([&] { rows_of("uneven", std::move(uneven)); }), "'x' f32[2], 'y' f32[3]"));
}

TEST(IdxSource, PairsImagesAndLabels) {
  const TemporaryFolder folder;
  const auto images = folder.file("images", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2abcd"s);
  const auto labels = folder.file("labels", "\0\0\x08\1\0\0\0\2\5\6"s);
  const auto source = idx_source({{"image", images}, {"label", labels}});
  EXPECT_EQ(source->size(), 2);
  EXPECT_TRUE(bitwise_equal(source->at(1).at("image"), HostTensor::of<std::uint8_t>({1, 2}, {'c', 'd'})));
  EXPECT_EQ(source->at(1).at("label").item<std::uint8_t>(), 6);
  const auto other = folder.file("other", "\0\0\x08\1\0\0\0\1\5"s);
  EXPECT_TRUE(contains(error_text<DataError>([&] { idx_source({{"image", images}, {"label", other}}); }), "lengths"));
  EXPECT_THROW(idx_source({{"image", folder.file("one", "\0\0\x08\0\5"s)}}), DataError);
  EXPECT_THROW(idx_source({}), ArgumentError);
}

std::string cifar_record(const std::string& labels, char first) {
  std::string record = labels;
  for (int i = 0; i < 3072; ++i) record += static_cast<char>(first + i % 50 + i / 1024);
  return record;
}

TEST(Cifar, PlanesBecomePixelsAcrossFiles) {
  const TemporaryFolder folder;
  const auto first = folder.file("first.bin", cifar_record("\1", 0) + cifar_record("\2", 1));
  const auto second = folder.file("second.bin", cifar_record("\x09", 2));
  const auto source = cifar_source(Cifar::cifar10, {first, folder.file("empty.bin", ""), second});
  ASSERT_EQ(source->size(), 3);
  const Example last = source->at(2);
  EXPECT_EQ(last.at("label").item<std::int32_t>(), 9);
  EXPECT_EQ(last.at("image").type(), (TensorType{Dtype::u8, {32, 32, 3}}));
  const auto pixels = last.at("image").values<std::uint8_t>();
  for (std::size_t i = 0; i < 1024; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel)
      ASSERT_EQ(pixels[3 * i + channel], 2 + (i + 1024 * channel) % 50 + channel);
  }
  EXPECT_EQ(source->at(1).at("label").item<std::int32_t>(), 2);
  EXPECT_THROW(source->at(3), ArgumentError);
}

TEST(Cifar, OfAHundredClassesHasTwoLabels) {
  const TemporaryFolder folder;
  const auto file = folder.file("train.bin", cifar_record("\x13\x63", 0) + cifar_record("\x14\x63", 0));
  const auto source = cifar_source(Cifar::cifar100, {file});
  EXPECT_EQ(source->at(0).at("coarse_label").item<std::int32_t>(), 19);
  EXPECT_EQ(source->at(0).at("label").item<std::int32_t>(), 99);
  EXPECT_TRUE(contains(error_text<DataError>([&] { source->at(1); }),
                       "record 1 at byte 3074 has the label 20; wanted 0 to 19"));
}

TEST(Cifar, EveryTruncationIsRefusedAndLabelsAreChecked) {
  const TemporaryFolder folder;
  const std::string bytes = cifar_record("\3", 0);
  for (std::size_t length = 1; length < bytes.size(); length += 7)
    ASSERT_THROW(cifar_source(Cifar::cifar10, {folder.file("cut.bin", bytes.substr(0, length))}), DataError);
  EXPECT_THROW(cifar_source(Cifar::cifar10, {folder.file("label.bin", cifar_record("\x0a", 0))})->at(0), DataError);
  EXPECT_THROW(cifar_source(Cifar::cifar10, {}), ArgumentError);
  EXPECT_THROW(cifar_source(Cifar::cifar10, {folder.path() / "none"}), DataError);
  const auto shrunk = folder.file("shrunk.bin", bytes);
  const auto source = cifar_source(Cifar::cifar10, {shrunk});
  std::filesystem::resize_file(shrunk, 100);
  EXPECT_THROW(source->at(0), DataError);
}

TEST(Cifar, FoldersAreReadByTheirFilesNames) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(error_text<DataError>([&] { load_cifar(Cifar::cifar10, folder.path()); }),
                       "lacks data_batch_1.bin, data_batch_2.bin, data_batch_3.bin, data_batch_4.bin, "
                       "data_batch_5.bin, test_batch.bin"));
  for (int i = 1; i <= 5; ++i) folder.file("data_batch_" + std::to_string(i) + ".bin", cifar_record("\1", 0));
  folder.file("test_batch.bin", cifar_record("\1", 0));
  const CifarData data = load_cifar(Cifar::cifar10, folder.path());
  EXPECT_EQ(data.train->size(), 5);
  EXPECT_EQ(data.test->size(), 1);
}

}  // namespace
}  // namespace sectionflow
