#include "data/maps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/dataset.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

Example with(const std::string& name, HostTensor tensor) {
  Example example;
  example.insert_or_assign(name, std::move(tensor));
  return example;
}
HostTensor applied(const MapFunction& map, HostTensor tensor, const std::string& name = "image",
                   std::int64_t index = 0) {
  Example example = map.apply(with(name, std::move(tensor)), MapContext(1, 2, 3, index));
  return std::move(example.at(name));
}
HostTensor image_of(std::int64_t height, std::int64_t width, std::int64_t channels) {
  HostTensor image(Dtype::u8, {height, width, channels});
  std::uint8_t level = 0;
  for (std::uint8_t& x : image.values<std::uint8_t>()) x = ++level;
  return image;
}

TEST(Maps, CastKeepsWhatTheDtypeCanHoldAndClampsAllOthers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const auto floats = [&] { return HostTensor::of<float>({7}, {1.9F, -1.9F, 300, -300, nan, infinity, -infinity}); };
  const auto cast = [&](Dtype dtype) { return applied(maps::cast("image", dtype), floats()); };
  EXPECT_TRUE(bitwise_equal(cast(Dtype::u8), HostTensor::of<std::uint8_t>({7}, {1, 0, 255, 0, 0, 255, 0})));
  const std::int32_t low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
  EXPECT_TRUE(bitwise_equal(cast(Dtype::i32), HostTensor::of<std::int32_t>({7}, {1, -1, 300, -300, 0, high, low})));
  EXPECT_EQ(cast(Dtype::i64).values<std::int64_t>()[5], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(cast(Dtype::f64).values<double>()[0], double{1.9F});
  EXPECT_EQ(static_cast<float>(cast(Dtype::bf16).values<BFloat16>()[2]), 300);
  EXPECT_TRUE(cast(Dtype::boolean).values<bool>()[4]) << "NaN is not 0";
  const HostTensor wide = HostTensor::of<std::int64_t>({3}, {(std::int64_t{1} << 53) + 1, -5, 1000});
  EXPECT_TRUE(bitwise_equal(applied(maps::cast("image", Dtype::i64), wide.clone()), wide));
  EXPECT_TRUE(bitwise_equal(applied(maps::cast("image", Dtype::u8), wide.clone()),
                            HostTensor::of<std::uint8_t>({3}, {255, 0, 255})));
  HostTensor truths(Dtype::boolean, {2});
  truths.values<bool>()[1] = true;
  EXPECT_TRUE(
      bitwise_equal(applied(maps::cast("image", Dtype::f32), truths.clone()), HostTensor::of<float>({2}, {0, 1})));
}

TEST(Maps, NormalizeDividesSubtractsAndDividesByChannel) {
  const auto run = [](HostTensor tensor, NormalizeOptions options) {
    return applied(maps::normalize(std::move(options)), std::move(tensor));
  };
  const HostTensor small = image_of(2, 2, 2), large = image_of(20, 20, 2);
  for (const HostTensor* image : {&small, &large}) {
    const HostTensor plain = run(image->clone(), {});
    const HostTensor by_channel = run(image->clone(), {.mean = {0.5F, 0.25F}, .deviation = {0.2F}});
    HostTensor as_f32(Dtype::f32, image->shape());
    const auto levels = image->values<std::uint8_t>();
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const auto level = static_cast<float>(levels[i]);
      ASSERT_EQ(plain.values<float>()[i], level / 255.0F);
      ASSERT_EQ(by_channel.values<float>()[i], (level / 255.0F - (i % 2 == 0 ? 0.5F : 0.25F)) / 0.2F);
      as_f32.values<float>()[i] = level;
    }
    EXPECT_TRUE(bitwise_equal(run(as_f32.clone(), {.mean = {0.5F, 0.25F}, .deviation = {0.2F}}), by_channel));
  }
  EXPECT_EQ(run(HostTensor(Dtype::u8, {0, 3}), {}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run(HostTensor::scalar(std::uint8_t{255}), {}).item<float>(), 1);
  EXPECT_THROW((void)run(image_of(2, 2, 2), {.mean = {1, 2, 3}}), ShapeError);
  EXPECT_THROW((void)run(HostTensor(Dtype::i32, {2}), {}), ShapeError);
  EXPECT_THROW((void)maps::normalize({.divisor = 0}), ArgumentError);
  EXPECT_THROW((void)maps::normalize({.deviation = {1, 0}}), ArgumentError);
}

TEST(Maps, OneHotHasAOneAtTheClass) {
  const MapFunction map = maps::one_hot("y", 3);
  const HostTensor wanted = HostTensor::of<float>({2, 3}, {0, 0, 1, 1, 0, 0});
  EXPECT_TRUE(bitwise_equal(applied(map, HostTensor::of<std::int32_t>({2}, {2, 0}), "y"), wanted));
  EXPECT_TRUE(bitwise_equal(applied(map, HostTensor::of<std::int64_t>({2}, {2, 0}), "y"), wanted));
  EXPECT_TRUE(bitwise_equal(applied(map, HostTensor::of<std::uint8_t>({2}, {2, 0}), "y"), wanted));
  EXPECT_EQ(applied(map, HostTensor::scalar(1), "y").shape(), Shape{3});
  for (std::int32_t label : {-1, 3}) {
    const std::string text = error_text<DataError>([&] { (void)applied(map, HostTensor::scalar(label), "y"); });
    EXPECT_NE(text.find("wanted 0 to 2"), std::string::npos) << text;
  }
  EXPECT_THROW((void)applied(map, HostTensor::scalar(1.0F), "y"), ShapeError);
  EXPECT_THROW((void)maps::one_hot("y", 0), ArgumentError);
}

TEST(Maps, RandomCropCutsAPartFromEverywhere) {
  const MapFunction map = maps::random_crop({.height = 2, .width = 3});
  bool corners[2] = {};
  for (std::int64_t index = 0; index < 200; ++index) {
    const HostTensor part = applied(map, image_of(4, 5, 2), "image", index);
    ASSERT_EQ(part.shape(), (Shape{2, 3, 2}));
    const auto x = part.values<std::uint8_t>();
    for (std::size_t i = 1; i < 6; ++i) ASSERT_EQ(x[i], x[0] + i);
    ASSERT_EQ(x[6], x[0] + 10);
    corners[0] = corners[0] || x[0] == 1;
    corners[1] = corners[1] || x[0] == 1 + 2 * 10 + 2 * 2;
  }
  EXPECT_TRUE(corners[0] && corners[1]);
  EXPECT_TRUE(
      bitwise_equal(applied(maps::random_crop({.height = 4, .width = 5}), image_of(4, 5, 2)), image_of(4, 5, 2)));
}

TEST(Maps, RandomCropPadsWithZeros) {
  const MapFunction map = maps::random_crop({.height = 1, .width = 1, .padding = 3});
  int zeros = 0;
  for (std::int64_t index = 0; index < 490; ++index) {
    zeros += applied(map, image_of(1, 1, 1), "image", index).values<std::uint8_t>()[0] == 0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 460);  // 48 of 49
  EXPECT_LT(zeros, 490);
  EXPECT_EQ(
      applied(maps::random_crop({.height = 9, .width = 9, .padding = 4}), image_of(1, 1, 1)).values<std::uint8_t>()[40],
      1);
  EXPECT_THROW((void)applied(maps::random_crop({.height = 3, .width = 1}), image_of(2, 2, 1)), ShapeError);
  EXPECT_THROW((void)applied(maps::random_crop({.height = 1, .width = 1}), HostTensor(Dtype::u8, {2, 2})), ShapeError);
  EXPECT_THROW((void)maps::random_crop({.height = 1}), ArgumentError);
  EXPECT_THROW((void)maps::random_crop({.height = 1, .width = 1, .padding = -1}), ArgumentError);
}

TEST(Maps, RandomFlipTurnsColumnsRound) {
  const HostTensor turned = HostTensor::of<std::uint8_t>({2, 3, 2}, {5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8});
  EXPECT_TRUE(bitwise_equal(applied(maps::random_flip({.probability = 1}), image_of(2, 3, 2)), turned));
  EXPECT_TRUE(bitwise_equal(applied(maps::random_flip({.probability = 0}), image_of(2, 3, 2)), image_of(2, 3, 2)));
  int flips = 0;
  for (std::int64_t index = 0; index < 1000; ++index) {
    flips += bitwise_equal(applied(maps::random_flip(), image_of(2, 3, 2), "image", index), turned) ? 1 : 0;
  }
  EXPECT_NEAR(flips, 500, 80);  // five deviations
  EXPECT_THROW((void)maps::random_flip({.probability = 1.5F}), ArgumentError);
}

TEST(Maps, ResizeInterpolatesBetweenCentres) {
  const auto run = [](HostTensor image, std::int64_t height, std::int64_t width) {
    return applied(maps::resize({.height = height, .width = width}), std::move(image));
  };
  const HostTensor two = HostTensor::of<float>({1, 2, 1}, {0, 4});
  EXPECT_TRUE(bitwise_equal(run(two.clone(), 1, 4), HostTensor::of<float>({1, 4, 1}, {0, 1, 3, 4})));
  EXPECT_TRUE(bitwise_equal(run(two.clone(), 2, 1), HostTensor::of<float>({2, 1, 1}, {2, 2})));
  EXPECT_TRUE(bitwise_equal(run(HostTensor::of<std::uint8_t>({2, 2, 1}, {0, 10, 20, 31}), 1, 1),
                            HostTensor::of<std::uint8_t>({1, 1, 1}, {15})));
  EXPECT_TRUE(bitwise_equal(run(image_of(3, 4, 2), 3, 4), image_of(3, 4, 2)));
  HostTensor white(Dtype::u8, {3, 5, 1});
  for (std::uint8_t& x : white.values<std::uint8_t>()) x = 255;
  HostTensor resized = run(std::move(white), 7, 4);
  for (std::uint8_t x : resized.values<std::uint8_t>()) EXPECT_EQ(x, 255);
  EXPECT_EQ(run(HostTensor(Dtype::u8, {2, 2, 0}), 3, 3).shape(), (Shape{3, 3, 0}));
  EXPECT_THROW((void)run(HostTensor(Dtype::u8, {0, 2, 1}), 3, 3), ShapeError);
  EXPECT_THROW((void)run(HostTensor(Dtype::i32, {2, 2, 1}), 3, 3), ShapeError);
  EXPECT_THROW((void)maps::resize({.height = 3}), ArgumentError);
}

TEST(Maps, SelectAndRenameChangeWhatThereIs) {
  const auto two = [] {
    Example example = with("a", HostTensor::scalar(1));
    example.insert_or_assign("b", HostTensor::scalar(2));
    return example;
  };
  const MapContext context(0, 0, 0, 0);
  EXPECT_EQ(maps::select({"b"}).apply(two(), context).size(), 1U);
  EXPECT_EQ(maps::select({}).apply(two(), context).size(), 0U);
  const Example swapped = maps::rename({{"a", "b"}, {"b", "a"}}).apply(two(), context);
  EXPECT_EQ(swapped.at("a").item<std::int32_t>(), 2);
  EXPECT_EQ(swapped.at("b").item<std::int32_t>(), 1);
  EXPECT_THROW((void)maps::rename({{"a", "b"}}).apply(two(), context), ArgumentError);
  EXPECT_THROW((void)maps::rename({{"a", "c"}, {"b", "c"}}), ArgumentError);
  const std::string text = error_text<ArgumentError>([&] { (void)maps::select({"bb"}).apply(two(), context); });
  EXPECT_NE(text.find("maps::select asks for the tensor 'bb'; the example has 'a', 'b'"), std::string::npos) << text;
  EXPECT_THROW((void)maps::select({"a", "a"}).apply(two(), context), ArgumentError);
}

}  // namespace
}  // namespace sectionflow
