#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "graph/ops/convolution.h"
#include "kernels/cuda/library/transpose_matrices.h"

// What cuDNN is told of a convolution: plain numbers, without the library.
namespace sectionflow::gpu {

/// A convolution as cuDNN's descriptors say it. All dimensions stand in the order N, C, sizes (filters: F, C / groups,
/// window), wherever the channels lie.
struct ConvolutionNumbers {
  bool channels_last = true;  ///< x and y [N, sizes..., C], the filter [F, window..., C / groups]; or N, C, sizes
  std::vector<int> x{}, y{}, filter{};
  std::vector<int> padding{}, stride{}, dilation{};  ///< one a spatial axis
  int groups = 1;
  /// From our filter [window..., C / groups, F] to cuDNN's.
  MatrixTranspose filter_copy{};

  std::int64_t filter_elements() const {
    std::int64_t product = 1;
    for (int dim : filter) product *= dim;
    return product;
  }
};

/// Whether `axis.before` zeros on both sides give the outputs that the axis has: cuDNN knows no other padding. Then
/// each output reads what it should, since positions count from the start.
inline bool pads_evenly(const WindowAxis& axis) {
  const std::int64_t places = axis.size + 2 * axis.before - axis.extent();
  return places >= 0 && places / axis.stride + 1 == axis.out;
}

/// The filter's copy. Channels last, or a single tap: [taps C/G, F] turned over. Channels first: for each channel
/// [taps, F] turned over.
inline MatrixTranspose filter_copy(std::int64_t taps, std::int64_t channels, std::int64_t filters, bool channels_last) {
  if (channels_last || taps == 1) {
    return {.batch = 1, .rows = taps * channels, .columns = filters, .x_row = filters, .y_row = taps * channels};
  }
  return {.batch = channels,
          .rows = taps,
          .columns = filters,
          .x_batch = filters,
          .x_row = channels * filters,
          .y_batch = taps,
          .y_row = channels * taps};
}

/// Nothing for what cuDNN does not take: no elements, more than 2^31 - 1 of them, zeros that are not the same before
/// and after (padded_convolution.h).
inline std::optional<ConvolutionNumbers> convolution_numbers(const ConvolutionGeometry& g) {
  ConvolutionNumbers n;
  n.channels_last = g.format == DataFormat::nhwc;
  bool fits = true;
  const auto narrow = [&fits](std::int64_t number) {
    fits = fits && number >= 0 && number <= std::numeric_limits<int>::max();
    return fits ? static_cast<int>(number) : 0;
  };
  n.groups = narrow(g.groups);
  n.x = {narrow(g.batch), narrow(g.channels)};
  n.y = {narrow(g.batch), narrow(g.filters)};
  n.filter = {narrow(g.filters), narrow(g.channels / g.groups)};
  for (const WindowAxis& axis : g.axes) {
    fits = fits && pads_evenly(axis);
    n.x.push_back(narrow(axis.size));
    n.y.push_back(narrow(axis.out));
    n.filter.push_back(narrow(axis.window));
    n.padding.push_back(narrow(axis.before));
    n.stride.push_back(narrow(axis.stride));
    n.dilation.push_back(narrow(axis.dilation));
  }
  for (const std::vector<int>* dims : {&n.x, &n.y, &n.filter}) {
    std::int64_t elements = 1;
    for (int dim : *dims) {
      elements *= dim;
      // One factor at a time: a product of several might not fit 64 bits.
      fits = fits && elements >= 1 && elements <= std::numeric_limits<int>::max();
      if (!fits) return std::nullopt;
    }
  }
  n.filter_copy = filter_copy(g.num_taps(), g.channels / g.groups, g.filters, n.channels_last);
  return n;
}

}  // namespace sectionflow::gpu
