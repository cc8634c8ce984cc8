#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "graph/ops/resize.h"

namespace sectionflow {

/// Both images of a resize seen as [planes, height, width, depth].
struct ResizedImages {
  std::int64_t planes, depth;
  std::int64_t x_height, x_width, y_height, y_width;

  ResizedImages(const Shape& x, const Shape& y, DataFormat format) {
    const bool is_nhwc = format == DataFormat::nhwc;
    const int height_axis = is_nhwc ? 1 : 2;
    planes = is_nhwc ? x[0] : x[0] * x[1];
    depth = is_nhwc ? x[3] : 1;
    x_height = x[height_axis];
    x_width = x[height_axis + 1];
    y_height = y[height_axis];
    y_width = y[height_axis + 1];
  }
  bool are_alike() const { return x_height == y_height && x_width == y_width; }
};

namespace formulas {

/// What one pixel of y takes along one axis: low_weight x[low] + high_weight x[high].
struct ResizeTap {
  std::int64_t low, high;
  float low_weight, high_weight;

  /// What pixel i of x gives.
  SF_HOST_DEVICE float weight_of(std::int64_t i) const {
    return (low == i ? low_weight : 0.0F) + (high == i ? high_weight : 0.0F);
  }
};

/// One axis of a resize. Places are fractions of whole numbers, so that no rounding moves a pixel.
struct ResizeAxis {
  std::int64_t in, out;
  bool is_nearest, align_corners;

  ResizeAxis(std::int64_t in, std::int64_t out, const Resize2dOptions& options)
      : in(in), out(out), is_nearest(options.method == ResizeMethod::nearest), align_corners(options.align_corners) {}

  /// The tap of pixel i of y. The taps of later pixels lie no further back.
  SF_HOST_DEVICE ResizeTap tap(std::int64_t i) const {
    const std::int64_t numerator_step = align_corners ? in - 1 : 2 * in;
    const std::int64_t denominator = !align_corners ? 2 * out : out > 1 ? out - 1 : 1;
    const std::int64_t place = numerator_step * i + (align_corners ? 0 : in - out);
    if (is_nearest) {
      const std::int64_t nearest = (2 * place + denominator) / (2 * denominator);
      return {nearest, nearest, 1.0F, 0.0F};
    }
    const std::int64_t inside = place < 0 ? 0 : place;
    const std::int64_t low = inside / denominator;
    const double fraction = static_cast<double>(inside % denominator) / static_cast<double>(denominator);
    return {low, low + 1 < in ? low + 1 : in - 1, static_cast<float>(1 - fraction), static_cast<float>(fraction)};
  }
};

/// The pixels of y that take from one pixel of x, which are neighbours: [begin, end).
struct ResizeTakers {
  std::int64_t begin, end;
};

/// The first k of `count` that holds, of those in order of which the last hold; `count` if none does.
template <class Holds>
SF_HOST_DEVICE inline std::int64_t first_that_holds(std::int64_t count, const Holds& holds) {
  std::int64_t begin = 0;
  while (begin < count) {
    const std::int64_t middle = begin + (count - begin) / 2;
    if (holds(middle)) {
      count = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

/// Who takes from pixel i of x, by the taps of all `count` pixels of y.
SF_HOST_DEVICE inline ResizeTakers takers_of(std::int64_t i, const ResizeTap* taps, std::int64_t count) {
  return {first_that_holds(count, [=](std::int64_t k) { return taps[k].high >= i; }),
          first_that_holds(count, [=](std::int64_t k) { return taps[k].low > i; })};
}

/// A number between four: above and below, each low and high.
SF_HOST_DEVICE inline float blend(const ResizeTap& row, const ResizeTap& column, float above_low, float above_high,
                                  float below_low, float below_high) {
  const float in_above = column.low_weight * above_low + column.high_weight * above_high;
  const float in_below = column.low_weight * below_low + column.high_weight * below_high;
  return row.low_weight * in_above + row.high_weight * in_below;
}

}  // namespace formulas
}  // namespace sectionflow
