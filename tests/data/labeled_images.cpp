#include "data/labeled_images.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace std::string_literals;

std::string image_file(int num_images, int height, int width, char level) {
  std::string bytes = "\0\0\x08\x03"s;
  for (int dim : {num_images, height, width}) bytes += "\0\0\0"s + static_cast<char>(dim);
  return bytes + std::string(static_cast<std::size_t>(num_images * height * width), level);
}

std::string label_file(const std::string& labels) {
  return "\0\0\x08\x01\0\0\0"s + static_cast<char>(labels.size()) + labels;
}

/// A folder of 3 training and 2 test images of 4 x 5.
void write_small_mnist(const TemporaryFolder& folder) {
  folder.file("train-images-idx3-ubyte", image_file(3, 4, 5, '\x11'));
  folder.file("train-labels-idx1-ubyte", label_file("\0\1\x09"s));
  folder.file("t10k-images-idx3-ubyte", image_file(2, 4, 5, '\x22'));
  folder.file("t10k-labels-idx1-ubyte", label_file("\5\6"));
}

std::string mnist_refusal(const TemporaryFolder& folder) {
  return error_text<DataError>([&] { load_mnist(folder.path()); });
}

TEST(LabeledImages, FourFilesMakeTwoParts) {
  const TemporaryFolder folder;
  write_small_mnist(folder);
  const auto [train, test] = load_mnist(folder.path());
  EXPECT_EQ(train.images.type(), (TensorType{Dtype::u8, {3, 4, 5, 1}}));
  EXPECT_EQ(test.images.type(), (TensorType{Dtype::u8, {2, 4, 5, 1}}));
  EXPECT_EQ(train.images.values<std::uint8_t>().back(), 0x11);
  EXPECT_EQ(test.images.values<std::uint8_t>().back(), 0x22);
  EXPECT_TRUE(bitwise_equal(train.labels, HostTensor::of<std::int32_t>({3}, {0, 1, 9})));
  EXPECT_EQ(train.num_classes, 10);
  EXPECT_EQ(train.name, folder.path().filename().string() + " train");
  EXPECT_EQ(load_mnist(folder.path() / "").test.name, folder.path().filename().string() + " test");
}

TEST(LabeledImages, EveryMissingFileIsNamed) {
  const TemporaryFolder folder;
  write_small_mnist(folder);
  std::filesystem::remove(folder.path() / "train-labels-idx1-ubyte");
  std::filesystem::remove(folder.path() / "t10k-images-idx3-ubyte");
  const std::string text = mnist_refusal(folder);
  for (const std::string& wanted : {folder.path().string(), "train-labels-idx1-ubyte"s, "t10k-images-idx3-ubyte"s,
                                    "dataset-fashion-mnist"s, "synthetic_mnist()"s}) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << " in: " << text;
  }
  EXPECT_EQ(text.find("train-images"), std::string::npos) << text;
  EXPECT_EQ(text.find(" --"), std::string::npos) << "options are a program's, not the library's: " << text;
}

TEST(LabeledImages, LabelsThatDoNotFitTheImagesAreRefused) {
  const TemporaryFolder folder;
  write_small_mnist(folder);
  folder.file("train-labels-idx1-ubyte", label_file("\0\1"s));
  EXPECT_NE(mnist_refusal(folder).find("wanted one label for each of the 3 images"), std::string::npos);
  folder.file("train-labels-idx1-ubyte", label_file("\0\1\x0a"s));
  EXPECT_NE(mnist_refusal(folder).find("the label 10 at image 2"), std::string::npos);
}

TEST(LabeledImages, ImagesOfAnotherFormAreRefused) {
  const TemporaryFolder folder;
  write_small_mnist(folder);
  folder.file("t10k-images-idx3-ubyte", image_file(2, 5, 4, '\1'));
  EXPECT_NE(mnist_refusal(folder).find("4 x 5"), std::string::npos);
  folder.file("t10k-images-idx3-ubyte", label_file("\1\2"));
  EXPECT_NE(mnist_refusal(folder).find("wanted images u8[N,H,W]"), std::string::npos);
  folder.file("t10k-images-idx3-ubyte", image_file(0, 4, 5, '\1'));
  EXPECT_NE(mnist_refusal(folder).find("u8[0,4,5]"), std::string::npos);
}

TEST(LabeledImages, FashionMnistIsLoadedWhereItIsInstalled) {
  if (!std::filesystem::exists(kFashionMnistFolder)) {
    GTEST_SKIP() << kFashionMnistFolder << " is absent; the package dataset-fashion-mnist brings it";
  }
  const auto [train, test] = load_mnist(kFashionMnistFolder);
  EXPECT_EQ(train.images.shape(), (Shape{60000, 28, 28, 1}));
  EXPECT_EQ(test.images.shape(), (Shape{10000, 28, 28, 1}));
  std::vector<int> counts(10);
  for (std::int32_t label : train.labels.values<std::int32_t>()) ++counts[static_cast<std::size_t>(label)];
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
}

}  // namespace
}  // namespace sectionflow
