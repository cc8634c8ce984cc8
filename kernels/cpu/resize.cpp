#include "graph/ops/resize.h"

#include <algorithm>
#include <vector>

#include "device/parallel.h"
#include "kernels/cpu/copy_kernel.h"
#include "kernels/formulas/resize.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/strided_copy.h"

namespace sectionflow {
namespace {

using Tap = formulas::ResizeTap;
using Images = ResizedImages;

/// The taps of each pixel of y.
std::vector<Tap> taps(std::int64_t in, std::int64_t out, const Resize2dOptions& options) {
  const formulas::ResizeAxis axis(in, out, options);
  std::vector<Tap> all;
  for (std::int64_t i = 0; i < out; ++i) all.push_back(axis.tap(i));
  return all;
}

/// For each pixel of x along one axis, the pixels of y that take from it, which are neighbours, and how much.
struct Takers {
  std::vector<std::int64_t> first;       // [in], of y's pixels
  std::vector<std::int64_t> weights_at;  // [in + 1], where its weights begin
  std::vector<float> weights;

  std::int64_t count(std::int64_t i) const { return weights_at[i + 1] - weights_at[i]; }
  float weight(std::int64_t i, std::int64_t k) const { return weights[weights_at[i] + k]; }
};

Takers takers(std::int64_t in, const std::vector<Tap>& taps) {
  Takers all;
  // Taps move on with the pixels of y: what takes from pixel i is one run of them.
  std::size_t first = 0;
  for (std::int64_t i = 0; i < in; ++i) {
    while (first < taps.size() && taps[first].high < i) ++first;
    all.first.push_back(static_cast<std::int64_t>(first));
    all.weights_at.push_back(static_cast<std::int64_t>(all.weights.size()));
    for (std::size_t k = first; k < taps.size() && taps[k].low <= i; ++k) {
      all.weights.push_back(taps[k].weight_of(i));
    }
  }
  all.weights_at.push_back(static_cast<std::int64_t>(all.weights.size()));
  return all;
}

/// Calls `body(plane, h)` for each row of images of that height, on the compute team.
template <class Body>
void for_each_row(std::int64_t planes, std::int64_t height, std::int64_t row_elements, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, row_elements));
  parallel_for(planes * height, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row / height, row % height);
  });
}

std::unique_ptr<Kernel> make_nearest(const KernelRequest& request, const Images& images, std::vector<Tap> rows,
                                     std::vector<Tap> columns) {
  return with_element_of(dtype_bytes(request.inputs[0].dtype), [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [images, rows = std::move(rows), columns = std::move(columns)](const KernelArguments& arguments) {
          const T* x = static_cast<const T*>(arguments.inputs[0]);
          T* y = static_cast<T*>(arguments.outputs[0]);
          const std::int64_t depth = images.depth;
          for_each_row(images.planes, images.y_height, images.y_width * depth, [&](std::int64_t plane, std::int64_t h) {
            const T* from = x + (plane * images.x_height + rows[h].low) * images.x_width * depth;
            T* to = y + (plane * images.y_height + h) * images.y_width * depth;
            for (std::int64_t w = 0; w < images.y_width; ++w, to += depth) {
              if (depth == 1) {
                *to = from[columns[w].low];
              } else {
                std::copy_n(from + columns[w].low * depth, depth, to);
              }
            }
          });
        });
  });
}

/// One pixel of y, of `depth` channels, between two rows of x.
void blend_pixel(float* y, const float* above, const float* below, const Tap& row, const Tap& column,
                 std::int64_t depth) {
  const float* above_low = above + column.low * depth;
  const float* above_high = above + column.high * depth;
  const float* below_low = below + column.low * depth;
  const float* below_high = below + column.high * depth;
#pragma omp simd
  for (std::int64_t c = 0; c < depth; ++c) {
    y[c] = formulas::blend(row, column, above_low[c], above_high[c], below_low[c], below_high[c]);
  }
}

std::unique_ptr<Kernel> make_bilinear(const Images& images, std::vector<Tap> rows, std::vector<Tap> columns) {
  return function_kernel(
      [images, rows = std::move(rows), columns = std::move(columns)](const KernelArguments& arguments) {
        const float* x = static_cast<const float*>(arguments.inputs[0]);
        float* y = static_cast<float*>(arguments.outputs[0]);
        const std::int64_t depth = images.depth;
        const std::int64_t x_row = images.x_width * depth, y_row = images.y_width * depth;
        for_each_row(images.planes, images.y_height, y_row, [&](std::int64_t plane, std::int64_t h) {
          const float* above = x + (plane * images.x_height + rows[h].low) * x_row;
          const float* below = x + (plane * images.x_height + rows[h].high) * x_row;
          float* to = y + (plane * images.y_height + h) * y_row;
          for (std::int64_t w = 0; w < images.y_width; ++w) {
            blend_pixel(to + w * depth, above, below, rows[h], columns[w], depth);
          }
        });
      });
}

/// Where the image stays as it is.
std::unique_ptr<Kernel> make_equal_copy(const KernelRequest& request) {
  return copy_kernel(request.outputs[0].bytes());
}

std::unique_ptr<Kernel> make_resize2d(const KernelRequest& request) {
  const auto& options = request.node.options<Resize2dOptions>();
  const Images images(request.inputs[0].shape, request.outputs[0].shape, options.format);
  if (images.are_alike()) return make_equal_copy(request);
  std::vector<Tap> rows = taps(images.x_height, images.y_height, options);
  std::vector<Tap> columns = taps(images.x_width, images.y_width, options);
  if (options.method == ResizeMethod::nearest) {
    return make_nearest(request, images, std::move(rows), std::move(columns));
  }
  return make_bilinear(images, std::move(rows), std::move(columns));
}

/// dx of one pixel: what it gave, gathered from a box of dy, row by row.
void gather_pixel(float* dx, const float* dy, const Images& images, const Takers& rows, std::int64_t h,
                  const Takers& columns, std::int64_t w) {
  const std::int64_t depth = images.depth;
  std::fill(dx, dx + depth, 0.0F);
  for (std::int64_t k = 0; k < rows.count(h); ++k) {
    const float* from = dy + ((rows.first[h] + k) * images.y_width + columns.first[w]) * depth;
    for (std::int64_t l = 0; l < columns.count(w); ++l, from += depth) {
      const float weight = rows.weight(h, k) * columns.weight(w, l);
#pragma omp simd
      for (std::int64_t c = 0; c < depth; ++c) dx[c] += weight * from[c];
    }
  }
}

std::unique_ptr<Kernel> make_resize2d_grad(const KernelRequest& request) {
  const auto& options = request.node.options<Resize2dOptions>();
  const Images images(request.outputs[0].shape, request.inputs[0].shape, options.format);
  if (images.are_alike()) return make_equal_copy(request);
  return function_kernel([images, rows = takers(images.x_height, taps(images.x_height, images.y_height, options)),
                          columns = takers(images.x_width, taps(images.x_width, images.y_width, options))](
                             const KernelArguments& arguments) {
    const float* dy = static_cast<const float*>(arguments.inputs[0]);
    float* dx = static_cast<float*>(arguments.outputs[0]);
    const std::int64_t depth = images.depth;
    for_each_row(images.planes, images.x_height, images.x_width * depth, [&](std::int64_t plane, std::int64_t h) {
      const float* from = dy + plane * images.y_height * images.y_width * depth;
      float* to = dx + (plane * images.x_height + h) * images.x_width * depth;
      for (std::int64_t w = 0; w < images.x_width; ++w) {
        gather_pixel(to + w * depth, from, images, rows, h, columns, w);
      }
    });
  });
}

}  // namespace

void add_resize_cpu_kernels(KernelRegistry& registry) {
  registry.add("resize2d", make_resize2d);
  registry.add("resize2d_grad", make_resize2d_grad);
}

}  // namespace sectionflow
