#pragma once

#include <algorithm>
#include <cstdint>

#include "base/host_device.h"
#include "graph/nodes/pool.h"
#include "graph/nodes/window.h"
#include "graph/ops/pool.h"

namespace sectionflow {

/// [begin, end), in numbers of some signed type.
template <class Int>
struct BasicPoolSpan {
  Int begin = 0, end = 0;
  SF_HOST_DEVICE Int count() const { return end - begin; }
};
using PoolSpan = BasicPoolSpan<std::int64_t>;

/// The elements of window `o` that lie on the image, as indices within the window. `axis`: a WindowAxis, or its numbers
/// as another type.
template <class Axis, class Int = decltype(Axis::size)>
SF_HOST_DEVICE BasicPoolSpan<Int> taps_of(const Axis& axis, Int o) {
  const Int start = o * axis.stride - axis.before, fitting = axis.size - start;
  return {start < 0 ? -start : 0, fitting < axis.window ? fitting : axis.window};
}

/// The windows that cover element `i` of the image. `by_stride(n)`: n / axis.stride.
template <class Axis, class Divide, class Int = decltype(Axis::size)>
SF_HOST_DEVICE BasicPoolSpan<Int> windows_over(const Axis& axis, Int i, const Divide& by_stride) {
  const Int at = i + axis.before, after_last = by_stride(at) + 1;
  const Int begin = at < axis.window ? 0 : by_stride(at - axis.window) + 1;
  return {begin, after_last < axis.out ? after_last : axis.out};
}

/// Whether a maximum moves on from `best` to `value`, which comes behind it: of equal ones the first counts, and a NaN
/// is the largest.
SF_HOST_DEVICE inline bool is_new_maximum(float value, float best) {
  // "Not <=" holds for a NaN too; from then on nothing is larger. No branch, so that loops become vectors.
  return !(value <= best) & (best == best);
}

/// The numbers of a pool of three spatial axes, the missing ones of one element, over images with channels last. With
/// the channels behind the batch, each channel of an image is an image of one channel.
struct PoolLoop {
  std::int64_t batch, channels;
  WindowAxis axes[3] = {};
  bool include_padding;

  PoolLoop(const PoolGeometry& geometry, const PoolOptions& options)
      : batch(geometry.batch), channels(geometry.channels), include_padding(options.include_padding) {
    std::copy(geometry.axes.begin(), geometry.axes.end(), axes + 3 - geometry.axes.size());
    if (options.steps.format == DataFormat::nhwc) return;
    batch *= channels;
    channels = 1;
  }

  std::int64_t num_taps() const { return axes[0].window * axes[1].window * axes[2].window; }
  /// Elements of the window at {d, h, w} that its mean is divided by.
  SF_HOST_DEVICE float divisor(std::int64_t d, std::int64_t h, std::int64_t w) const {
    const std::int64_t at[3] = {d, h, w};
    std::int64_t count = 1;
    for (int i = 0; i < 3; ++i) count *= include_padding ? axes[i].window : taps_of(axes[i], at[i]).count();
    return static_cast<float>(count);
  }
};

}  // namespace sectionflow
