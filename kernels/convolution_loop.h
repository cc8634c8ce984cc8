#pragma once

#include <algorithm>
#include <cstdint>

#include "base/host_device.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "graph/ops/convolution.h"

namespace sectionflow {

/// The numbers of a convolution of three spatial axes, the missing ones of one element, for loops of our own.
struct ConvolutionLoop {
  std::int64_t batch, groups, group_channels, group_filters;
  WindowAxis axes[3] = {};

  explicit ConvolutionLoop(const ConvolutionGeometry& g)
      : batch(g.batch), groups(g.groups), group_channels(g.channels / g.groups), group_filters(g.filters / g.groups) {
    std::copy(g.axes.begin(), g.axes.end(), axes + 3 - g.axes.size());
  }
  SF_HOST_DEVICE std::int64_t channels() const { return groups * group_channels; }
  SF_HOST_DEVICE std::int64_t filters() const { return groups * group_filters; }
  SF_HOST_DEVICE std::int64_t num_taps() const { return axes[0].window * axes[1].window * axes[2].window; }
  SF_HOST_DEVICE std::int64_t x_pixels() const { return axes[0].size * axes[1].size * axes[2].size; }
  SF_HOST_DEVICE std::int64_t y_pixels() const { return axes[0].out * axes[1].out * axes[2].out; }
};

/// The element of the image under tap `t` of output `o`, or -1.
SF_HOST_DEVICE inline std::int64_t element_under(const WindowAxis& axis, std::int64_t o, std::int64_t t) {
  const std::int64_t i = o * axis.stride - axis.before + t * axis.dilation;
  return i >= 0 && i < axis.size ? i : -1;
}

/// The output that has tap `t` over element `i` of the image, or -1.
SF_HOST_DEVICE inline std::int64_t output_over(const WindowAxis& axis, std::int64_t i, std::int64_t t) {
  const std::int64_t at = i + axis.before - t * axis.dilation;
  return at >= 0 && at % axis.stride == 0 && at / axis.stride < axis.out ? at / axis.stride : -1;
}

}  // namespace sectionflow
