#include <cstdint>
#include <string>

#include "graph/nodes/pool.h"
#include "graph/ops/pool.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/function_kernel.h"
#include "kernels/pool_loop.h"

namespace sectionflow {
namespace {

using gpu::Divisor;

/// Where an element stands: image, {depth, height, width}, channel.
struct Place {
  std::int64_t n, at[3], c;
};

/// A pool's walks over its images, for one thread: one an element of the result. A gradient looks up the windows that
/// its element lies in.
struct Pool {
  PoolLoop loop;
  Divisor channels, x_sizes[3], y_sizes[3], strides[3];

  explicit Pool(const PoolLoop& loop) : loop(loop), channels(loop.channels) {
    for (int i = 0; i < 3; ++i) {
      x_sizes[i] = Divisor(loop.axes[i].size);
      y_sizes[i] = Divisor(loop.axes[i].out);
      strides[i] = Divisor(loop.axes[i].stride);
    }
  }
  std::int64_t num_inputs() const { return count(loop.axes[0].size, loop.axes[1].size, loop.axes[2].size); }
  std::int64_t num_outputs() const { return count(loop.axes[0].out, loop.axes[1].out, loop.axes[2].out); }

  /// Calls visit(element of x, tap) for each element of output i's window, in order; returns the output's place.
  template <class Visit>
  SF_HOST_DEVICE Place for_each_tap(std::int64_t i, const Visit& visit) const {
    const Place place = place_of(i, y_sizes);
    PoolSpan taps[3];
    std::int64_t start[3];
    for (int k = 0; k < 3; ++k) {
      taps[k] = taps_of(loop.axes[k], place.at[k]);
      start[k] = place.at[k] * loop.axes[k].stride - loop.axes[k].before;
    }
    for (std::int64_t d = taps[0].begin; d < taps[0].end; ++d) {
      for (std::int64_t h = taps[1].begin; h < taps[1].end; ++h) {
        const std::int64_t plane = place.n * loop.axes[0].size + start[0] + d;
        const std::int64_t row = (plane * loop.axes[1].size + start[1] + h) * loop.axes[2].size + start[2];
        const std::int64_t tap = (d * loop.axes[1].window + h) * loop.axes[2].window;
        for (std::int64_t w = taps[2].begin; w < taps[2].end; ++w) visit((row + w) * loop.channels + place.c, tap + w);
      }
    }
    return place;
  }

  /// Calls visit(element of y, tap, d, h, w) for each window over element i of x, in order; `tap` is i's index in it.
  template <class Visit>
  SF_HOST_DEVICE void for_each_window(std::int64_t i, const Visit& visit) const {
    const Place place = place_of(i, x_sizes);
    PoolSpan over[3];
    for (int k = 0; k < 3; ++k) {
      over[k] = windows_over(loop.axes[k], place.at[k], [&](std::int64_t n) { return strides[k].quotient(n); });
    }
    for (std::int64_t d = over[0].begin; d < over[0].end; ++d) {
      for (std::int64_t h = over[1].begin; h < over[1].end; ++h) {
        const std::int64_t row = (place.n * loop.axes[0].out + d) * loop.axes[1].out + h;
        const std::int64_t taps = tap_at(0, place, d) * loop.axes[1].window + tap_at(1, place, h);
        for (std::int64_t w = over[2].begin; w < over[2].end; ++w) {
          visit((row * loop.axes[2].out + w) * loop.channels + place.c,
                taps * loop.axes[2].window + tap_at(2, place, w), d, h, w);
        }
      }
    }
  }

 private:
  std::int64_t count(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return loop.batch * d * h * w * loop.channels;
  }
  SF_HOST_DEVICE Place place_of(std::int64_t i, const Divisor (&sizes)[3]) const {
    Place place;
    place.c = channels.cut(i);
    for (int k = 2; k >= 0; --k) place.at[k] = sizes[k].cut(i);
    place.n = i;
    return place;
  }
  SF_HOST_DEVICE std::int64_t tap_at(int axis, const Place& place, std::int64_t window) const {
    return place.at[axis] + loop.axes[axis].before - window * loop.axes[axis].stride;
  }
};

template <class T, class Index>
struct MaxPool {
  Pool pool;
  const T* x;
  T* y;
  Index* index;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    float best = 0;
    std::int64_t best_tap = -1;
    pool.for_each_tap(i, [&](std::int64_t in, std::int64_t tap) {
      const float value = x[in];
      if (best_tap >= 0 && !is_new_maximum(value, best)) return;
      best = value;
      best_tap = tap;
    });
    y[i] = static_cast<T>(best);
    index[i] = static_cast<Index>(best_tap);
  }
};

template <class T, class Index>
struct MaxPoolGrad {
  Pool pool;
  const T* dy;
  const Index* index;
  T* dx;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0;
    pool.for_each_window(i, [&](std::int64_t out, std::int64_t tap, std::int64_t, std::int64_t, std::int64_t) {
      if (static_cast<std::int64_t>(index[out]) == tap) sum += static_cast<float>(dy[out]);
    });
    dx[i] = static_cast<T>(sum);
  }
};

template <class T>
struct AveragePool {
  Pool pool;
  const T* x;
  T* y;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0;
    const Place place = pool.for_each_tap(i, [&](std::int64_t in, std::int64_t) { sum += static_cast<float>(x[in]); });
    y[i] = static_cast<T>(sum / pool.loop.divisor(place.at[0], place.at[1], place.at[2]));
  }
};

template <class T>
struct AveragePoolGrad {
  Pool pool;
  const T* dy;
  T* dx;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0;
    pool.for_each_window(i, [&](std::int64_t out, std::int64_t, std::int64_t d, std::int64_t h, std::int64_t w) {
      sum += static_cast<float>(dy[out]) / pool.loop.divisor(d, h, w);
    });
    dx[i] = static_cast<T>(sum);
  }
};

Pool pool_of(const KernelRequest& request, const Shape& x) {
  const auto& options = request.node.options<PoolOptions>();
  return Pool({pool_geometry(x, options, request.node.label()), options});
}

template <class T, class Index>
std::unique_ptr<Kernel> max_pool_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, pool.num_outputs(),
        MaxPool<T, Index>{pool, static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0]),
                          static_cast<Index*>(arguments.outputs[1])});
  });
}

template <class T, class Index>
std::unique_ptr<Kernel> max_pool_grad_kernel(const Pool& pool) {
  return function_kernel([pool](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, pool.num_inputs(),
        MaxPoolGrad<T, Index>{pool, static_cast<const T*>(arguments.inputs[0]),
                              static_cast<const Index*>(arguments.inputs[1]), static_cast<T*>(arguments.outputs[0])});
  });
}

std::unique_ptr<Kernel> make_cuda_max_pool(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.inputs[0].shape);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return request.outputs[1].dtype == Dtype::u8 ? max_pool_kernel<T, std::uint8_t>(pool)
                                                 : max_pool_kernel<T, std::int32_t>(pool);
  });
}

std::unique_ptr<Kernel> make_cuda_max_pool_grad(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.outputs[0].shape);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return request.inputs[1].dtype == Dtype::u8 ? max_pool_grad_kernel<T, std::uint8_t>(pool)
                                                : max_pool_grad_kernel<T, std::int32_t>(pool);
  });
}

std::unique_ptr<Kernel> make_cuda_average_pool(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.inputs[0].shape);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([pool](const KernelArguments& arguments) {
      gpu::launch_each(
          arguments.queue, pool.num_outputs(),
          AveragePool<T>{pool, static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0])});
    });
  });
}

std::unique_ptr<Kernel> make_cuda_average_pool_grad(const KernelRequest& request) {
  const Pool pool = pool_of(request, request.outputs[0].shape);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([pool](const KernelArguments& arguments) {
      gpu::launch_each(
          arguments.queue, pool.num_inputs(),
          AveragePoolGrad<T>{pool, static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0])});
    });
  });
}

}  // namespace

void add_pool_cuda_kernels(KernelRegistry& registry) {
  for (const std::string dimensions : {"2d", "3d"}) {
    registry.add("max_pool" + dimensions, make_cuda_max_pool, Bf16::native);
    registry.add("max_pool" + dimensions + "_grad", make_cuda_max_pool_grad, Bf16::native);
    registry.add("average_pool" + dimensions, make_cuda_average_pool, Bf16::native);
    registry.add("average_pool" + dimensions + "_grad", make_cuda_average_pool_grad, Bf16::native);
  }
}

}  // namespace sectionflow
