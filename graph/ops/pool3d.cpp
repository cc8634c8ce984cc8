#include "graph/ops/pool3d.h"

#include "graph/op_registry.h"
#include "graph/ops/pool.h"

namespace sectionflow {
namespace {

PoolOptions node_options(const Pool3dOptions& options) {
  return {.window = {options.window.begin(), options.window.end()},
          .steps = window_steps(options.stride, {1, 1, 1}, options.padding, options.format),
          .include_padding = options.include_padding};
}

}  // namespace

void define_pool3d_ops(OpRegistry& registry) {
  define_pool_ops(registry, "3d");
}

Value max_pool3d(Value x, Pool3dOptions options, Where where) {
  return max_pool(x, node_options(options), "3d", where);
}
Value average_pool3d(Value x, Pool3dOptions options, Where where) {
  return average_pool(x, node_options(options), "3d", where);
}
Value global_max_pool3d(Value x, DataFormat format, Where where) {
  return global_max_pool(x, 3, format, "3d", where);
}
Value global_average_pool3d(Value x, DataFormat format, Where where) {
  return global_average_pool(x, 3, format, "3d", where);
}

}  // namespace sectionflow
