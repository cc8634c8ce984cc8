#include <algorithm>

#include "graph/nodes/convolution.h"
#include "graph/ops/convolution.h"
#include "kernels/convolution_loop.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/gathered_image.h"
#include "kernels/cuda/grouped_convolution.h"
#include "kernels/cuda/product.h"
#include "kernels/function_kernel.h"

// Convolutions of every rank, group, stride, dilation and format, as matrix products whose factors are gathered from
// the images: no copies of them are made. Groups of few channels, which would leave tiles empty, are summed directly.

namespace sectionflow {
namespace {

using gpu::Divisor;
using gpu::GatheredImage;
using gpu::ImageSteps;
using gpu::Steps;

constexpr std::int64_t kFewChannels = 16;  // of a group: less fills no tile

struct Problem {
  ConvolutionLoop loop;
  DataFormat format;

  std::int64_t y_places() const { return loop.batch * loop.y_pixels(); }
  ImageSteps x_steps() const { return {loop.channels(), loop.x_pixels(), format}; }
  ImageSteps y_steps() const { return {loop.filters(), loop.y_pixels(), format}; }
};

Problem problem_of(const KernelRequest& request, const Shape& x, const Shape& w) {
  const auto geometry = convolution_geometry(x, w, request.node.options<ConvolutionOptions>(), request.node.label());
  return {ConvolutionLoop(geometry), geometry.format};
}

/// A factor or result whose rows are pixels.
Steps pixel_rows(const ImageSteps& steps, std::int64_t pixels) {
  return {pixels, steps.image, steps.pixel};
}

/// Weights as a factor, and how a result in images is summed from them.
struct ImageResult {
  ImageSteps steps;
  std::int64_t pixels, group_columns;
  Steps weight_lines, weight_elements;
  std::int64_t weight_tap, weight_channel, weight_column;  // the same for direct sums
};

/// Output 0, made of images, from images (input 0) seen through the window and the weights (input 1).
std::unique_ptr<Kernel> make_image_kernel(const Problem& p, const GatheredImage& image, const ImageResult& result) {
  const std::int64_t group_channels = image.channels.divisor(), places = p.loop.batch * result.pixels;
  const bool sums_nothing = p.loop.group_channels == 0 || p.loop.group_filters == 0;
  if (p.loop.groups > 1 && result.group_columns < kFewChannels && !sums_nothing) {
    const std::int64_t columns = p.loop.groups * result.group_columns;
    return function_kernel([=](const KernelArguments& arguments) {
      gpu::launch_each(
          arguments.queue, places * columns,
          gpu::GroupedGather{static_cast<const float*>(arguments.inputs[0]),
                             static_cast<const float*>(arguments.inputs[1]), static_cast<float*>(arguments.outputs[0]),
                             image, group_channels, result.weight_tap, result.weight_channel, result.weight_column,
                             Divisor(columns), Divisor(result.group_columns), Divisor(result.pixels),
                             p.loop.group_filters, p.format == DataFormat::nhwc});
    });
  }
  const gpu::Product product({.batches = p.loop.groups,
                              .rows = places,
                              .columns = result.group_columns,
                              .inner = sums_nothing ? 0 : p.loop.num_taps() * group_channels});
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const gpu::MatrixOperand weights(static_cast<const float*>(arguments.inputs[1]), p.loop.group_filters,
                                         result.weight_lines, result.weight_elements);
        product.launch(arguments.queue, gpu::GatherOperand<true>{static_cast<const float*>(arguments.inputs[0]), image},
                       weights,
                       {static_cast<float*>(arguments.outputs[0]), result.group_columns * result.steps.channel,
                        pixel_rows(result.steps, result.pixels), result.steps.channel},
                       arguments.workspace);
      },
      {.workspace_bytes = product.workspace_bytes()});
}

/// dw of groups with few channels.
std::unique_ptr<Kernel> make_grouped_filter_gradient(const Problem& p) {
  using Body = gpu::GroupedFilterGradient;
  const std::int64_t filters = p.loop.filters(), taps = p.loop.num_taps() * p.loop.group_channels;
  // Neighbouring threads read what lies side by side.
  const int across = p.format == DataFormat::nhwc ? 32 : 1;
  const std::int64_t filter_blocks = gpu::blocks_for(filters, across), positions = p.y_places();
  constexpr std::int64_t kEnoughBlocks = 1024, kShortestSum = 1024;
  const std::int64_t wanted = std::max<std::int64_t>(
      1, std::min(kEnoughBlocks / std::max<std::int64_t>(1, taps * filter_blocks), positions / kShortestSum));
  const std::int64_t split_positions = std::max<std::int64_t>(1, (positions + wanted - 1) / wanted);
  const std::int64_t splits = std::max<std::int64_t>(1, (positions + split_positions - 1) / split_positions);
  const std::int64_t count = taps * filters;
  return function_kernel(
      [=, image = GatheredImage::under_outputs(p.loop, p.format)](const KernelArguments& arguments) {
        auto* partial = static_cast<double*>(arguments.workspace);
        const ImageSteps dy = p.y_steps();
        gpu::launch_blocks(arguments.queue,
                           {.blocks = splits * taps * filter_blocks,
                            .threads = Body::kThreads,
                            .shared_bytes = Body::kThreads * sizeof(double)},
                           Body{static_cast<const float*>(arguments.inputs[1]),
                                static_cast<const float*>(arguments.inputs[0]), partial, image, dy.image, dy.pixel,
                                dy.channel, filters, positions, split_positions, Divisor(p.loop.y_pixels()),
                                Divisor(p.loop.group_filters), Divisor(taps), Divisor(filter_blocks), across});
        gpu::launch_each(arguments.queue, count,
                         gpu::AddFilterSplits{partial, splits, count, static_cast<float*>(arguments.outputs[0])});
      },
      {.workspace_bytes = static_cast<std::size_t>(splits * count) * sizeof(double)});
}

/// Inputs: x, w.
std::unique_ptr<Kernel> make_cuda_convolution(const KernelRequest& request) {
  const Problem p = problem_of(request, request.inputs[0].shape, request.inputs[1].shape);
  const std::int64_t filters = p.loop.filters();
  return make_image_kernel(p, GatheredImage::under_outputs(p.loop, p.format),
                           {.steps = p.y_steps(),
                            .pixels = p.loop.y_pixels(),
                            .group_columns = p.loop.group_filters,
                            .weight_lines = Steps(1),
                            .weight_elements = Steps(filters),
                            .weight_tap = p.loop.group_channels * filters,
                            .weight_channel = filters,
                            .weight_column = 1});
}

/// Inputs: dy, w; a transposed convolution calls them x and w.
std::unique_ptr<Kernel> make_cuda_convolution_backward_input(const KernelRequest& request) {
  const Problem p = problem_of(request, request.outputs[0].shape, request.inputs[1].shape);
  const std::int64_t filters = p.loop.filters(), tap = p.loop.group_channels * filters;
  return make_image_kernel(p, GatheredImage::over_inputs(p.loop, p.format),
                           {.steps = p.x_steps(),
                            .pixels = p.loop.x_pixels(),
                            .group_columns = p.loop.group_channels,
                            .weight_lines = Steps(filters),
                            .weight_elements = Steps(p.loop.group_filters, tap, 1),
                            .weight_tap = tap,
                            .weight_channel = 1,
                            .weight_column = filters});
}

/// Inputs: dy, x. The sum over batch and positions is cut by shape alone; the parts are added in order, in double.
std::unique_ptr<Kernel> make_cuda_convolution_backward_filter(const KernelRequest& request) {
  const Problem p = problem_of(request, request.inputs[1].shape, request.outputs[0].shape);
  const std::int64_t rows = p.loop.num_taps() * p.loop.group_channels, columns = p.loop.group_filters;
  if (p.loop.groups > 1 && std::min(rows, columns) < kFewChannels) return make_grouped_filter_gradient(p);
  const gpu::Product product({.batches = p.loop.groups, .rows = rows, .columns = columns, .inner = p.y_places()});
  return function_kernel(
      [=, image = GatheredImage::under_outputs(p.loop, p.format)](const KernelArguments& arguments) {
        const ImageSteps dy = p.y_steps();
        const gpu::MatrixOperand gradient(static_cast<const float*>(arguments.inputs[0]), columns * dy.channel,
                                          Steps(dy.channel), pixel_rows(dy, p.loop.y_pixels()));
        product.launch(
            arguments.queue, gpu::GatherOperand<false>{static_cast<const float*>(arguments.inputs[1]), image}, gradient,
            {static_cast<float*>(arguments.outputs[0]), columns, Steps(p.loop.filters()), 1}, arguments.workspace);
      },
      {.workspace_bytes = product.workspace_bytes()});
}

}  // namespace

void add_convolution_cuda_kernels(KernelRegistry& registry) {
  for (const std::string name : {"conv2d", "conv3d"}) {
    registry.add(name, make_cuda_convolution);
    registry.add(name + "_backward_input", make_cuda_convolution_backward_input);
    registry.add(name + "_backward_filter", make_cuda_convolution_backward_filter);
  }
  registry.add("conv_transpose2d", make_cuda_convolution_backward_input);
  registry.add("conv_transpose3d", make_cuda_convolution_backward_input);
}

}  // namespace sectionflow
