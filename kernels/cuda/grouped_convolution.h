#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gathered_image.h"

// Convolutions whose groups have few channels, depthwise ones above all: a thread a result, or a block a few of them.

namespace sectionflow::gpu {

/// For each place and channel of a result in images: the sum over taps and the channels of the group.
struct GroupedGather {
  const float* from;
  const float* weights;
  float* to;
  GatheredImage image;
  std::int64_t group_channels;                       // that are summed
  std::int64_t tap_step, channel_step, column_step;  // of the weights
  Divisor all_columns, group_columns, pixels;        // channels of the result; pixels of one image
  std::int64_t weights_group_step;
  bool channels_last;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, column, p;
    if (channels_last) {
      column = all_columns.cut(rest);
      p = rest;
    } else {
      const std::int64_t pixel = pixels.cut(rest);
      column = all_columns.cut(rest);
      p = rest * pixels.divisor() + pixel;
    }
    std::int64_t group = column;
    const std::int64_t line = group_columns.cut(group);
    GatheredImage::Half place = image.place(p);
    place.offset += group * image.group_step;
    to[i] = sum(place, weights + group * weights_group_step + line * column_step);
  }

 private:
  SF_HOST_DEVICE float sum(const GatheredImage::Half& place, const float* matrix) const {
    float total = 0;
    for (std::int64_t d = 0; d < image.windows[0]; ++d) {
      for (std::int64_t h = 0; h < image.windows[1]; ++h) {
        for (std::int64_t w = 0; w < image.windows[2]; ++w, matrix += tap_step) {
          const GatheredImage::Half tap{0, {d * image.tap_step[0], h * image.tap_step[1], w * image.tap_step[2]}};
          const std::int64_t first = image.element(place, tap);
          if (first < 0) continue;
          for (std::int64_t c = 0; c < group_channels; ++c) {
            total = std::fma(from[first + c * image.channel_step], matrix[c * channel_step], total);
          }
        }
      }
    }
    return total;
  }
};

/// Parts of dw of a tap and channel, for `across` neighbouring filters a block: its other threads share the positions.
struct GroupedFilterGradient {
  static constexpr int kThreads = 256;
  const float* x;
  const float* dy;
  double* partial;  // [splits, taps and channels, filters]
  GatheredImage image;
  std::int64_t dy_image, dy_pixel, dy_channel;
  std::int64_t filters, positions, split_positions;
  Divisor pixels, group_filters, taps, filter_blocks;
  int across;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    std::int64_t rest = thread.block();
    const int column = thread.index() % across, lane = thread.index() / across;
    const std::int64_t filter = filter_blocks.cut(rest) * across + column;
    const std::int64_t tap = taps.cut(rest);
    const std::int64_t begin = rest * split_positions;
    const std::int64_t end = begin + split_positions < positions ? begin + split_positions : positions;
    double sum = filter < filters ? sum_positions(tap, filter, begin + lane, end) : 0.0;
    auto sums = thread.template shared<double>(0, kThreads);
    sums[thread.index()] = sum;
    for (int lanes = kThreads / across / 2; lanes > 0; lanes /= 2) {
      thread.barrier();
      if (lane >= lanes) continue;
      const double other = sums[thread.index() + lanes * across];
      sum += other;
      sums[thread.index()] = sum;
    }
    if (lane == 0 && filter < filters) partial[(rest * taps.divisor() + tap) * filters + filter] = sum;
  }

 private:
  SF_HOST_DEVICE double sum_positions(std::int64_t tap, std::int64_t filter, std::int64_t first,
                                      std::int64_t end) const {
    GatheredImage::Half half = image.tap(tap);
    half.offset += group_filters.quotient(filter) * image.group_step;
    double sum = 0;
    for (std::int64_t p = first; p < end; p += kThreads / across) {
      const std::int64_t element = image.element(image.place(p), half);
      if (element < 0) continue;
      std::int64_t n = p;
      const std::int64_t pixel = pixels.cut(n);
      sum += static_cast<double>(x[element]) * dy[n * dy_image + pixel * dy_pixel + filter * dy_channel];
    }
    return sum;
  }
};

/// Adds the splits in order.
struct AddFilterSplits {
  const double* partial;
  std::int64_t splits, count;
  float* dw;
  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    double sum = 0;
    for (std::int64_t split = 0; split < splits; ++split) sum += partial[split * count + i];
    dw[i] = static_cast<float>(sum);
  }
};

}  // namespace sectionflow::gpu
