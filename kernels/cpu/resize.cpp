#include "graph/ops/resize.h"

#include <algorithm>
#include <type_traits>

#include "device/parallel.h"
#include "kernels/copies.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/resize.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

using Tap = formulas::ResizeTap;
using Takers = formulas::ResizeTakers;
using Images = ResizedImages;

/// A resize's numbers, and its tables in workspace: an image of one long row has tables as large as itself.
class Resizing {
 public:
  Resizing(const Images& images, const Resize2dOptions& options)
      : images(images),
        rows_(images.x_height, images.y_height, options),
        columns_(images.x_width, images.y_width, options) {}

  /// Of fill_taps, and of find_takers behind it.
  std::size_t tap_bytes() const { return static_cast<std::size_t>(rows_.out + columns_.out) * sizeof(Tap); }
  std::size_t taker_bytes() const { return static_cast<std::size_t>(rows_.in + columns_.in) * sizeof(Takers); }

  /// The taps of y's rows, then of its columns.
  struct Taps {
    const Tap *rows, *columns;
  };
  Taps fill_taps(const KernelArguments& arguments) const {
    Tap* taps = static_cast<Tap*>(arguments.workspace);
    parallel_for(rows_.out + columns_.out, kGrainEntries, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) taps[i] = i < rows_.out ? rows_.tap(i) : columns_.tap(i - rows_.out);
    });
    return {taps, taps + rows_.out};
  }
  /// Who takes from x's rows, then from its columns.
  struct AllTakers {
    const Takers *rows, *columns;
  };
  AllTakers find_takers(const KernelArguments& arguments, const Taps& taps) const {
    auto* takers = static_cast<Takers*>(workspace_part(arguments.workspace, tap_bytes()));
    parallel_for(rows_.in + columns_.in, kGrainEntries, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        takers[i] = i < rows_.in ? formulas::takers_of(i, taps.rows, rows_.out)
                                 : formulas::takers_of(i - rows_.in, taps.columns, columns_.out);
      }
    });
    return {takers, takers + rows_.in};
  }

  Images images;

 private:
  static constexpr std::int64_t kGrainEntries = 512;
  formulas::ResizeAxis rows_, columns_;
};

/// Calls `body(plane, h)` for each row of images of that height, on the compute team.
template <class Body>
void for_each_image_row(std::int64_t planes, std::int64_t height, std::int64_t row_elements, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, row_elements));
  parallel_for(planes * height, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row / height, row % height);
  });
}

std::unique_ptr<Kernel> make_nearest(const KernelRequest& request, const Resizing& resizing) {
  return with_element_of(dtype_bytes(request.inputs[0].dtype), [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [resizing](const KernelArguments& arguments) {
          const T* x = static_cast<const T*>(arguments.inputs[0]);
          T* y = static_cast<T*>(arguments.outputs[0]);
          const auto [rows, columns] = resizing.fill_taps(arguments);
          const Images& images = resizing.images;
          const std::int64_t depth = images.depth;
          for_each_image_row(images.planes, images.y_height, images.y_width * depth,
                             [&, rows = rows, columns = columns](std::int64_t plane, std::int64_t h) {
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
        },
        {.workspace_bytes = resizing.tap_bytes()});
  });
}

// Kernels of x, y and their gradients stored as T.

/// One pixel of y, of `depth` channels, between two rows of x.
template <class T>
void blend_pixel(T* y, const T* above, const T* below, const Tap& row, const Tap& column, std::int64_t depth) {
  const T* above_low = above + column.low * depth;
  const T* above_high = above + column.high * depth;
  const T* below_low = below + column.low * depth;
  const T* below_high = below + column.high * depth;
#pragma omp simd
  for (std::int64_t c = 0; c < depth; ++c) {
    y[c] = stored<T>(formulas::blend(row, column, above_low[c], above_high[c], below_low[c], below_high[c]));
  }
}

template <class T>
std::unique_ptr<Kernel> make_bilinear(const Resizing& resizing) {
  return function_kernel(
      [resizing](const KernelArguments& arguments) {
        const T* x = static_cast<const T*>(arguments.inputs[0]);
        T* y = static_cast<T*>(arguments.outputs[0]);
        const auto [rows, columns] = resizing.fill_taps(arguments);
        const Images& images = resizing.images;
        const std::int64_t depth = images.depth;
        const std::int64_t x_row = images.x_width * depth, y_row = images.y_width * depth;
        for_each_image_row(images.planes, images.y_height, y_row,
                           [&, rows = rows, columns = columns](std::int64_t plane, std::int64_t h) {
                             const T* above = x + (plane * images.x_height + rows[h].low) * x_row;
                             const T* below = x + (plane * images.x_height + rows[h].high) * x_row;
                             T* to = y + (plane * images.y_height + h) * y_row;
                             for (std::int64_t w = 0; w < images.y_width; ++w) {
                               blend_pixel(to + w * depth, above, below, rows[h], columns[w], depth);
                             }
                           });
      },
      {.workspace_bytes = resizing.tap_bytes()});
}

/// Where the image stays as it is.
std::unique_ptr<Kernel> make_equal_copy(const KernelRequest& request) {
  return copy_kernel(request.outputs[0].bytes());
}

std::unique_ptr<Kernel> make_resize2d(const KernelRequest& request) {
  const auto& options = request.node.options<Resize2dOptions>();
  const Resizing resizing({request.inputs[0].shape, request.outputs[0].shape, options.format}, options);
  if (resizing.images.are_alike()) return make_equal_copy(request);
  if (options.method == ResizeMethod::nearest) return make_nearest(request, resizing);
  return with_stored_type(request.inputs[0].dtype,
                          [&](auto element) { return make_bilinear<decltype(element)>(resizing); });
}

/// dx of pixel [h, w] of one image: what it gave, gathered from a box of dy, row by row.
template <class T>
struct GatherPixel {
  const Images& images;
  const Resizing::Taps& taps;
  const Resizing::AllTakers& takers;

  void operator()(const T* dy, std::int64_t h, std::int64_t w, T* dx) const {
    if constexpr (std::is_same_v<T, float>) {
      std::fill(dx, dx + images.depth, 0.0F);
      gather(dy, h, w, dx, images.depth);
    } else {
      constexpr std::int64_t kMaxLanes = 4 * kPack;
      for (std::int64_t c = 0; c < images.depth; c += kMaxLanes) {
        const std::int64_t lanes = std::min(kMaxLanes, images.depth - c);
        float sums[kMaxLanes];
        for (std::int64_t pack = 0; pack < lanes; pack += kPack) std::fill_n(sums + pack, kPack, 0.0F);
        gather(dy + c, h, w, sums, lanes);
        convert_row(dx + c, sums, lanes);
      }
    }
  }

 private:
  static constexpr std::int64_t kPack = 16;

  /// Adds to the sums of the first `count` channels.
  void gather(const T* dy, std::int64_t h, std::int64_t w, float* sums, std::int64_t count) const {
    const std::int64_t depth = images.depth;
    const Takers of_row = takers.rows[h], of_column = takers.columns[w];
    for (std::int64_t k = of_row.begin; k < of_row.end; ++k) {
      const float row_weight = taps.rows[k].weight_of(h);
      const T* from = dy + (k * images.y_width + of_column.begin) * depth;
      for (std::int64_t l = of_column.begin; l < of_column.end; ++l, from += depth) {
        const float weight = row_weight * taps.columns[l].weight_of(w);
        // In packs and a rest, between which g++ does not mix channels of two pixels.
        std::int64_t c = 0;
        for (; c + kPack <= count; c += kPack) {
#pragma omp simd
          for (std::int64_t lane = 0; lane < kPack; ++lane) sums[c + lane] += weight * from[c + lane];
        }
        for (; c < count; ++c) sums[c] += weight * from[c];
      }
    }
  }
};

template <class T>
std::unique_ptr<Kernel> make_gradient(const Resizing& resizing) {
  return function_kernel(
      [resizing](const KernelArguments& arguments) {
        const T* dy = static_cast<const T*>(arguments.inputs[0]);
        T* dx = static_cast<T*>(arguments.outputs[0]);
        const Resizing::Taps taps = resizing.fill_taps(arguments);
        const Resizing::AllTakers takers = resizing.find_takers(arguments, taps);
        const Images& images = resizing.images;
        const std::int64_t depth = images.depth;
        const GatherPixel<T> gather{images, taps, takers};
        for_each_image_row(images.planes, images.x_height, images.x_width * depth,
                           [&](std::int64_t plane, std::int64_t h) {
                             const T* from = dy + plane * images.y_height * images.y_width * depth;
                             T* to = dx + (plane * images.x_height + h) * images.x_width * depth;
                             for (std::int64_t w = 0; w < images.x_width; ++w) gather(from, h, w, to + w * depth);
                           });
      },
      {.workspace_bytes = resizing.tap_bytes() + resizing.taker_bytes()});
}

std::unique_ptr<Kernel> make_resize2d_grad(const KernelRequest& request) {
  const auto& options = request.node.options<Resize2dOptions>();
  const Resizing resizing({request.outputs[0].shape, request.inputs[0].shape, options.format}, options);
  if (resizing.images.are_alike()) return make_equal_copy(request);
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_gradient<decltype(element)>(resizing); });
}

}  // namespace

void add_resize_cpu_kernels(KernelRegistry& registry) {
  registry.add("resize2d", make_resize2d, Bf16::native);
  registry.add("resize2d_grad", make_resize2d_grad, Bf16::native);
}

}  // namespace sectionflow
