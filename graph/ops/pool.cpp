#include "graph/ops/pool.h"

#include "graph/nodes/pool.h"
#include "graph/nodes/quantize.h"
#include "graph/nodes/window.h"
#include "graph/op_registry.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {

std::int64_t PoolGeometry::num_taps() const {
  return sectionflow::num_taps(axes, "pool");
}

PoolGeometry pool_geometry(const Shape& x, const PoolOptions& options, const std::string& label) {
  const std::size_t rank = options.window.size();
  SF_CHECK(x.rank() == static_cast<int>(rank) + 2, ShapeError, label, " got ", x, "; wanted ",
           image_text(rank, options.steps.format));
  const ImageDims image = image_dims(x, options.steps.format);
  for (std::size_t i = 0; i < rank; ++i) {
    SF_CHECK(options.window[i] >= 1, ArgumentError, label, ": window of ", numbers_text(options.window),
             "; wanted 1 or more along each axis");
    SF_CHECK(image.sizes[i] != 0, ShapeError, label, " got ", x, ": images without elements have no maximum or mean");
  }
  PoolGeometry geometry{image.batch, image.channels, image_axes(x, options.window, options.steps, label)};
  (void)num_taps(geometry.axes, label);
  for (const WindowAxis& axis : geometry.axes) {
    // So every window reaches into the image.
    SF_CHECK(axis.before < axis.window && axis.after < axis.window, ArgumentError, label, ": padding of ", axis.before,
             " and ", axis.after, " leaves windows of ", axis.window,
             " without any element; wanted less padding than window");
  }
  return geometry;
}

Dtype pool_index_dtype(const PoolGeometry& geometry) {
  return geometry.num_taps() <= 256 ? Dtype::u8 : Dtype::i32;
}

namespace {

void check_window(const ShapeRequest& request, std::size_t rank) {
  const auto& options = request.get<PoolOptions>();
  SF_CHECK(options.window.size() == rank, ArgumentError, request.label, " got a window of ", options.window.size(),
           " axes; wanted ", rank);
}

Shape output_shape(const PoolGeometry& geometry, DataFormat format) {
  return image_shape({geometry.batch, geometry.channels, outputs_of(geometry.axes)}, format);
}

std::vector<TensorType> infer_pool(const ShapeRequest& request, std::size_t rank, bool has_index) {
  check_window(request, rank);
  check_f32_or_bf16(request.inputs[0], request.label);
  const auto& options = request.get<PoolOptions>();
  const PoolGeometry geometry = pool_geometry(request.inputs[0].shape, options, request.label);
  SF_CHECK(!has_index || geometry.num_taps() <= INT32_MAX, ShapeError, request.label, ": windows of ",
           geometry.num_taps(), " elements are too large to be counted in i32");
  const Shape shape = output_shape(geometry, options.steps.format);
  const Dtype dtype = request.inputs[0].dtype;
  if (!has_index) return {{dtype, shape}};
  return {{dtype, shape}, {pool_index_dtype(geometry), shape}};
}

/// A mean of integers is taken of their sum in i32.
std::vector<TensorType> infer_quantized_pool(const ShapeRequest& request, std::size_t rank) {
  check_window(request, rank);
  const TensorType& x = request.inputs[0];
  check_quantized(x, request.label);
  const auto& options = request.get<PoolOptions>();
  const PoolGeometry geometry = pool_geometry(x.shape, options, request.label);
  constexpr std::int64_t kMostTaps = 1 << 23;
  SF_CHECK(geometry.num_taps() <= kMostTaps, ShapeError, request.label, ": windows of ", geometry.num_taps(),
           " elements; wanted at most ", kMostTaps, ", whose sum of 8 bits always fits an i32");
  return {{x.dtype, output_shape(geometry, options.steps.format)}};
}

/// Inputs: dy, the index of a max pool, x.
std::vector<TensorType> infer_grad(const ShapeRequest& request, std::size_t rank) {
  check_window(request, rank);
  const TensorType& dy = request.inputs[0];
  const TensorType& x = request.inputs[request.inputs.size() - 1];
  check_f32_or_bf16(x, request.label);
  const auto& options = request.get<PoolOptions>();
  const PoolGeometry geometry = pool_geometry(x.shape, options, request.label);
  const Shape y = output_shape(geometry, options.steps.format);
  SF_CHECK(may_agree(dy, {x.dtype, y}), ShapeError, request.label, " got dy ", dy.text(), " for x ", x.text(),
           "; wanted ", TensorType{x.dtype, y}.text());
  if (request.inputs.size() == 3) {
    const TensorType index{pool_index_dtype(geometry), y};
    SF_CHECK(may_agree(request.inputs[1], index), ShapeError, request.label, " got index ", request.inputs[1].text(),
             "; wanted ", index.text());
  }
  return {x};
}

}  // namespace

void define_pool_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<PoolOptions>([](auto& fields, auto& described) {
    fields("window", described.window);
    describe_steps(fields, described.steps);
    fields("include_padding", described.include_padding);
  });
  for (std::size_t rank : {2, 3}) {
    for (bool has_index : {true, false}) {
      const std::string name = text_of(has_index ? "max_pool" : "average_pool", rank, "d");
      registry.add({.name = name, .options = options, .infer = [=](const ShapeRequest& request) {
                      return infer_pool(request, rank, has_index);
                    }});
      registry.add({.name = name + "_grad",
                    .inputs = has_index ? 3 : 2,
                    .options = options,
                    .infer = [=](const ShapeRequest& request) { return infer_grad(request, rank); },
                    .uses = shape_of_last_alone});
      registry.add({.name = "quantized_" + name, .options = options, .infer = [=](const ShapeRequest& request) {
                      return infer_quantized_pool(request, rank);
                    }});
    }
  }
}

namespace {

Value pool(Value x, const std::string& kind, const PoolOptions& options, Where where) {
  const std::string name = text_of(kind, options.window.size(), "d");
  return x.graph().add_node(name, {x}, options, name, where).output();
}

template <std::size_t rank>
PoolOptions kept_options(const PoolNdOptions<rank>& options) {
  return {.window = {options.window.begin(), options.window.end()},
          .steps = window_steps<rank>(options.stride, 1, options.padding, options.format),
          .include_padding = options.include_padding};
}

void check_image(Value x, std::size_t rank, DataFormat format, const std::string& label) {
  check_format(format, label);
  check_f32_or_bf16(x.type(), label);
  SF_CHECK(x.shape().rank() == static_cast<int>(rank) + 2, ShapeError, label, " got ", x.shape(), "; wanted ",
           image_text(rank, format));
}

/// The largest of each channel of each image.
Value global_max_pool(Value x, std::size_t rank, DataFormat format, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    const std::string label = text_of("global_max_pool", rank, "d");
    check_image(x, rank, format, label);
    const ImageDims image = image_dims(x.shape(), format);
    const std::vector<std::int64_t> ones(rank, 1);
    const std::vector<std::int64_t> none(rank, 0);
    const WindowSteps steps{ones, ones, PaddingKind::valid, none, none, format};
    for (std::int64_t size : image.sizes) {
      SF_CHECK(size != kDynamic, ShapeError, label, " got ", x.shape(),
               "; the sizes of images must be known; only the batch may be left to the feed");
    }
    return flatten(pool(x, "max_pool", {.window = image.sizes, .steps = steps}, where));
  });
}

/// The mean of each channel of each image.
Value global_average_pool(Value x, std::size_t rank, DataFormat format, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    check_image(x, rank, format, text_of("global_average_pool", rank, "d"));
    ReduceOptions options;
    const int first = format == DataFormat::nhwc ? 1 : 2;
    for (std::size_t i = 0; i < rank; ++i) options.axes.push_back(first + static_cast<int>(i));
    return reduce_mean(x, options);
  });
}

}  // namespace

Value quantized_pool(Value x, const std::string& kind, const PoolOptions& options, Where where) {
  return pool(x, kind, options, where);
}

Value max_pool2d(Value x, Pool2dOptions options, Where where) {
  return pool(x, "max_pool", kept_options(options), where);
}
Value max_pool3d(Value x, Pool3dOptions options, Where where) {
  return pool(x, "max_pool", kept_options(options), where);
}
Value average_pool2d(Value x, Pool2dOptions options, Where where) {
  return pool(x, "average_pool", kept_options(options), where);
}
Value average_pool3d(Value x, Pool3dOptions options, Where where) {
  return pool(x, "average_pool", kept_options(options), where);
}

Value global_max_pool2d(Value x, DataFormat format, Where where) {
  return global_max_pool(x, 2, format, where);
}
Value global_max_pool3d(Value x, DataFormat format, Where where) {
  return global_max_pool(x, 3, format, where);
}
Value global_average_pool2d(Value x, DataFormat format, Where where) {
  return global_average_pool(x, 2, format, where);
}
Value global_average_pool3d(Value x, DataFormat format, Where where) {
  return global_average_pool(x, 3, format, where);
}

Value average_pool(Value x, const PoolOptions& options) {
  return pool(x, "average_pool", options, {});
}
Value pool_grad(Value dy, Node& forward) {
  std::vector<Value> inputs = {dy};
  if (forward.output_types().size() == 2) inputs.push_back(forward.output(1));
  inputs.push_back(forward.inputs()[0]);
  const std::string name = forward.op().name + "_grad";
  return dy.graph().add_node(name, std::move(inputs), forward.options<PoolOptions>(), name).output();
}

}  // namespace sectionflow
