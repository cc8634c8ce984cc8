#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/planes.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"

// What batch_norm and group_norm share: statistics, normalisation and sums of gradients per channel. `Loops` is Columns
// or Planes, by the place of the channels; T is what x, y and their gradients are stored as.
namespace sectionflow {

inline std::size_t add_per_channel(WorkspaceLayout& workspace, std::int64_t channels) {
  return workspace.add(static_cast<std::size_t>(channels) * sizeof(float));
}

/// Mean and biased variance of each channel. Each block takes its own mean first, and its squares around it.
/// Source: Chan, Golub and LeVeque 1983, the pairwise formula for combining.
template <class Loops>
struct ChannelStatistics {
  Loops loops;
  std::size_t means_at, squares_at;  // f32 [blocks, C] each

  ChannelStatistics(const Loops& loops, WorkspaceLayout& workspace)
      : loops(loops),
        means_at(workspace.add(loops.partial_bytes())),
        squares_at(workspace.add(loops.partial_bytes())) {}

  template <class T>
  void run(const T* x, void* workspace, float* mean, float* variance) const {
    auto* means = static_cast<float*>(workspace_part(workspace, means_at));
    auto* squares = static_cast<float*>(workspace_part(workspace, squares_at));
    const std::int64_t channels = loops.channels();
    const auto count_of = [&](std::int64_t block) { return static_cast<double>(loops.count_of(block)); };
    loops.for_each_tile([&](const auto& tile) {
      float* tile_means = means + tile.block * channels;
      loops.sum(tile, {tile_means}, [x](std::int64_t i, std::int64_t) { return static_cast<float>(x[i]); });
      for (std::int64_t c = tile.first; c < tile.first + tile.width; ++c) {
        tile_means[c] = static_cast<float>(tile_means[c] / count_of(tile.block));
      }
      const typename Loops::Values around(loops, tile_means);
      const float* lane_means = around.data();
      loops.sum(tile, {squares + tile.block * channels}, [x, lane_means](std::int64_t i, std::int64_t lane) {
        const float centred = x[i] - lane_means[lane];
        return centred * centred;
      });
    });
    const double count = static_cast<double>(std::max<std::int64_t>(1, loops.count()));
    loops.combine([&](std::int64_t block, std::int64_t c) { return count_of(block) * means[block * channels + c]; },
                  [&](std::int64_t c, double sum) { mean[c] = static_cast<float>(sum / count); });
    loops.combine(
        [&](std::int64_t block, std::int64_t c) {
          const double apart = static_cast<double>(means[block * channels + c]) - mean[c];
          return squares[block * channels + c] + count_of(block) * apart * apart;
        },
        [&](std::int64_t c, double sum) { variance[c] = static_cast<float>(sum / count); });
  }
};

/// y = batch_normalized(x), or with `relu` the positive part of it. y may be x.
template <bool relu, class Loops, class T>
void normalize_channels(const Loops& loops, const T* x, const float* mean, const float* factor, const float* shift,
                        T* y) {
  const typename Loops::Values lane_means(loops, mean), lane_factors(loops, factor), lane_shifts(loops, shift);
  const float *means = lane_means.data(), *factors = lane_factors.data(), *shifts = lane_shifts.data();
  loops.for_each_run([=](auto step, std::int64_t element, std::int64_t lane, std::int64_t count) {
    const auto normalize = [=](std::int64_t first, auto length) {
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t l = lane + (first + i) * step, at = element + first + i;
        const float value = formulas::batch_normalized(x[at], means[l], factors[l], shifts[l]);
        // NaN passes, since it is not <= 0.
        y[at] = stored<T>(relu && value <= 0.0F ? 0.0F : value);
      }
    };
    in_steps(0, count, normalize, x + element, y + element);
  });
}

/// The gradient that reaches the norm itself: all of dy, or with `relu` where y is positive. Reads x alone, with one
/// number a lane for all else.
template <bool relu, class T>
struct ArrivingGradient {
  const T *dy, *x;                        // like y
  const float *means, *factors, *shifts;  // by lane; `shifts` is read with relu alone
  float operator()(std::int64_t i, std::int64_t lane) const {
    const float passed = dy[i];  // loaded whatever y is: a conditional load would be a branch
    if constexpr (!relu) return passed;
    return formulas::batch_normalized(x[i], means[lane], factors[lane], shifts[lane]) > 0.0F ? passed : 0.0F;
  }
};

/// Sums of the gradient that arrives at each channel, and of its product with x - mean.
template <class Loops>
struct ChannelGradientSums {
  Loops loops;
  std::size_t dy_sums_at, product_sums_at;  // f32 [blocks, C] each

  ChannelGradientSums(const Loops& loops, WorkspaceLayout& workspace)
      : loops(loops),
        dy_sums_at(workspace.add(loops.partial_bytes())),
        product_sums_at(workspace.add(loops.partial_bytes())) {}

  template <bool relu, class T>
  void run(const ArrivingGradient<relu, T>& arriving, void* workspace, float* dy_sum, float* product_sum) const {
    auto* dy_sums = static_cast<float*>(workspace_part(workspace, dy_sums_at));
    auto* product_sums = static_cast<float*>(workspace_part(workspace, product_sums_at));
    const std::int64_t channels = loops.channels();
    loops.for_each_tile([&](const auto& tile) {
      loops.sum(tile, {dy_sums + tile.block * channels, product_sums + tile.block * channels}, arriving,
                [arriving](std::int64_t i, std::int64_t lane) {
                  return arriving(i, lane) * (arriving.x[i] - arriving.means[lane]);
                });
    });
    loops.combine([=](std::int64_t block, std::int64_t c) { return dy_sums[block * channels + c]; },
                  [=](std::int64_t c, double total) { dy_sum[c] = static_cast<float>(total); });
    loops.combine([=](std::int64_t block, std::int64_t c) { return product_sums[block * channels + c]; },
                  [=](std::int64_t c, double total) { product_sum[c] = static_cast<float>(total); });
  }
};

/// dx = formula(dy that arrives, x, mean, factor, a, b), with numbers a and b of each channel; it may be dy or x.
template <class Formula, bool relu, class Loops, class T>
void write_channel_dx(const Loops& loops, const ArrivingGradient<relu, T>& arriving, const float* a, const float* b,
                      T* dx) {
  const typename Loops::Values lane_as(loops, a), lane_bs(loops, b);
  const float *as = lane_as.data(), *bs = lane_bs.data();
  loops.for_each_run([=](auto step, std::int64_t element, std::int64_t lane, std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = element + i, l = lane + i * step;
      dx[at] =
          stored<T>(Formula()(arriving(at, l), arriving.x[at], arriving.means[l], arriving.factors[l], as[l], bs[l]));
    }
  });
}

}  // namespace sectionflow
