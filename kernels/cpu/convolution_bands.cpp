#include "kernels/cpu/convolution_bands.h"

#include <algorithm>
#include <numeric>

namespace sectionflow {
namespace {

std::int64_t divided_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

/// Pixels of an image of x or y, along the axes from `axis` on.
template <class Size>
std::int64_t pixels_of(const ConvolutionGeometry& g, std::size_t axis, const Size& size) {
  std::int64_t pixels = 1;
  for (; axis < g.axes.size(); ++axis) pixels *= size(g.axes[axis]);
  return pixels;
}
std::int64_t x_pixels(const ConvolutionGeometry& g, std::size_t axis = 0) {
  return pixels_of(g, axis, [](const WindowAxis& each) { return each.size; });
}
std::int64_t y_pixels(const ConvolutionGeometry& g, std::size_t axis = 0) {
  return pixels_of(g, axis, [](const WindowAxis& each) { return each.out; });
}

/// Whether each pixel of y is made of one of x, in order: a product of rows.
bool is_product_of_rows(const ConvolutionGeometry& g) {
  return std::all_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) {
    return axis.window == 1 && axis.stride == 1 && axis.before == 0 && axis.after == 0;
  });
}

/// In how many bands of the same size, where that can be: such that none has more than `most`, a multiple of `lanes`.
std::int64_t num_bands(std::int64_t count, std::int64_t most, std::int64_t lanes) {
  return divided_up(divided_up(count, std::max<std::int64_t>(most, 1)), lanes) * lanes;
}

/// Pixels one after the other, whichever rows and images they are of.
std::vector<ConvolutionBand> bands_of_pixels(const ConvolutionGeometry& whole, std::int64_t most, std::int64_t lanes) {
  const std::int64_t pixels = whole.batch * y_pixels(whole);
  const std::int64_t each = divided_up(pixels, num_bands(pixels, most, lanes));
  std::vector<ConvolutionBand> bands;
  for (std::int64_t at = 0; at < pixels; at += each) {
    ConvolutionBand band{whole, at, at};
    band.geometry.batch = 1;
    for (WindowAxis& axis : band.geometry.axes) axis.size = axis.out = 1;
    band.geometry.axes.back().size = band.geometry.axes.back().out = std::min(each, pixels - at);
    bands.push_back(std::move(band));
  }
  return bands;
}

std::vector<ConvolutionBand> bands_of_images(const ConvolutionGeometry& whole, std::int64_t most, std::int64_t lanes) {
  const std::int64_t each = divided_up(whole.batch, std::min(whole.batch, num_bands(whole.batch, most, lanes)));
  std::vector<ConvolutionBand> bands;
  for (std::int64_t at = 0; at < whole.batch; at += each) {
    ConvolutionBand band{whole, at * x_pixels(whole), at * y_pixels(whole)};
    band.geometry.batch = std::min(each, whole.batch - at);
    bands.push_back(std::move(band));
  }
  return bands;
}

/// The rows of an image from `begin` to `end`: of x what their windows read.
ConvolutionBand band_of_rows(const ConvolutionGeometry& whole, std::int64_t image, std::int64_t begin,
                             std::int64_t end) {
  const WindowAxis& rows = whole.axes.front();
  const std::int64_t first = begin * rows.stride - rows.before,
                     last = (end - 1) * rows.stride - rows.before + rows.extent();
  const std::int64_t from = std::max<std::int64_t>(first, 0), to = std::min(last, rows.size);
  ConvolutionBand band{whole, image * x_pixels(whole) + from * x_pixels(whole, 1),
                       image * y_pixels(whole) + begin * y_pixels(whole, 1)};
  band.geometry.batch = 1;
  WindowAxis& axis = band.geometry.axes.front();
  axis.before = from - first;
  axis.size = to - from;
  axis.after = last - to;
  axis.out = end - begin;
  return band;
}

std::vector<ConvolutionBand> bands_of_rows(const ConvolutionGeometry& whole, std::int64_t most, std::int64_t lanes) {
  const std::int64_t rows = whole.axes.front().out;
  // Of all images together there are to be as many for each lane.
  const std::int64_t of_image = num_bands(rows, most / y_pixels(whole, 1), lanes / std::gcd(whole.batch, lanes));
  const std::int64_t each = divided_up(rows, std::min(rows, of_image));
  std::vector<ConvolutionBand> bands;
  for (std::int64_t image = 0; image < whole.batch; ++image) {
    for (std::int64_t at = 0; at < rows; at += each) {
      bands.push_back(band_of_rows(whole, image, at, std::min(rows, at + each)));
      if (bands.back().geometry.axes.front().size <= 0) return {};
    }
  }
  return bands;
}

}  // namespace

std::int64_t ConvolutionBand::pixels() const {
  return geometry.batch * y_pixels(geometry);
}

bool are_alike(const ConvolutionBand& a, const ConvolutionBand& b) {
  const auto is_same = [](const WindowAxis& one, const WindowAxis& other) {
    return one.size == other.size && one.before == other.before && one.after == other.after && one.out == other.out;
  };
  return a.geometry.batch == b.geometry.batch && std::equal(a.geometry.axes.begin(), a.geometry.axes.end(),
                                                            b.geometry.axes.begin(), b.geometry.axes.end(), is_same);
}

std::vector<ConvolutionBand> convolution_bands(const ConvolutionGeometry& whole, std::int64_t most_pixels,
                                               std::int64_t lanes) {
  if (is_product_of_rows(whole)) return bands_of_pixels(whole, most_pixels, lanes);
  const std::int64_t images = most_pixels / y_pixels(whole);
  return images > 0 && whole.batch >= lanes ? bands_of_images(whole, images, lanes)
                                            : bands_of_rows(whole, most_pixels, lanes);
}

}  // namespace sectionflow
