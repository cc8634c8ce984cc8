#include <cstdint>

#include "graph/ops/resize.h"
#include "kernels/copies.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/resize.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

using formulas::ResizeAxis;
using formulas::ResizeTap;
using Takers = formulas::ResizeTakers;
using gpu::Divisor;

/// Both axes' taps, first those of y's rows, then those of its columns: worked out once, not for every channel.
struct FillTaps {
  ResizeAxis rows, columns;
  ResizeTap* taps;
  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    taps[i] = i < rows.out ? rows.tap(i) : columns.tap(i - rows.out);
  }
};

/// Those who take from x's rows, then from its columns.
struct FindTakers {
  ResizeAxis rows, columns;
  const ResizeTap* taps;
  Takers* takers;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    takers[i] = i < rows.in ? formulas::takers_of(i, taps, rows.out)
                            : formulas::takers_of(i - rows.in, taps + rows.out, columns.out);
  }
};

/// Where an element of an image stands.
struct ImagePlace {
  std::int64_t plane, h, w, c;
};
struct Grid {
  Divisor height, width, depth;

  Grid(std::int64_t height, std::int64_t width, std::int64_t depth) : height(height), width(width), depth(depth) {}
  SF_HOST_DEVICE ImagePlace place_of(std::int64_t i) const {
    ImagePlace place;
    place.c = depth.cut(i);
    place.w = width.cut(i);
    place.h = height.cut(i);
    place.plane = i;
    return place;
  }
  SF_HOST_DEVICE std::int64_t element(const ImagePlace& place) const {
    return ((place.plane * height.divisor() + place.h) * width.divisor() + place.w) * depth.divisor() + place.c;
  }
};

template <class T>
struct Nearest {
  Grid x_grid, y_grid;
  const ResizeTap* taps;
  const T* x;
  T* y;
  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImagePlace at = y_grid.place_of(i);
    y[i] = x[x_grid.element({at.plane, taps[at.h].low, taps[y_grid.height.divisor() + at.w].low, at.c})];
  }
};

template <class T>
struct Bilinear {
  Grid x_grid, y_grid;
  const ResizeTap* taps;
  const T* x;
  T* y;
  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImagePlace at = y_grid.place_of(i);
    const ResizeTap row = taps[at.h], column = taps[y_grid.height.divisor() + at.w];
    y[i] = static_cast<T>(formulas::blend(row, column, x[x_grid.element({at.plane, row.low, column.low, at.c})],
                                          x[x_grid.element({at.plane, row.low, column.high, at.c})],
                                          x[x_grid.element({at.plane, row.high, column.low, at.c})],
                                          x[x_grid.element({at.plane, row.high, column.high, at.c})]));
  }
};

/// dx of one element: what it gave, gathered from a box of dy, row by row.
template <class T>
struct ResizeGrad {
  Grid x_grid, y_grid;
  const ResizeTap* taps;
  const Takers* takers;
  const T* dy;
  T* dx;
  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImagePlace at = x_grid.place_of(i);
    const ResizeTap* columns = taps + y_grid.height.divisor();
    const Takers of_row = takers[at.h], of_column = takers[x_grid.height.divisor() + at.w];
    float sum = 0;
    for (std::int64_t h = of_row.begin; h < of_row.end; ++h) {
      const float row_weight = taps[h].weight_of(at.h);
      for (std::int64_t w = of_column.begin; w < of_column.end; ++w) {
        const float weight = row_weight * columns[w].weight_of(at.w);
        sum += weight * static_cast<float>(dy[y_grid.element({at.plane, h, w, at.c})]);
      }
    }
    dx[i] = static_cast<T>(sum);
  }
};

/// A resize's numbers, and its tables in workspace: taps, then takers.
struct Resizing {
  ResizedImages images;
  ResizeAxis rows, columns;

  Resizing(const ResizedImages& images, const Resize2dOptions& options)
      : images(images),
        rows(images.x_height, images.y_height, options),
        columns(images.x_width, images.y_width, options) {}

  Grid x_grid() const { return {images.x_height, images.x_width, images.depth}; }
  Grid y_grid() const { return {images.y_height, images.y_width, images.depth}; }
  std::int64_t num_x() const { return images.planes * images.x_height * images.x_width * images.depth; }
  std::int64_t num_y() const { return images.planes * images.y_height * images.y_width * images.depth; }
  std::size_t tap_bytes() const { return static_cast<std::size_t>(rows.out + columns.out) * sizeof(ResizeTap); }
  std::size_t taker_bytes() const { return static_cast<std::size_t>(rows.in + columns.in) * sizeof(Takers); }

  const ResizeTap* fill_taps(const KernelArguments& arguments) const {
    auto* taps = static_cast<ResizeTap*>(arguments.workspace);
    gpu::launch_each(arguments.queue, rows.out + columns.out, FillTaps{rows, columns, taps});
    return taps;
  }
  const Takers* find_takers(const KernelArguments& arguments, const ResizeTap* taps) const {
    auto* takers = reinterpret_cast<Takers*>(static_cast<unsigned char*>(arguments.workspace) + tap_bytes());
    gpu::launch_each(arguments.queue, rows.in + columns.in, FindTakers{rows, columns, taps, takers});
    return takers;
  }
};

/// Where the image stays as it is.
std::unique_ptr<Kernel> make_equal_copy(const KernelRequest& request) {
  return gpu::copy_kernel(request.outputs[0].bytes());
}

/// The kernel that gives each element of y by `Body`, from elements of type T.
template <class Body, class T>
std::unique_ptr<Kernel> make_each(const Resizing& resizing) {
  return function_kernel(
      [resizing](const KernelArguments& arguments) {
        const ResizeTap* taps = resizing.fill_taps(arguments);
        gpu::launch_each(arguments.queue, resizing.num_y(),
                         Body{resizing.x_grid(), resizing.y_grid(), taps, static_cast<const T*>(arguments.inputs[0]),
                              static_cast<T*>(arguments.outputs[0])});
      },
      {.workspace_bytes = resizing.tap_bytes()});
}

std::unique_ptr<Kernel> make_resize2d(const KernelRequest& request) {
  const auto& options = request.node.options<Resize2dOptions>();
  const TensorType& y = request.outputs[0];
  const Resizing resizing({request.inputs[0].shape, y.shape, options.format}, options);
  if (resizing.images.are_alike()) return make_equal_copy(request);
  if (options.method == ResizeMethod::nearest) {
    return with_element_of(dtype_bytes(y.dtype), [&](auto element) {
      using T = decltype(element);
      return make_each<Nearest<T>, T>(resizing);
    });
  }
  return with_stored_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    return make_each<Bilinear<T>, T>(resizing);
  });
}

std::unique_ptr<Kernel> make_resize2d_grad(const KernelRequest& request) {
  const auto& options = request.node.options<Resize2dOptions>();
  const Resizing resizing({request.outputs[0].shape, request.inputs[0].shape, options.format}, options);
  if (resizing.images.are_alike()) return make_equal_copy(request);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [resizing](const KernelArguments& arguments) {
          const ResizeTap* taps = resizing.fill_taps(arguments);
          const Takers* takers = resizing.find_takers(arguments, taps);
          gpu::launch_each(
              arguments.queue, resizing.num_x(),
              ResizeGrad<T>{resizing.x_grid(), resizing.y_grid(), taps, takers,
                            static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0])});
        },
        {.workspace_bytes = resizing.tap_bytes() + resizing.taker_bytes()});
  });
}

}  // namespace

void add_resize_cuda_kernels(KernelRegistry& registry) {
  registry.add("resize2d", make_resize2d, Bf16::native);
  registry.add("resize2d_grad", make_resize2d_grad, Bf16::native);
}

}  // namespace sectionflow
