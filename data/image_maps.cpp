// Maps for images [H,W,C].

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "data/maps.h"
#include "data/pipeline/batch_examples.h"

namespace sectionflow::maps {
namespace {

HostTensor& image_named(Example& example, const std::string& name, const char* who) {
  HostTensor& image = tensor_named(example, name, who);
  SF_CHECK(image.shape().rank() == 3, ShapeError, who, ": '", name, "' is ", image.type().text(),
           "; wanted an image [H,W,C]");
  return image;
}

std::size_t pixel_bytes(const HostTensor& image) {
  return static_cast<std::size_t>(image.shape()[2]) * dtype_bytes(image.dtype());
}

/// The part from row `top` and column `left`, which may lie outside the image; there it is zero.
HostTensor cropped(const HostTensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                   std::int64_t width) {
  const Shape& shape = image.shape();
  HostTensor out(image.dtype(), {height, width, shape[2]});
  const std::size_t pixel = pixel_bytes(image);
  const std::int64_t first_column = std::max<std::int64_t>(left, 0);
  const std::int64_t columns = std::min(left + width, shape[1]) - first_column;
  if (columns <= 0) return out;
  for (std::int64_t row = 0; row < height; ++row) {
    const std::int64_t from = top + row;
    if (from < 0 || from >= shape[0]) continue;
    std::memcpy(out.bytes() + static_cast<std::size_t>(row * width + first_column - left) * pixel,
                image.bytes() + static_cast<std::size_t>(from * shape[1] + first_column) * pixel,
                static_cast<std::size_t>(columns) * pixel);
  }
  return out;
}

HostTensor flipped(const HostTensor& image) {
  const std::int64_t height = image.shape()[0], width = image.shape()[1];
  HostTensor out(image.type());
  const std::size_t pixel = pixel_bytes(image);
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      std::memcpy(out.bytes() + static_cast<std::size_t>(row * width + column) * pixel,
                  image.bytes() + static_cast<std::size_t>(row * width + width - 1 - column) * pixel, pixel);
    }
  }
  return out;
}

/// Between which two places of the image one of the result lies, and how much of the second is in it.
struct Between {
  std::size_t first, second;
  float share;
};

/// Centres of pixels lie at halves: place i of `to` is that of (i + 1/2) * from / to - 1/2.
std::vector<Between> places(std::int64_t from, std::int64_t to) {
  std::vector<Between> places(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double inside = std::clamp(at, 0.0, static_cast<double>(from - 1));
    const auto first = static_cast<std::int64_t>(inside);
    places[static_cast<std::size_t>(i)] = {static_cast<std::size_t>(first),
                                           static_cast<std::size_t>(std::min(first + 1, from - 1)),
                                           static_cast<float>(inside - static_cast<double>(first))};
  }
  return places;
}

template <class T>
HostTensor resized(const HostTensor& image, std::int64_t height, std::int64_t width) {
  const Shape& shape = image.shape();
  HostTensor out(image.dtype(), {height, width, shape[2]});
  if (out.num_bytes() == 0) return out;
  const std::vector<Between> rows = places(shape[0], height), columns = places(shape[1], width);
  const auto channels = static_cast<std::size_t>(shape[2]);
  const std::size_t row_size = static_cast<std::size_t>(shape[1]) * channels;
  const T* x = image.values<T>().data();
  T* y = out.values<T>().data();
  for (const Between& row : rows) {
    const T* upper = x + row.first * row_size;
    const T* lower = x + row.second * row_size;
    for (const Between& column : columns) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const std::size_t left = column.first * channels + channel, right = column.second * channels + channel;
        const auto above_left = static_cast<float>(upper[left]), above_right = static_cast<float>(upper[right]);
        const auto below_left = static_cast<float>(lower[left]), below_right = static_cast<float>(lower[right]);
        const float above = above_left + (above_right - above_left) * column.share;
        const float below = below_left + (below_right - below_left) * column.share;
        const float value = above + (below - above) * row.share;
        if constexpr (std::is_same_v<T, std::uint8_t>) {
          *y++ = static_cast<std::uint8_t>(value + 0.5F);
        } else {
          *y++ = value;
        }
      }
    }
  }
  return out;
}

}  // namespace

MapFunction random_crop(CropOptions options) {
  SF_CHECK(options.height >= 1 && options.width >= 1 && options.padding >= 0, ArgumentError,
           "maps::random_crop: ", options.height, " x ", options.width, " with padding ", options.padding,
           "; wanted 1 x 1 or more, and no negative padding");
  std::string name = text_of("random_crop ", options.tensor, " to ", options.height, "x", options.width, ", padding ",
                             options.padding);
  return {[options = std::move(options)](Example example, const MapContext& context) {
            HostTensor& image = image_named(example, options.tensor, "maps::random_crop");
            const std::int64_t border = checked_multiply(2, options.padding);
            const std::int64_t rows = checked_add(image.shape()[0], border) - options.height;
            const std::int64_t columns = checked_add(image.shape()[1], border) - options.width;
            SF_CHECK(rows >= 0 && columns >= 0, ShapeError, "maps::random_crop: '", options.tensor, "' is ",
                     image.type().text(), ", and with padding ", options.padding, " smaller than ", options.height,
                     " x ", options.width);
            const std::int64_t top = context.below(rows + 1, 0) - options.padding;
            const std::int64_t left = context.below(columns + 1, 1) - options.padding;
            image = cropped(image, top, left, options.height, options.width);
            return example;
          },
          std::move(name)};
}

MapFunction random_flip(FlipOptions options) {
  SF_CHECK(options.probability >= 0 && options.probability <= 1, ArgumentError, "maps::random_flip: probability is ",
           options.probability, "; wanted 0 to 1");
  std::string name = text_of("random_flip ", options.tensor, " with ", options.probability);
  return {[options = std::move(options)](Example example, const MapContext& context) {
            HostTensor& image = image_named(example, options.tensor, "maps::random_flip");
            if (context.uniform(0) < options.probability) image = flipped(image);
            return example;
          },
          std::move(name)};
}

MapFunction resize(ResizeOptions options) {
  SF_CHECK(options.height >= 1 && options.width >= 1, ArgumentError, "maps::resize: ", options.height, " x ",
           options.width, "; wanted 1 x 1 or more");
  std::string name = text_of("resize ", options.tensor, " to ", options.height, "x", options.width);
  return {[options = std::move(options)](Example example) {
            HostTensor& image = image_named(example, options.tensor, "maps::resize");
            SF_CHECK(image.shape()[0] >= 1 && image.shape()[1] >= 1, ShapeError, "maps::resize: '", options.tensor,
                     "' is ", image.type().text(), "; wanted a pixel at least");
            SF_CHECK(image.dtype() == Dtype::u8 || image.dtype() == Dtype::f32, ShapeError, "maps::resize: '",
                     options.tensor, "' is ", image.type().text(), "; wanted u8 or f32");
            image = image.dtype() == Dtype::u8 ? resized<std::uint8_t>(image, options.height, options.width)
                                               : resized<float>(image, options.height, options.width);
            return example;
          },
          std::move(name)};
}

}  // namespace sectionflow::maps
