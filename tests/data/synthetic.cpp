#include "data/synthetic.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(Synthetic, PartsHaveTheFormOfMnist) {
  const auto [train, test] = synthetic_mnist({.train_size = 25, .test_size = 7});
  EXPECT_EQ(train.images.type(), (TensorType{Dtype::u8, {25, 28, 28, 1}}));
  EXPECT_EQ(test.images.type(), (TensorType{Dtype::u8, {7, 28, 28, 1}}));
  EXPECT_EQ(train.labels.type(), (TensorType{Dtype::i32, {25}}));
  EXPECT_EQ(train.num_classes, 10);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(train.labels.values<std::int32_t>()[i], i % 10);
}

TEST(Synthetic, BytesAreTheSameOnEveryMachine) {
  const auto [train, test] = synthetic_mnist({.train_size = 100, .test_size = 10, .seed = 1});
  const auto crc = [](const HostTensor& tensor) {
    return crc32(0, reinterpret_cast<const Bytef*>(tensor.bytes()), static_cast<unsigned>(tensor.num_bytes()));
  };
  EXPECT_EQ(crc(train.images), 271263664U);
  EXPECT_EQ(crc(test.images), 3012777593U);
}

TEST(Synthetic, SampleDoesNotDependOnHowManyThereAre) {
  const auto few = synthetic_mnist({.train_size = 3, .test_size = 1});
  const auto many = synthetic_mnist({.train_size = 30, .test_size = 10});
  const auto a = few.train.images.values<std::uint8_t>();
  const auto b = many.train.images.values<std::uint8_t>().first(a.size());
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST(Synthetic, SeedAndPartChangeTheImages) {
  const SyntheticOptions options{.train_size = 10, .test_size = 10, .seed = 1};
  SyntheticOptions other = options;
  other.seed = 2;
  const auto data = synthetic_mnist(options);
  EXPECT_FALSE(bitwise_equal(data.train.images, synthetic_mnist(other).train.images));
  EXPECT_FALSE(bitwise_equal(data.train.images, data.test.images));
}

/// Class of the nearest of the class means, each shifted by every allowed shift: what a small network can at least do.
int nearest_class(const std::vector<std::vector<double>>& means, const std::uint8_t* image) {
  double best = std::numeric_limits<double>::lowest();
  int best_class = -1;
  for (int c = 0; c < 10; ++c) {
    for (int dy = -3; dy <= 3; ++dy) {
      for (int dx = -3; dx <= 3; ++dx) {
        double product = 0, mean_square = 0;
        for (int y = 4; y < 24; ++y) {
          for (int x = 4; x < 24; ++x) {
            const double mean =
                means[static_cast<std::size_t>(c)][static_cast<std::size_t>((y + dy) * 28 + x + dx)] - 128;
            product += mean * (image[y * 28 + x] - 128);
            mean_square += mean * mean;
          }
        }
        const double score = product / std::sqrt(mean_square);
        if (score > best) best = score, best_class = c;
      }
    }
  }
  return best_class;
}

TEST(Synthetic, ClassesCanBeLearned) {
  const auto [train, test] = synthetic_mnist({.train_size = 2000, .test_size = 500});
  std::vector<std::vector<double>> means(10, std::vector<double>(28 * 28));
  const auto pixels = train.images.values<std::uint8_t>();
  for (std::size_t i = 0; i < pixels.size(); ++i) means[i / 784 % 10][i % 784] += pixels[i] / 200.0;
  int right = 0;
  for (int i = 0; i < 500; ++i) {
    right += nearest_class(means, test.images.values<std::uint8_t>().data() + i * 784) == i % 10;
  }
  EXPECT_GE(right, 475);
}

TEST(Synthetic, SizesBelowOneAreRefused) {
  const std::string text = error_text<ArgumentError>([] { synthetic_mnist({.train_size = 0}); });
  EXPECT_NE(text.find("train_size 0"), std::string::npos) << text;
  EXPECT_THROW(synthetic_mnist({.num_classes = 0}), ArgumentError);
  EXPECT_THROW(synthetic_mnist({.height = -1}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow
