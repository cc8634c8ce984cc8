#include "graph/ops/pool.h"

#include <cstdint>
#include <utility>

#include "autodiff/gradient_registry.h"
#include "base/error.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/pool.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

/// The elements of windows with more are compared one by one: time and memory by their number.
constexpr std::int64_t kMostTaps = 256;

std::vector<Value> pool_gradient(const GradientRequest& r) {
  return {pool_grad(r.dy(), r.node)};
}

std::vector<Value> average_pool_grad_gradient(const GradientRequest& r) {
  return {average_pool(r.dy(), r.node.options<PoolOptions>()), Value()};
}

/// Images with their channels behind the batch, whatever their format.
Value channels_first(Value images, DataFormat format) {
  if (format == DataFormat::nchw) return images;
  std::vector<int> permutation = {0, -1};
  for (int axis = 1; axis + 1 < images.shape().rank(); ++axis) permutation.push_back(axis);
  return transpose(images, std::move(permutation), {});
}

/// The inverse of channels_first.
Value channels_in_place(Value images, DataFormat format) {
  if (format == DataFormat::nchw) return images;
  std::vector<int> permutation = {0};
  for (int axis = 2; axis < images.shape().rank(); ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return transpose(images, std::move(permutation), {});
}

/// Filters that copy: [window..., 1, taps], where filter t is 1 at element t of the window and 0 elsewhere.
Value one_filter_a_tap(Value images, const std::vector<std::int64_t>& window, std::int64_t taps) {
  HostTensor numbers(Dtype::i64, {taps});
  for (std::int64_t t = 0; t < taps; ++t) numbers.values<std::int64_t>()[static_cast<std::size_t>(t)] = t;
  const Value identity = one_hot(constant(images.graph(), std::move(numbers)), {.depth = taps});
  std::vector<std::int64_t> shape = window;
  shape.insert(shape.end(), {1, taps});
  return cast(reshape(identity, Shape(std::move(shape))), images.dtype());
}

// dx has each dy at its maximum: so what comes back to dy is the element of g at that place. A convolution with one
// filter an element of the window lays the windows of g side by side, and the index chooses among them.
std::vector<Value> max_pool_grad_gradient(const GradientRequest& r) {
  const PoolOptions& options = r.node.options<PoolOptions>();
  const DataFormat format = options.steps.format;
  const Value g = channels_first(r.dy(), format), index = channels_first(r.input(1), format);
  const std::int64_t taps = pool_geometry(r.input(2).shape(), options, r.node.label()).num_taps();
  SF_CHECK_CODE(taps <= kMostTaps, ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                " is differentiated for windows of up to ", kMostTaps, " elements, and has windows of ", taps,
                hint("take the largest of whole images by reduce_max, or use average pooling"));
  const std::vector<std::int64_t>& dims = g.shape().dims();
  SF_CHECK_CODE(dims[1] != kDynamic, ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                " is differentiated for a known number of channels", hint("reshape its input to one"));
  // Each channel is an image of its own.
  std::vector<std::int64_t> images = {-1};
  images.insert(images.end(), dims.begin() + 2, dims.end());
  images.push_back(1);
  ConvolutionOptions windows{.steps = options.steps};
  windows.steps.format = DataFormat::nhwc;
  const Value laid_out =
      convolution(reshape(g, Shape(std::move(images))), one_filter_a_tap(g, options.window, taps), windows);
  std::vector<std::int64_t> by_channel = index.shape().dims();
  by_channel[0] = -1;
  by_channel.push_back(taps);
  const Value chosen = cast(one_hot(cast(index, Dtype::i32), {.depth = taps}), g.dtype());
  const Value picked = reduce_sum(reshape(laid_out, Shape(std::move(by_channel))) * chosen, {.axes = {-1}});
  return {channels_in_place(picked, format), Value(), Value()};
}

}  // namespace

void add_pool_gradients(GradientRegistry& registry) {
  for (const std::string dimensions : {"2d", "3d"}) {
    registry.add("max_pool" + dimensions, pool_gradient);
    registry.add("average_pool" + dimensions, pool_gradient);
    registry.add("max_pool" + dimensions + "_grad", max_pool_grad_gradient);
    registry.add("average_pool" + dimensions + "_grad", average_pool_grad_gradient);
    for (const std::string kind : {"quantized_max_pool", "quantized_average_pool"}) {
      registry.add_refused(kind + dimensions, "numbers of 8 bits are for inference",
                           "train the graph that was frozen, in f32, and quantise it again");
    }
  }
}

}  // namespace sectionflow
