#include "graph/ops/pool2d.h"

#include "graph/op_registry.h"
#include "graph/ops/pool.h"

namespace sectionflow {
namespace {

PoolOptions node_options(const Pool2dOptions& options) {
  return {.window = {options.window.begin(), options.window.end()},
          .steps = window_steps(options.stride, {1, 1}, options.padding, options.format),
          .include_padding = options.include_padding};
}

}  // namespace

void define_pool2d_ops(OpRegistry& registry) {
  define_pool_ops(registry, "2d");
}

Value max_pool2d(Value x, Pool2dOptions options, Where where) {
  return max_pool(x, node_options(options), "2d", where);
}
Value average_pool2d(Value x, Pool2dOptions options, Where where) {
  return average_pool(x, node_options(options), "2d", where);
}
Value global_max_pool2d(Value x, DataFormat format, Where where) {
  return global_max_pool(x, 2, format, "2d", where);
}
Value global_average_pool2d(Value x, DataFormat format, Where where) {
  return global_average_pool(x, 2, format, "2d", where);
}

}  // namespace sectionflow
