#pragma once

#include <cstdint>

#include "graph/nodes/window.h"
#include "kernels/convolution_loop.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"

namespace sectionflow::gpu {

/// Where the elements of a batch of images lie: element = n image + pixel * pixel_step + c channel_step.
struct ImageSteps {
  std::int64_t image, pixel, channel;

  ImageSteps(std::int64_t channels, std::int64_t pixels, DataFormat format)
      : image(channels * pixels),
        pixel(format == DataFormat::nhwc ? channels : 1),
        channel(format == DataFormat::nhwc ? 1 : pixels) {}
};

/// Images read through a window. A **place** is a pixel of the grid over which the window steps, counted through the
/// batch; a **tap** is an element of the window and a channel within the group. Together they name an element of the
/// images, or none: a convolution's x under an output, or its dy over an element of x.
struct GatheredImage {
  /// Half of an element's name: what it adds to the offset and to the coordinates.
  struct Half {
    std::int64_t offset, at[3];
  };

  std::int64_t image_step, pixel_step, channel_step, group_step;
  std::int64_t sizes[3], windows[3];
  Divisor strides[3];  // coordinates that are no multiples of them name nothing
  Divisor place_sizes[3], tap_sizes[3], channels;
  std::int64_t place_scale[3], place_shift[3], tap_step[3];

  /// x as the outputs of a convolution see it.
  static GatheredImage under_outputs(const ConvolutionLoop& loop, DataFormat format) {
    GatheredImage g(ImageSteps(loop.channels(), loop.x_pixels(), format), loop.group_channels);
    for (int i = 0; i < 3; ++i) {
      const WindowAxis& axis = loop.axes[i];
      g.set_axis(i, axis.size, axis.window, axis.out, 1);
      g.place_scale[i] = axis.stride;
      g.place_shift[i] = -axis.before;
      g.tap_step[i] = axis.dilation;
    }
    return g;
  }
  /// dy as the elements of x see it.
  static GatheredImage over_inputs(const ConvolutionLoop& loop, DataFormat format) {
    GatheredImage g(ImageSteps(loop.filters(), loop.y_pixels(), format), loop.group_filters);
    for (int i = 0; i < 3; ++i) {
      const WindowAxis& axis = loop.axes[i];
      g.set_axis(i, axis.out, axis.window, axis.size, axis.stride);
      g.place_scale[i] = 1;
      g.place_shift[i] = axis.before;
      g.tap_step[i] = -axis.dilation;
    }
    return g;
  }

  SF_HOST_DEVICE Half place(std::int64_t p) const {
    Half half;
    for (int i = 2; i >= 0; --i) half.at[i] = place_sizes[i].cut(p) * place_scale[i] + place_shift[i];
    half.offset = p * image_step;
    return half;
  }
  SF_HOST_DEVICE Half tap(std::int64_t k) const {
    Half half;
    half.offset = channels.cut(k) * channel_step;
    for (int i = 2; i >= 0; --i) half.at[i] = tap_sizes[i].cut(k) * tap_step[i];
    return half;
  }
  /// The element, or -1.
  SF_HOST_DEVICE std::int64_t element(const Half& place, const Half& tap) const {
    std::int64_t pixel = 0;
    for (int i = 0; i < 3; ++i) {
      std::int64_t at = place.at[i] + tap.at[i];
      if (at < 0 || (strides[i].divisor() != 1 && strides[i].cut(at) != 0) || at >= sizes[i]) return -1;
      pixel = pixel * sizes[i] + at;
    }
    return place.offset + tap.offset + pixel * pixel_step;
  }

 private:
  GatheredImage(const ImageSteps& steps, std::int64_t group_channels)
      : image_step(steps.image),
        pixel_step(steps.pixel),
        channel_step(steps.channel),
        group_step(group_channels * steps.channel),
        channels(group_channels) {}
  void set_axis(int i, std::int64_t size, std::int64_t window, std::int64_t places, std::int64_t stride) {
    sizes[i] = size;
    windows[i] = window;
    strides[i] = Divisor(stride);
    place_sizes[i] = Divisor(places);
    tap_sizes[i] = Divisor(window);
  }
};

/// Gathered images as a factor of a product (see product.h): its lines are places and it is summed over taps, or the
/// other way round.
template <bool kLinesArePlaces>
struct GatherOperand {
  using Outer = GatheredImage::Half;
  using Inner = GatheredImage::Half;
  const float* data;
  GatheredImage image;

  SF_HOST_DEVICE bool along_inner() const { return (image.channel_step == 1) == kLinesArePlaces; }
  SF_HOST_DEVICE Outer outer(std::int64_t group, std::int64_t line) const {
    Outer half = kLinesArePlaces ? image.place(line) : image.tap(line);
    half.offset += group * image.group_step;
    return half;
  }
  SF_HOST_DEVICE Inner inner(std::int64_t k) const { return kLinesArePlaces ? image.tap(k) : image.place(k); }
  SF_HOST_DEVICE float at(const Outer& line, const Inner& k) const {
    const std::int64_t element = kLinesArePlaces ? image.element(line, k) : image.element(k, line);
    return element < 0 ? 0.0F : data[element];
  }
};

}  // namespace sectionflow::gpu
