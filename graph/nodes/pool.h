#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/nodes/window.h"
#include "graph/ops/pool.h"

namespace SF_API sectionflow {

// What nodes, gradients and kernels of every rank share. The ops, with "2d" or "3d" behind "pool":
//   max_pool     x -> y, index          the index of the maximum within its window; u8 while it fits, i32 beyond
//   max_pool_grad     dy, index, x -> dx      reads only the shape of x
//   average_pool x -> y
//   average_pool_grad dy, x -> dx             reads only the shape of x
//   quantized_max_pool, quantized_average_pool    x -> y, integers of one scale, i8 or u8; no gradients

/// What the node of any of these ops keeps.
struct PoolOptions {
  std::vector<std::int64_t> window{};
  WindowSteps steps{};
  bool include_padding = false;  ///< an average divides by the whole window, also where it leaves the image
};

/// All numbers of a pool, worked out from the shape.
struct PoolGeometry {
  std::int64_t batch = 0, channels = 0;
  std::vector<WindowAxis> axes{};

  std::int64_t num_taps() const;  ///< elements of a whole window
};
/// Throws: ShapeError, ArgumentError (starting with `label`), also where a window would hold nothing but padding.
PoolGeometry pool_geometry(const Shape& x, const PoolOptions& options, const std::string& label);
/// What max_pool's index is kept in.
Dtype pool_index_dtype(const PoolGeometry& geometry);

/// Adds the op average_pool2d or average_pool3d.
Value average_pool(Value x, const PoolOptions& options);
/// Adds the op of that name, "quantized_max_pool" or "quantized_average_pool", for so many axes as the window has. A
/// mean is the exact sum of the integers over their number, rounded to f32 and then to the nearest integer, halves to
/// the even one. x and y are i8 or u8, alike.
Value quantized_pool(Value x, const std::string& kind, const PoolOptions& options, Where where = Where::here());
/// dx, where `forward` is the node of a pool and dy the gradient of its y.
Value pool_grad(Value dy, Node& forward);

}  // namespace sectionflow
