#include <cstdint>
#include <string>
#include <type_traits>

#include "graph/nodes/pool.h"
#include "graph/ops/pool.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/function_kernel.h"
#include "kernels/pool_loop.h"
#include "kernels/quantized_element.h"

namespace sectionflow {
namespace {

using gpu::Divisor;

/// A WindowAxis as `Int`s.
template <class Int>
struct PoolAxis {
  Int size, window, stride, before, out;
};

/// Where some neighbouring channels of an element stand: image, {depth, height, width}, first channel.
template <class Int>
struct Place {
  Int n, at[3], c;
};

/// A pool's walks over its images, for one thread: one for `kWidth` neighbouring channels of an element of the result.
/// A gradient looks up the windows that its element lies in. `Int`: a type for all numbers of elements.
template <class Integer, int kChannels>
struct Pool {
  using Int = Integer;
  static constexpr int kWidth = kChannels;

  Int batch, channels;
  PoolAxis<Int> axes[3];
  bool include_padding;
  Divisor units, x_sizes[3], y_sizes[3], strides[3];  // units: of kWidth channels

  explicit Pool(const PoolLoop& loop)
      : batch(static_cast<Int>(loop.batch)),
        channels(static_cast<Int>(loop.channels)),
        include_padding(loop.include_padding),
        units(loop.channels / kWidth) {
    for (int i = 0; i < 3; ++i) {
      const WindowAxis& axis = loop.axes[i];
      axes[i] = {static_cast<Int>(axis.size), static_cast<Int>(axis.window), static_cast<Int>(axis.stride),
                 static_cast<Int>(axis.before), static_cast<Int>(axis.out)};
      x_sizes[i] = Divisor(axis.size);
      y_sizes[i] = Divisor(axis.out);
      strides[i] = Divisor(axis.stride);
    }
  }
  /// Threads for the elements of x, and of y.
  std::int64_t num_inputs() const { return count(axes[0].size, axes[1].size, axes[2].size); }
  std::int64_t num_outputs() const { return count(axes[0].out, axes[1].out, axes[2].out); }

  SF_HOST_DEVICE Place<Int> input(std::int64_t i) const { return place_of(static_cast<Int>(i), x_sizes); }
  SF_HOST_DEVICE Place<Int> output(std::int64_t i) const { return place_of(static_cast<Int>(i), y_sizes); }

  /// Calls use(load(element of x), tap) for each element of the window of y's `place`, in order. Some elements of a row
  /// are loaded before the first of them is used, so that they are on the way together.
  template <class Load, class Use>
  SF_HOST_DEVICE void for_each_tap(const Place<Int>& place, const Load& load, const Use& use) const {
    BasicPoolSpan<Int> taps[3];
    Int start[3];
    for (int k = 0; k < 3; ++k) {
      taps[k] = taps_of(axes[k], place.at[k]);
      start[k] = place.at[k] * axes[k].stride - axes[k].before;
    }
    for (Int d = taps[0].begin; d < taps[0].end; ++d) {
      for (Int h = taps[1].begin; h < taps[1].end; ++h) {
        const Int plane = place.n * axes[0].size + start[0] + d;
        const Int row = (plane * axes[1].size + start[1] + h) * axes[2].size + start[2];
        const Int tap = (d * axes[1].window + h) * axes[2].window;
        in_turn<3>(
            taps[2], [&](Int w) { return load((row + w) * channels + place.c); },
            [&](Int w, const auto& loaded) { use(loaded, tap + w); });
      }
    }
  }

  /// Calls use(load(element of y), tap, d, h, w) for each window over x's `place`, in order; `tap` is the place's index
  /// in it.
  template <class Load, class Use>
  SF_HOST_DEVICE void for_each_window(const Place<Int>& place, const Load& load, const Use& use) const {
    BasicPoolSpan<Int> over[3];
    for (int k = 0; k < 3; ++k) {
      over[k] = windows_over(axes[k], place.at[k], [&](Int n) { return static_cast<Int>(strides[k].quotient(n)); });
    }
    for (Int d = over[0].begin; d < over[0].end; ++d) {
      for (Int h = over[1].begin; h < over[1].end; ++h) {
        const Int row = ((place.n * axes[0].out + d) * axes[1].out + h) * axes[2].out;
        const Int taps = (tap_at(0, place, d) * axes[1].window + tap_at(1, place, h)) * axes[2].window;
        in_turn<2>(
            over[2], [&](Int w) { return load((row + w) * channels + place.c); },
            [&](Int w, const auto& loaded) { use(loaded, taps + tap_at(2, place, w), d, h, w); });
      }
    }
  }

  /// Elements of the window at {d, h, w} that its mean is divided by.
  SF_HOST_DEVICE float divisor(Int d, Int h, Int w) const {
    const Int at[3] = {d, h, w};
    Int taps = 1;
    for (int k = 0; k < 3; ++k) taps *= include_padding ? axes[k].window : taps_of(axes[k], at[k]).count();
    return static_cast<float>(taps);
  }

 private:
  std::int64_t count(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return batch * d * h * w * (channels / kWidth);
  }
  SF_HOST_DEVICE Place<Int> place_of(Int i, const Divisor (&sizes)[3]) const {
    Place<Int> place;
    place.c = cut(i, units) * kWidth;
    for (int k = 2; k >= 0; --k) place.at[k] = cut(i, sizes[k]);
    place.n = i;
    return place;
  }
  /// n % divisor; n becomes the quotient.
  SF_HOST_DEVICE static Int cut(Int& n, const Divisor& divisor) {
    const Int whole = static_cast<Int>(divisor.quotient(n)), rest = n - whole * static_cast<Int>(divisor.divisor());
    n = whole;
    return rest;
  }
  SF_HOST_DEVICE Int tap_at(int axis, const Place<Int>& place, Int window) const {
    return place.at[axis] + axes[axis].before - window * axes[axis].stride;
  }

  /// use(w, load(w)) for w in the span, kAtATime loads in front of their uses.
  template <int kAtATime, class Load, class Use>
  SF_HOST_DEVICE static void in_turn(const BasicPoolSpan<Int>& span, const Load& load, const Use& use) {
    for (Int w = span.begin; w < span.end; w += kAtATime) {
      decltype(load(w)) loaded[kAtATime];
      // Behind the end the last once more, rather than a branch between the loads.
      for (int i = 0; i < kAtATime; ++i) loaded[i] = load(w + i < span.end ? w + i : span.end - 1);
      for (int i = 0; i < kAtATime; ++i) {
        if (w + i < span.end) use(w + i, loaded[i]);
      }
    }
  }
};

template <class T, class Index, class Pool>
struct MaxPool {
  static constexpr int kWidth = Pool::kWidth;
  Pool pool;
  const T* x;
  T* y;
  Index* index;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    using Int = typename Pool::Int;
    float best[kWidth] = {};
    Int best_tap[kWidth];
    for (int k = 0; k < kWidth; ++k) best_tap[k] = -1;
    pool.for_each_tap(
        pool.output(i), [&](Int at) { return gpu::load_pack<kWidth>(x + at); },
        [&](const gpu::Pack<T, kWidth>& xs, Int tap) {
          for (int k = 0; k < kWidth; ++k) {
            const float value = xs.values[k];
            const bool is_new = best_tap[k] < 0 || is_new_maximum(value, best[k]);
            best[k] = is_new ? value : best[k];
            best_tap[k] = is_new ? tap : best_tap[k];
          }
        });
    gpu::Pack<T, kWidth> ys;
    gpu::Pack<Index, kWidth> taps;
    for (int k = 0; k < kWidth; ++k) {
      ys.values[k] = static_cast<T>(best[k]);
      taps.values[k] = static_cast<Index>(best_tap[k]);
    }
    gpu::store_pack(y + kWidth * i, ys);
    gpu::store_pack(index + kWidth * i, taps);
  }
};

template <class T, int kWidth>
SF_HOST_DEVICE void store_sums(const float (&sums)[kWidth], T* place) {
  gpu::Pack<T, kWidth> pack;
  for (int k = 0; k < kWidth; ++k) pack.values[k] = static_cast<T>(sums[k]);
  gpu::store_pack(place, pack);
}

template <class T, class Index, class Pool>
struct MaxPoolGrad {
  static constexpr int kWidth = Pool::kWidth;
  Pool pool;
  const T* dy;
  const Index* index;
  T* dx;

  struct Loaded {
    gpu::Pack<T, kWidth> dy;
    gpu::Pack<Index, kWidth> taps;
  };

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    using Int = typename Pool::Int;
    float sums[kWidth] = {};
    pool.for_each_window(
        pool.input(i),
        [&](Int at) {
          return Loaded{gpu::load_pack<kWidth>(dy + at), gpu::load_pack<kWidth>(index + at)};
        },
        [&](const Loaded& loaded, Int tap, Int, Int, Int) {
          for (int k = 0; k < kWidth; ++k) {
            if (static_cast<Int>(loaded.taps.values[k]) == tap) sums[k] += static_cast<float>(loaded.dy.values[k]);
          }
        });
    store_sums(sums, dx + kWidth * i);
  }
};

template <class T, class Pool>
struct AveragePool {
  static constexpr int kWidth = Pool::kWidth;
  Pool pool;
  const T* x;
  T* y;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    using Int = typename Pool::Int;
    float sums[kWidth] = {};
    const Place<Int> place = pool.output(i);
    pool.for_each_tap(
        place, [&](Int at) { return gpu::load_pack<kWidth>(x + at); },
        [&](const gpu::Pack<T, kWidth>& xs, Int) {
          for (int k = 0; k < kWidth; ++k) sums[k] += static_cast<float>(xs.values[k]);
        });
    const float divisor = pool.divisor(place.at[0], place.at[1], place.at[2]);
    for (int k = 0; k < kWidth; ++k) sums[k] /= divisor;
    store_sums(sums, y + kWidth * i);
  }
};

template <class T, class Pool>
struct AveragePoolGrad {
  static constexpr int kWidth = Pool::kWidth;
  Pool pool;
  const T* dy;
  T* dx;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    using Int = typename Pool::Int;
    float sums[kWidth] = {};
    pool.for_each_window(
        pool.input(i), [&](Int at) { return gpu::load_pack<kWidth>(dy + at); },
        [&](const gpu::Pack<T, kWidth>& dys, Int, Int d, Int h, Int w) {
          const float divisor = pool.divisor(d, h, w);
          for (int k = 0; k < kWidth; ++k) sums[k] += static_cast<float>(dys.values[k]) / divisor;
        });
    store_sums(sums, dx + kWidth * i);
  }
};

template <class T, bool is_maximum>
struct QuantizedPool {
  Pool<std::int64_t, 1> pool;
  const T* x;
  T* y;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const Place<std::int64_t> place = pool.output(i);
    std::int32_t largest = -128, sum = 0;
    pool.for_each_tap(
        place, [&](std::int64_t at) { return static_cast<std::int32_t>(x[at]); },
        [&](std::int32_t value, std::int64_t) {
          largest = value > largest ? value : largest;
          sum += value;
        });
    const float mean = static_cast<float>(sum) / pool.divisor(place.at[0], place.at[1], place.at[2]);
    y[i] = static_cast<T>(is_maximum ? largest : formulas::nearest_mean(mean));
  }
};

PoolLoop loop_of(const KernelRequest& request, const Shape& x) {
  const auto& options = request.node.options<PoolOptions>();
  return {pool_geometry(x, options, request.node.label()), options};
}

/// Whether all that a Pool counts is below 2^31.
bool is_short(const PoolLoop& loop) {
  const auto fits = [](double count) { return count < 0x1p31; };
  double inputs = static_cast<double>(loop.batch * loop.channels), outputs = inputs, taps = 1;
  bool all_fit = true;
  for (const WindowAxis& axis : loop.axes) {
    inputs *= static_cast<double>(axis.size);
    outputs *= static_cast<double>(axis.out);
    taps *= static_cast<double>(axis.window);
    all_fit = all_fit && fits(static_cast<double>(axis.size + axis.before + axis.after + axis.window + axis.stride));
  }
  return all_fit && fits(inputs) && fits(outputs) && fits(taps);
}

/// make(pool) with the pool's walks: in whole packs of channels of up to `kWidth` where there are such, with 32-bit
/// numbers, whose arithmetic takes a fraction of the time, if those do.
template <int kWidth, class Make>
std::unique_ptr<Kernel> with_pool(const PoolLoop& loop, const Make& make) {
  if (!is_short(loop)) return make(Pool<std::int64_t, 1>(loop));
  if (loop.channels % kWidth == 0) return make(Pool<std::int32_t, kWidth>(loop));
  return make(Pool<std::int32_t, 1>(loop));
}

/// make(T{}, Index{}, pool) for a max pool of elements stored as T whose indices are `index`.
template <class Make>
std::unique_ptr<Kernel> with_max_pool(const PoolLoop& loop, Dtype dtype, Dtype index_dtype, const Make& make) {
  return with_stored_type(dtype, [&](auto element) {
    const auto with_index = [&](auto index) {
      return with_pool<gpu::pack_width<decltype(element), decltype(index)>()>(
          loop, [&](const auto& pool) { return make(element, index, pool); });
    };
    return index_dtype == Dtype::u8 ? with_index(std::uint8_t{}) : with_index(std::int32_t{});
  });
}

std::unique_ptr<Kernel> make_cuda_max_pool(const KernelRequest& request) {
  const auto make = [](auto element, auto index, const auto& pool) {
    using T = decltype(element);
    using Index = decltype(index);
    using Body = MaxPool<T, Index, std::decay_t<decltype(pool)>>;
    return function_kernel([pool](const KernelArguments& arguments) {
      gpu::launch_each(arguments.queue, pool.num_outputs(),
                       Body{pool, static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0]),
                            static_cast<Index*>(arguments.outputs[1])});
    });
  };
  return with_max_pool(loop_of(request, request.inputs[0].shape), request.outputs[0].dtype, request.outputs[1].dtype,
                       make);
}

std::unique_ptr<Kernel> make_cuda_max_pool_grad(const KernelRequest& request) {
  const auto make = [](auto element, auto index, const auto& pool) {
    using T = decltype(element);
    using Index = decltype(index);
    using Body = MaxPoolGrad<T, Index, std::decay_t<decltype(pool)>>;
    return function_kernel([pool](const KernelArguments& arguments) {
      gpu::launch_each(arguments.queue, pool.num_inputs(),
                       Body{pool, static_cast<const T*>(arguments.inputs[0]),
                            static_cast<const Index*>(arguments.inputs[1]), static_cast<T*>(arguments.outputs[0])});
    });
  };
  return with_max_pool(loop_of(request, request.outputs[0].shape), request.outputs[0].dtype, request.inputs[1].dtype,
                       make);
}

/// AveragePool or its gradient, a thread for each pack of what it makes.
template <bool is_gradient>
std::unique_ptr<Kernel> average_kernel(const KernelRequest& request, const Shape& x) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return with_pool<gpu::pack_width<T>()>(loop_of(request, x), [](const auto& pool) {
      using P = std::decay_t<decltype(pool)>;
      using Body = std::conditional_t<is_gradient, AveragePoolGrad<T, P>, AveragePool<T, P>>;
      return function_kernel([pool](const KernelArguments& arguments) {
        const Body body{pool, static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0])};
        gpu::launch_each(arguments.queue, is_gradient ? pool.num_inputs() : pool.num_outputs(), body);
      });
    });
  });
}
std::unique_ptr<Kernel> make_cuda_average_pool(const KernelRequest& request) {
  return average_kernel<false>(request, request.inputs[0].shape);
}
std::unique_ptr<Kernel> make_cuda_average_pool_grad(const KernelRequest& request) {
  return average_kernel<true>(request, request.outputs[0].shape);
}

template <bool is_maximum>
std::unique_ptr<Kernel> make_cuda_quantized_pool(const KernelRequest& request) {
  const Pool<std::int64_t, 1> pool(loop_of(request, request.inputs[0].shape));
  return with_quantized_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return function_kernel([pool](const KernelArguments& arguments) {
      const QuantizedPool<T, is_maximum> body{pool, static_cast<const T*>(arguments.inputs[0]),
                                              static_cast<T*>(arguments.outputs[0])};
      gpu::launch_each(arguments.queue, pool.num_outputs(), body);
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
    registry.add("quantized_max_pool" + dimensions, make_cuda_quantized_pool<true>);
    registry.add("quantized_average_pool" + dimensions, make_cuda_quantized_pool<false>);
  }
}

}  // namespace sectionflow
