#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

/// The window of a pool of `rank` spatial axes and how it moves.
template <std::size_t rank>
struct PoolNdOptions {
  PerAxis<rank> window = 2;                                    ///< {height, width} or {depth, height, width}, >= 1
  PerAxis<rank> stride = 2;                                    ///< >= 1
  SpatialPadding<rank> padding = SpatialPadding<rank>::valid;  ///< less than the window
  DataFormat format = DataFormat::nhwc;                        ///< nhwc is the fast one
  /// For averages: divide by the whole window, also where it leaves the image, instead of by the elements it covers.
  bool include_padding = false;
};
/// Images of two dimensions.
using Pool2dOptions = PoolNdOptions<2>;
/// Volumes.
using Pool3dOptions = PoolNdOptions<3>;

/// The largest element of each window; of several the first. A NaN is the largest. The gradient goes to that element
/// and needs neither x nor y, but one byte an output (four for windows of more than 256 elements).
/// Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw), y [N, OH, OW, C]. f32 or bf16.
/// Throws: ShapeError, ArgumentError when ranks do not fit, or a window is larger than the padded image.
Value max_pool2d(Value x, Pool2dOptions options = {}, Where where = Where::here());
/// The same of volumes. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw), y [N, OD, OH, OW, C].
Value max_pool3d(Value x, Pool3dOptions options = {}, Where where = Where::here());
/// The mean of each window. Shapes and errors as for max_pool2d. f32 or bf16. The gradient needs nothing but the shape
/// of x.
Value average_pool2d(Value x, Pool2dOptions options = {}, Where where = Where::here());
/// The same of volumes. Shapes: as for max_pool3d.
Value average_pool3d(Value x, Pool3dOptions options = {}, Where where = Where::here());

/// The largest element of each channel of each image, as max_pool2d.
/// Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw), y [N, C]. f32 or bf16.
Value global_max_pool2d(Value x, DataFormat format = DataFormat::nhwc, Where where = Where::here());
/// The same of volumes. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw), y [N, C].
Value global_max_pool3d(Value x, DataFormat format = DataFormat::nhwc, Where where = Where::here());
/// The mean of each channel of each image. Shapes: as for global_max_pool2d. f32 or bf16.
Value global_average_pool2d(Value x, DataFormat format = DataFormat::nhwc, Where where = Where::here());
/// The same of volumes. Shapes: as for global_max_pool3d.
Value global_average_pool3d(Value x, DataFormat format = DataFormat::nhwc, Where where = Where::here());

}  // namespace sectionflow
