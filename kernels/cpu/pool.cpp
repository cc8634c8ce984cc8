#include "graph/ops/pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "device/parallel.h"
#include "graph/nodes/pool.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/quantize.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/pool_loop.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

using Spans = std::array<PoolSpan, 3>;

/// A grid of pixels: [batch, sizes..., channels].
struct Grid {
  std::int64_t batch = 0;
  std::array<std::int64_t, 3> sizes{};

  std::int64_t pixel(std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) const {
    return ((n * sizes[0] + d) * sizes[1] + h) * sizes[2] + w;
  }
};

/// A pool's walks over its images. Loops of our own: their bits do not depend on the thread count.
class Pool {
 public:
  /// Lanes that are worked on together; their numbers stay in registers and in the first cache.
  static constexpr std::int64_t kMaxLanes = 64;

  explicit Pool(const PoolLoop& loop) : loop_(loop) {
    x_.batch = y_.batch = loop.batch;
    for (std::size_t i = 0; i < 3; ++i) {
      x_.sizes[i] = loop_.axes[i].size;
      y_.sizes[i] = loop_.axes[i].out;
    }
  }

  /// Elements of the window `at` that its mean is divided by.
  float divisor(const std::array<std::int64_t, 3>& at) const { return loop_.divisor(at[0], at[1], at[2]); }

  /// Calls `body(first element of y, lanes, for_each_tap)` for every output, at most kMaxLanes channels at a time,
  /// where for_each_tap(visit) calls visit(first element of x, tap) for each element of the window, in order. `at` is
  /// the output's place.
  template <class Body>
  void for_each_output(const Body& body) const {
    for_each_pixel(y_, [&](std::int64_t n, const std::array<std::int64_t, 3>& at, std::int64_t pixel) {
      const Spans taps = {taps_of(loop_.axes[0], at[0]), taps_of(loop_.axes[1], at[1]), taps_of(loop_.axes[2], at[2])};
      std::array<std::int64_t, 3> start;
      for (std::size_t i = 0; i < 3; ++i) start[i] = at[i] * loop_.axes[i].stride - loop_.axes[i].before;
      for_each_lanes([&](std::int64_t c, std::int64_t lanes) {
        const auto for_each_tap = [&](const auto& visit) {
          for (std::int64_t d = taps[0].begin; d < taps[0].end; ++d) {
            for (std::int64_t h = taps[1].begin; h < taps[1].end; ++h) {
              const std::int64_t row = x_.pixel(n, start[0] + d, start[1] + h, start[2]);
              const std::int64_t tap = (d * loop_.axes[1].window + h) * loop_.axes[2].window;
              for (std::int64_t w = taps[2].begin; w < taps[2].end; ++w) visit((row + w) * loop_.channels + c, tap + w);
            }
          }
        };
        body(pixel * loop_.channels + c, lanes, at, for_each_tap);
      });
    });
  }

  /// Calls `body(first element of x, lanes, for_each_window)` for every element of the image, where
  /// for_each_window(visit) calls visit(first element of y, tap, place of the window) for each window that covers the
  /// element, in order; `tap` is the element's index within it.
  template <class Body>
  void for_each_input(const Body& body) const {
    for_each_pixel(x_, [&](std::int64_t n, const std::array<std::int64_t, 3>& at, std::int64_t pixel) {
      const Spans over = {over_axis(0, at[0]), over_axis(1, at[1]), over_axis(2, at[2])};
      for_each_lanes([&](std::int64_t c, std::int64_t lanes) {
        const auto for_each_window = [&](const auto& visit) {
          for (std::int64_t d = over[0].begin; d < over[0].end; ++d) {
            for (std::int64_t h = over[1].begin; h < over[1].end; ++h) {
              const std::int64_t row = tap_at(0, at[0], d) * loop_.axes[1].window + tap_at(1, at[1], h);
              for (std::int64_t w = over[2].begin; w < over[2].end; ++w) {
                visit(y_.pixel(n, d, h, w) * loop_.channels + c, row * loop_.axes[2].window + tap_at(2, at[2], w),
                      std::array<std::int64_t, 3>{d, h, w});
              }
            }
          }
        };
        body(pixel * loop_.channels + c, lanes, for_each_window);
      });
    });
  }

 private:
  PoolSpan over_axis(std::size_t axis, std::int64_t element) const {
    return windows_over(loop_.axes[axis], element, [&](std::int64_t n) { return n / loop_.axes[axis].stride; });
  }
  std::int64_t tap_at(std::size_t axis, std::int64_t element, std::int64_t window) const {
    return element + loop_.axes[axis].before - window * loop_.axes[axis].stride;
  }

  template <class Body>
  void for_each_lanes(const Body& body) const {
    for (std::int64_t c = 0; c < loop_.channels; c += kMaxLanes) body(c, std::min(kMaxLanes, loop_.channels - c));
  }

  /// Calls `body(n, {d, h, w}, pixel)` for every pixel of a grid, on the compute team.
  template <class Body>
  void for_each_pixel(const Grid& grid, const Body& body) const {
    const std::int64_t count = grid.batch * grid.sizes[0] * grid.sizes[1] * grid.sizes[2];
    if (count == 0 || loop_.channels == 0) return;
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / (loop_.channels * loop_.num_taps()));
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, 3> at;
      at[2] = begin % grid.sizes[2];
      at[1] = begin / grid.sizes[2] % grid.sizes[1];
      at[0] = begin / (grid.sizes[2] * grid.sizes[1]) % grid.sizes[0];
      std::int64_t n = begin / (grid.sizes[2] * grid.sizes[1] * grid.sizes[0]);
      for (std::int64_t pixel = begin; pixel < end; ++pixel) {
        body(n, at, pixel);
        if (++at[2] < grid.sizes[2]) continue;
        at[2] = 0;
        if (++at[1] < grid.sizes[1]) continue;
        at[1] = 0;
        if (++at[0] < grid.sizes[0]) continue;
        at[0] = 0;
        ++n;
      }
    });
  }

  PoolLoop loop_;
  Grid x_, y_;
};

Pool pool_of(const KernelRequest& request, const Shape& x) {
  const auto& options = request.node.options<PoolOptions>();
  return Pool({pool_geometry(x, options, request.node.label()), options});
}

// Kernels of x, y and their gradients stored as T, with indices of the element in the window stored as Index.

template <class T, class Index>
std::unique_ptr<Kernel> max_pool_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    const auto* x = static_cast<const T*>(arguments.inputs[0]);
    auto* y = static_cast<T*>(arguments.outputs[0]);
    auto* index = static_cast<Index*>(arguments.outputs[1]);
    pool.for_each_output([=](std::int64_t out, std::int64_t lanes, const auto&, const auto& for_each_tap) {
      float best[Pool::kMaxLanes];
      std::int32_t best_tap[Pool::kMaxLanes];
      bool is_first = true;
      for_each_tap([&](std::int64_t in, std::int64_t tap) {
        const auto tap32 = static_cast<std::int32_t>(tap);
        if (is_first) {
          for (std::int64_t c = 0; c < lanes; ++c) best_tap[c] = tap32;
          std::copy(x + in, x + in + lanes, best);
          is_first = false;
          return;
        }
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) {
          const float value = x[in + c];
          const bool larger = is_new_maximum(value, best[c]);
          best[c] = larger ? value : best[c];
          best_tap[c] = larger ? tap32 : best_tap[c];
        }
      });
      convert_row(y + out, best, lanes);
      for (std::int64_t c = 0; c < lanes; ++c) index[out + c] = static_cast<Index>(best_tap[c]);
    });
  });
}

template <class T, class Index>
std::unique_ptr<Kernel> max_pool_grad_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    const auto* dy = static_cast<const T*>(arguments.inputs[0]);
    const auto* index = static_cast<const Index*>(arguments.inputs[1]);
    auto* dx = static_cast<T*>(arguments.outputs[0]);
    pool.for_each_input([=](std::int64_t in, std::int64_t lanes, const auto& for_each_window) {
      float sum[Pool::kMaxLanes];
      std::fill(sum, sum + lanes, 0.0F);
      for_each_window([&](std::int64_t out, std::int64_t tap, const auto&) {
        const auto wanted = static_cast<std::int32_t>(tap);
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) {
          const float passed = dy[out + c];  // loaded whatever the index is: a conditional load would be a branch
          sum[c] += static_cast<std::int32_t>(index[out + c]) == wanted ? passed : 0.0F;
        }
      });
      convert_row(dx + in, sum, lanes);
    });
  });
}

template <class T>
std::unique_ptr<Kernel> average_pool_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    const auto* x = static_cast<const T*>(arguments.inputs[0]);
    auto* y = static_cast<T*>(arguments.outputs[0]);
    pool.for_each_output([=, &pool](std::int64_t out, std::int64_t lanes, const auto& at, const auto& for_each_tap) {
      float sum[Pool::kMaxLanes];
      std::fill(sum, sum + lanes, 0.0F);
      for_each_tap([&](std::int64_t in, std::int64_t) {
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) sum[c] += x[in + c];
      });
      const float divisor = pool.divisor(at);
#pragma omp simd
      for (std::int64_t c = 0; c < lanes; ++c) y[out + c] = stored<T>(sum[c] / divisor);
    });
  });
}

template <class T>
std::unique_ptr<Kernel> average_pool_grad_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    const auto* dy = static_cast<const T*>(arguments.inputs[0]);
    auto* dx = static_cast<T*>(arguments.outputs[0]);
    pool.for_each_input([=, &pool](std::int64_t in, std::int64_t lanes, const auto& for_each_window) {
      float sum[Pool::kMaxLanes];
      std::fill(sum, sum + lanes, 0.0F);
      for_each_window([&](std::int64_t out, std::int64_t, const auto& at) {
        const float divisor = pool.divisor(at);
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) sum[c] += dy[out + c] / divisor;
      });
      convert_row(dx + in, sum, lanes);
    });
  });
}

template <class T>
std::unique_ptr<Kernel> quantized_max_pool_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    const auto* x = static_cast<const T*>(arguments.inputs[0]);
    auto* y = static_cast<T*>(arguments.outputs[0]);
    pool.for_each_output([=](std::int64_t out, std::int64_t lanes, const auto&, const auto& for_each_tap) {
      T best[Pool::kMaxLanes];
      std::fill(best, best + lanes, std::numeric_limits<T>::lowest());
      for_each_tap([&](std::int64_t in, std::int64_t) {
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) best[c] = x[in + c] > best[c] ? x[in + c] : best[c];
      });
      std::copy(best, best + lanes, y + out);
    });
  });
}

template <class T>
std::unique_ptr<Kernel> quantized_average_pool_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    const auto* x = static_cast<const T*>(arguments.inputs[0]);
    auto* y = static_cast<T*>(arguments.outputs[0]);
    pool.for_each_output([=, &pool](std::int64_t out, std::int64_t lanes, const auto& at, const auto& for_each_tap) {
      std::int32_t sum[Pool::kMaxLanes];
      std::fill(sum, sum + lanes, 0);
      for_each_tap([&](std::int64_t in, std::int64_t) {
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) sum[c] += x[in + c];
      });
      const float divisor = pool.divisor(at);
#pragma omp simd
      for (std::int64_t c = 0; c < lanes; ++c) {
        y[out + c] = static_cast<T>(formulas::nearest_mean(static_cast<float>(sum[c]) / divisor));
      }
    });
  });
}

std::unique_ptr<Kernel> make_quantized_max_pool(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.inputs[0].shape);
  return request.inputs[0].dtype == Dtype::u8 ? quantized_max_pool_kernel<std::uint8_t>(pool)
                                              : quantized_max_pool_kernel<std::int8_t>(pool);
}

std::unique_ptr<Kernel> make_quantized_average_pool(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.inputs[0].shape);
  return request.inputs[0].dtype == Dtype::u8 ? quantized_average_pool_kernel<std::uint8_t>(pool)
                                              : quantized_average_pool_kernel<std::int8_t>(pool);
}

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.inputs[0].shape);
  return with_stored_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const bool is_short = request.outputs[1].dtype == Dtype::u8;
    return is_short ? max_pool_kernel<T, std::uint8_t>(pool) : max_pool_kernel<T, std::int32_t>(pool);
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.outputs[0].shape);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const bool is_short = request.inputs[1].dtype == Dtype::u8;
    return is_short ? max_pool_grad_kernel<T, std::uint8_t>(pool) : max_pool_grad_kernel<T, std::int32_t>(pool);
  });
}

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  return with_stored_type(
      x.dtype, [&](auto element) { return average_pool_kernel<decltype(element)>(pool_of(request, x.shape)); });
}

std::unique_ptr<Kernel> make_average_pool_grad(const KernelRequest& request) {
  const TensorType& dx = request.outputs[0];
  return with_stored_type(
      dx.dtype, [&](auto element) { return average_pool_grad_kernel<decltype(element)>(pool_of(request, dx.shape)); });
}

}  // namespace

void add_pool_cpu_kernels(KernelRegistry& registry) {
  for (const std::string dimensions : {"2d", "3d"}) {
    registry.add("max_pool" + dimensions, make_max_pool, Bf16::native);
    registry.add("max_pool" + dimensions + "_grad", make_max_pool_grad, Bf16::native);
    registry.add("average_pool" + dimensions, make_average_pool, Bf16::native);
    registry.add("average_pool" + dimensions + "_grad", make_average_pool_grad, Bf16::native);
    registry.add("quantized_max_pool" + dimensions, make_quantized_max_pool);
    registry.add("quantized_average_pool" + dimensions, make_quantized_average_pool);
  }
}

}  // namespace sectionflow
