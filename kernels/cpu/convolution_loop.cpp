#include "kernels/convolution_loop.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "device/parallel.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "kernels/cpu/convolution_kernel.h"

// The plain convolutions, for what oneDNN has no code of its own: a dilated kernel with a stride, some groups without
// AVX-512, and machines without AVX2. Images have their channels last, weights lie as [K..., G, rows, columns].
// Each output is summed by one thread, in an order that follows from the shape.

namespace sectionflow {
namespace {

using Loop = ConvolutionLoop;

constexpr std::int64_t kMaxLanes = 64;  // summed together, in the first cache

/// For every pixel of a grid of `sizes`, and each of its channels, the sum over the taps of a kernel and the channels
/// of the pixel that `partner(axis, place, tap)` names (-1: none), times a matrix for each tap and group.
template <class Partner>
struct Gather {
  std::int64_t batch, groups;
  std::array<std::int64_t, 3> sizes, partner_sizes, window;
  std::int64_t rows, columns;  // of a matrix: channels of a group that are summed, and that result
  Partner partner;

  void run(const float* from, const float* matrices, float* to) const {
    const std::int64_t pixels = sizes[0] * sizes[1] * sizes[2];
    const std::int64_t work = groups * rows * columns * window[0] * window[1] * window[2];
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, work));
    parallel_for(batch * pixels, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::array<std::int64_t, 3> at = {p / (sizes[1] * sizes[2]) % sizes[0], p / sizes[2] % sizes[1],
                                                p % sizes[2]};
        sum_pixel(from, matrices, p / pixels, at, to + p * groups * columns);
      }
    });
  }

 private:
  void sum_pixel(const float* from, const float* matrices, std::int64_t n, const std::array<std::int64_t, 3>& at,
                 float* to) const {
    for (std::int64_t group = 0; group < groups; ++group) {
      for (std::int64_t first = 0; first < columns; first += kMaxLanes) {
        const std::int64_t lanes = std::min(kMaxLanes, columns - first);
        float sum[kMaxLanes];
        std::fill(sum, sum + lanes, 0.0F);
        for_each_partner(at, [&](std::int64_t pixel, std::int64_t tap) {
          const float* x =
              from + ((n * partner_sizes[0] * partner_sizes[1] * partner_sizes[2] + pixel) * groups + group) * rows;
          const float* matrix = matrices + (tap * groups + group) * rows * columns + first;
          for (std::int64_t k = 0; k < rows; ++k) {
            const float factor = x[k];
            const float* row = matrix + k * columns;
#pragma omp simd
            for (std::int64_t c = 0; c < lanes; ++c) sum[c] += factor * row[c];
          }
        });
        std::copy(sum, sum + lanes, to + group * columns + first);
      }
    }
  }

  template <class Visit>
  void for_each_partner(const std::array<std::int64_t, 3>& at, const Visit& visit) const {
    for (std::int64_t d = 0; d < window[0]; ++d) {
      const std::int64_t pd = partner(0, at[0], d);
      if (pd < 0) continue;
      for (std::int64_t h = 0; h < window[1]; ++h) {
        const std::int64_t ph = partner(1, at[1], h);
        if (ph < 0) continue;
        for (std::int64_t w = 0; w < window[2]; ++w) {
          const std::int64_t pw = partner(2, at[2], w);
          if (pw < 0) continue;
          visit((pd * partner_sizes[1] + ph) * partner_sizes[2] + pw, (d * window[1] + h) * window[2] + w);
        }
      }
    }
  }
};

template <class Member>
std::array<std::int64_t, 3> each(const WindowAxis (&axes)[3], Member member) {
  return {axes[0].*member, axes[1].*member, axes[2].*member};
}

void loop_forward(const Loop& loop, const float* x, const float* w, float* y) {
  const auto partner = [&](std::size_t axis, std::int64_t o, std::int64_t t) {
    return element_under(loop.axes[axis], o, t);
  };
  const Gather<decltype(partner)> gather{loop.batch,
                                         loop.groups,
                                         each(loop.axes, &WindowAxis::out),
                                         each(loop.axes, &WindowAxis::size),
                                         each(loop.axes, &WindowAxis::window),
                                         loop.group_channels,
                                         loop.group_filters,
                                         partner};
  gather.run(x, w, y);
}

void loop_backward_input(const Loop& loop, const float* dy, const float* w, float* dx) {
  const auto partner = [&](std::size_t axis, std::int64_t i, std::int64_t t) {
    return output_over(loop.axes[axis], i, t);
  };
  const Gather<decltype(partner)> gather{loop.batch,
                                         loop.groups,
                                         each(loop.axes, &WindowAxis::size),
                                         each(loop.axes, &WindowAxis::out),
                                         each(loop.axes, &WindowAxis::window),
                                         loop.group_filters,
                                         loop.group_channels,
                                         partner};
  gather.run(dy, w, dx);
}

/// dw of one tap, group and up to kChannels of its channels, for up to kMaxLanes filters.
constexpr std::int64_t kChannels = 4;
struct FilterPart {
  std::array<std::int64_t, 3> tap;
  std::int64_t channel, channels;  // the first, counted over all groups, and how many
  std::int64_t filter, lanes;
};

/// Sums of one image in f32, of images in double.
void sum_filter(const Loop& loop, const FilterPart& part, const float* dy, const float* x,
                double (&total)[kChannels][kMaxLanes]) {
  for (std::int64_t n = 0; n < loop.batch; ++n) {
    float sum[kChannels][kMaxLanes] = {};
    for (std::int64_t d = 0; d < loop.axes[0].out; ++d) {
      const std::int64_t id = element_under(loop.axes[0], d, part.tap[0]);
      if (id < 0) continue;
      for (std::int64_t h = 0; h < loop.axes[1].out; ++h) {
        const std::int64_t ih = element_under(loop.axes[1], h, part.tap[1]);
        if (ih < 0) continue;
        const std::int64_t x_row = ((n * loop.axes[0].size + id) * loop.axes[1].size + ih) * loop.axes[2].size;
        const std::int64_t y_row = ((n * loop.axes[0].out + d) * loop.axes[1].out + h) * loop.axes[2].out;
        for (std::int64_t w = 0; w < loop.axes[2].out; ++w) {
          const std::int64_t iw = element_under(loop.axes[2], w, part.tap[2]);
          if (iw < 0) continue;
          const float* image = x + (x_row + iw) * loop.channels() + part.channel;
          const float* gradient = dy + (y_row + w) * loop.filters() + part.filter;
          for (std::int64_t c = 0; c < part.channels; ++c) {
            const float factor = image[c];
#pragma omp simd
            for (std::int64_t f = 0; f < part.lanes; ++f) sum[c][f] += factor * gradient[f];
          }
        }
      }
    }
    for (std::int64_t c = 0; c < part.channels; ++c) {
      for (std::int64_t f = 0; f < part.lanes; ++f) total[c][f] += sum[c][f];
    }
  }
}

void loop_backward_filter(const Loop& loop, const float* dy, const float* x, float* dw) {
  const std::int64_t blocks = (loop.group_channels + kChannels - 1) / kChannels;
  parallel_for(loop.num_taps() * loop.groups * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t block = k % blocks, group = k / blocks % loop.groups, tap = k / blocks / loop.groups;
      const std::int64_t window_w = loop.axes[2].window, window_h = loop.axes[1].window;
      FilterPart part{.tap = {tap / window_w / window_h, tap / window_w % window_h, tap % window_w},
                      .channel = group * loop.group_channels + block * kChannels,
                      .channels = std::min(kChannels, loop.group_channels - block * kChannels),
                      .filter = 0,
                      .lanes = 0};
      for (std::int64_t first = 0; first < loop.group_filters; first += kMaxLanes) {
        part.filter = group * loop.group_filters + first;
        part.lanes = std::min(kMaxLanes, loop.group_filters - first);
        double total[kChannels][kMaxLanes] = {};
        sum_filter(loop, part, dy, x, total);
        for (std::int64_t c = 0; c < part.channels; ++c) {
          float* row =
              dw + ((tap * loop.groups + group) * loop.group_channels + block * kChannels + c) * loop.group_filters;
          for (std::int64_t f = 0; f < part.lanes; ++f) row[first + f] = static_cast<float>(total[c][f]);
        }
      }
    }
  });
}

using LoopFunction = void (*)(const Loop&, const float*, const float*, float*);

/// What a ConvolutionKernel calls.
class LoopCall {
 public:
  LoopCall(const ConvolutionGeometry& geometry, LoopFunction function) : loop_(geometry), function_(function) {}
  std::string implementation() const { return "loop"; }
  std::size_t scratchpad_bytes() const { return 0; }
  std::size_t library_bytes() const { return 0; }
  void launch(std::initializer_list<const void*> pointers, void*) {
    const auto* pointer = pointers.begin();
    function_(loop_, static_cast<const float*>(pointer[0]), static_cast<const float*>(pointer[1]),
              static_cast<float*>(const_cast<void*>(pointer[2])));
  }

 private:
  Loop loop_;
  LoopFunction function_;
};

std::unique_ptr<Kernel> make_loop(const KernelRequest& request, const ConvolutionProblem& problem,
                                  LoopFunction function, const std::array<ConvolutionArgument, 2>& inputs,
                                  const ConvolutionArgument& output) {
  OneDnn& onednn = onednn_of(request);
  return std::make_unique<ConvolutionKernel<LoopCall>>(onednn, LoopCall(problem.geometry, function), inputs, output);
}

std::unique_ptr<Kernel> forward_by_loop(const KernelRequest& request) {
  const auto problem = convolution_problem(request, request.inputs[0].shape, request.inputs[1].shape);
  if (problem.is_empty()) return zero_kernel(request);
  return make_loop(request, problem, loop_forward,
                   {{{problem.our_x, problem.x}, {problem.our_weights, problem.plain_weights(true)}}},
                   {problem.our_y, problem.y});
}

std::unique_ptr<Kernel> backward_input_by_loop(const KernelRequest& request) {
  const auto problem = convolution_problem(request, request.outputs[0].shape, request.inputs[1].shape);
  if (problem.is_empty()) return zero_kernel(request);
  return make_loop(request, problem, loop_backward_input,
                   {{{problem.our_y, problem.y}, {problem.our_weights, problem.plain_weights(false)}}},
                   {problem.our_x, problem.x});
}

std::unique_ptr<Kernel> backward_filter_by_loop(const KernelRequest& request) {
  const auto problem = convolution_problem(request, request.inputs[1].shape, request.outputs[0].shape);
  if (problem.is_empty()) return zero_kernel(request);
  return make_loop(request, problem, loop_backward_filter, {{{problem.our_y, problem.y}, {problem.our_x, problem.x}}},
                   {problem.our_weights, problem.plain_weights(true)});
}

}  // namespace

std::unique_ptr<Kernel> make_convolution_loop(const KernelRequest& request) {
  return onednn_factory<forward_by_loop>(request);
}
std::unique_ptr<Kernel> make_convolution_backward_input_loop(const KernelRequest& request) {
  return onednn_factory<backward_input_by_loop>(request);
}
std::unique_ptr<Kernel> make_convolution_backward_filter_loop(const KernelRequest& request) {
  return onednn_factory<backward_filter_by_loop>(request);
}

}  // namespace sectionflow
