#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/ops/window.h"

namespace sectionflow {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride = {1, 1};  ///< {height, width}, >= 1
  Padding padding = Padding::same;
};

/// Two-dimensional cross-correlation, channels last. Shapes: x [N, H, W, C], w [KH, KW, C, F], y [N, OH, OW, F]. f32.
/// Throws: ShapeError when ranks or channels do not fit, or the kernel is larger than the padded image.
Value conv2d(Value x, Value w, Conv2dOptions options = {}, Where where = Where::here());
/// dx from dy. Reads only the shape of `x`.
Value conv2d_backward_input(Value dy, Value w, Value x, Conv2dOptions options);
/// dw from dy. Reads only the shape of `w`.
Value conv2d_backward_filter(Value dy, Value x, Value w, Conv2dOptions options);

/// All numbers of one convolution, worked out from the shapes. H and W known.
struct Conv2dGeometry {
  std::int64_t batch, height, width, channels;        // x [batch, height, width, channels]
  std::int64_t kernel_height, kernel_width, filters;  // w [kernel_height, kernel_width, channels, filters]
  std::int64_t out_height, out_width;                 // y [batch, out_height, out_width, filters]
  std::array<std::int64_t, 2> stride, pad_before, pad_after;
};
/// Throws: ShapeError (starting with `label`).
Conv2dGeometry conv2d_geometry(const Shape& x, const Shape& w, const Conv2dOptions& options, const std::string& label);

}  // namespace sectionflow
