#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/window.h"

namespace sectionflow {

class OpRegistry;

// What the pools of two and of three spatial axes share. `dimensions`: "2d" or "3d", the end of the names of their ops:
//   max_pool     x -> y, index          the index of the maximum within its window; u8 while it fits, i32 beyond
//   max_pool_grad     dy, index, x -> dx      reads only the shape of x
//   average_pool x -> y
//   average_pool_grad dy, x -> dx             reads only the shape of x

/// Options of all these ops.
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

void define_pool_ops(OpRegistry& registry, const std::string& dimensions);

Value max_pool(Value x, const PoolOptions& options, const std::string& dimensions, Where where);
Value average_pool(Value x, const PoolOptions& options, const std::string& dimensions, Where where);
/// The largest of each channel of each image, x [N, sizes..., C] -> [N, C].
Value global_max_pool(Value x, std::size_t rank, DataFormat format, const std::string& dimensions, Where where);
/// The mean of each channel of each image.
Value global_average_pool(Value x, std::size_t rank, DataFormat format, const std::string& dimensions, Where where);

/// dx, where `forward` is the node of the pool and dy the gradient of its y.
Value pool_grad(Value dy, Node& forward);

}  // namespace sectionflow
