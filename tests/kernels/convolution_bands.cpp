// Bands together are the convolution: each pixel of y once, of the pixels of x that its window reads.

#include "kernels/cpu/convolution_bands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/convolution_loop.h"

namespace sectionflow {
namespace {

WindowAxis axis_of(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t before, std::int64_t after,
                   std::int64_t dilation = 1) {
  WindowAxis axis{size, window, stride, dilation, before, after};
  axis.out = (size + before + after - axis.extent()) / stride + 1;
  return axis;
}

ConvolutionGeometry geometry_of(std::int64_t batch, std::vector<WindowAxis> axes) {
  return {.batch = batch, .channels = 8, .filters = 16, .groups = 1, .axes = std::move(axes)};
}

/// For each pixel of y, in order, the pixels of x under its window, -1 for padding; `first` stand before the images.
std::vector<std::vector<std::int64_t>> pixels_read(const ConvolutionGeometry& geometry, std::int64_t first) {
  const ConvolutionLoop loop(geometry);
  const WindowAxis* axes = loop.axes;
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t pixel = 0; pixel < loop.batch * loop.y_pixels(); ++pixel) {
    const std::int64_t image = pixel / loop.y_pixels();
    const std::int64_t out[3] = {pixel / (axes[1].out * axes[2].out) % axes[0].out, pixel / axes[2].out % axes[1].out,
                                 pixel % axes[2].out};
    std::vector<std::int64_t>& read = all.emplace_back();
    for (std::int64_t tap = 0; tap < loop.num_taps(); ++tap) {
      const std::int64_t d = element_under(axes[0], out[0], tap / (axes[1].window * axes[2].window)),
                         h = element_under(axes[1], out[1], tap / axes[2].window % axes[1].window),
                         w = element_under(axes[2], out[2], tap % axes[2].window);
      const bool is_there = d >= 0 && h >= 0 && w >= 0;
      read.push_back(is_there ? first + ((image * axes[0].size + d) * axes[1].size + h) * axes[2].size + w : -1);
    }
  }
  return all;
}

const std::vector<ConvolutionGeometry>& geometries() {
  static const std::vector<ConvolutionGeometry> all = {
      geometry_of(1, {axis_of(112, 7, 2, 2, 3), axis_of(9, 7, 2, 2, 3)}),
      geometry_of(1, {axis_of(14, 3, 1, 1, 1), axis_of(14, 3, 1, 1, 1)}),
      geometry_of(3, {axis_of(14, 3, 2, 0, 1), axis_of(13, 3, 2, 1, 1)}),
      geometry_of(5, {axis_of(7, 1, 1, 0, 0), axis_of(6, 1, 1, 0, 0)}),
      geometry_of(2, {axis_of(8, 1, 2, 0, 0), axis_of(8, 1, 2, 0, 0)}),  // pixels that no window reads
      geometry_of(1, {axis_of(11, 3, 1, 2, 2, 2), axis_of(5, 1, 1, 0, 0)}),
      geometry_of(4, {axis_of(3, 2, 1, 0, 1), axis_of(5, 3, 1, 1, 1), axis_of(4, 1, 1, 0, 0)})};
  return all;
}

TEST(ConvolutionBands, AreTogetherTheConvolution) {
  for (const ConvolutionGeometry& whole : geometries()) {
    const auto wanted = pixels_read(whole, 0);
    for (const std::int64_t most : {1, 20, 50, 300, 100000}) {
      for (const std::int64_t lanes : {1, 2, 3, 8}) {
        std::vector<std::vector<std::int64_t>> read;
        for (const ConvolutionBand& band : convolution_bands(whole, most, lanes)) {
          EXPECT_EQ(band.first_y, static_cast<std::int64_t>(read.size()));
          const auto of_band = pixels_read(band.geometry, band.first_x);
          EXPECT_EQ(band.pixels(), static_cast<std::int64_t>(of_band.size()));
          read.insert(read.end(), of_band.begin(), of_band.end());
        }
        EXPECT_EQ(read, wanted) << whole.x_shape() << ", at most " << most << " pixels, " << lanes << " lanes";
      }
    }
  }
}

TEST(ConvolutionBands, AreNoLargerThanTheyMayBeAndAsManyForEachLane) {
  const auto bands = convolution_bands(geometries()[0], 100, 2);  // rows of 4 pixels, 56 of them
  ASSERT_EQ(bands.size(), 4U);
  for (const ConvolutionBand& band : bands) EXPECT_EQ(band.pixels(), 56);
  EXPECT_FALSE(are_alike(bands[0], bands[1]));  // with padding above, and without
  EXPECT_TRUE(are_alike(bands[1], bands[2]));
  EXPECT_FALSE(are_alike(bands[2], bands[3]));
  const auto rows = convolution_bands(geometries()[3], 50, 2);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0].pixels(), 35);
  EXPECT_EQ(convolution_bands(geometries()[6], 100, 2).size(), 4U);  // an image each
}

TEST(ConvolutionBands, AreNoneWhereARowReadsPaddingAlone) {
  const auto far = geometry_of(1, {axis_of(4, 1, 1, 3, 0), axis_of(4, 1, 1, 0, 0)});
  EXPECT_TRUE(convolution_bands(far, 1, 1).empty());
}

}  // namespace
}  // namespace sectionflow
