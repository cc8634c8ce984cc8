#pragma once

#include <array>
#include <string>
#include <vector>

#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "graph/ops/convolution.h"
#include "tests/support/op_case.h"

// Convolutions of every rank in double, product by product.

namespace sectionflow::testing_support {

/// Where the elements of an image tensor lie: element = n * image + c * channel + pixel * pixel_step.
struct ImageSteps {
  std::int64_t image, channel, pixel;

  ImageSteps(std::int64_t channels, std::int64_t pixels, DataFormat format)
      : image(channels * pixels),
        channel(format == DataFormat::nhwc ? 1 : pixels),
        pixel(format == DataFormat::nhwc ? channels : 1) {}
};

/// The element of the image under tap `t` of output `o`, or -1.
inline std::int64_t under(const WindowAxis& axis, std::int64_t o, std::int64_t t) {
  const std::int64_t i = o * axis.stride - axis.before + t * axis.dilation;
  return i >= 0 && i < axis.size ? i : -1;
}

/// Calls `body(x element, w element, y element)` for every product of a convolution.
template <class Body>
void for_each_product(const ConvolutionGeometry& g, const Body& body) {
  std::array<WindowAxis, 3> a{};
  for (std::size_t i = 0; i < g.axes.size(); ++i) a[3 - g.axes.size() + i] = g.axes[i];
  const ImageSteps x(g.channels, a[0].size * a[1].size * a[2].size, g.format);
  const ImageSteps y(g.filters, a[0].out * a[1].out * a[2].out, g.format);
  const std::int64_t group_channels = g.channels / g.groups, group_filters = g.filters / g.groups;
  const auto one_pixel = [&](std::int64_t n, std::int64_t in, std::int64_t tap, std::int64_t out) {
    for (std::int64_t f = 0; f < g.filters; ++f) {
      const std::int64_t first = f / group_filters * group_channels;
      for (std::int64_t c = 0; c < group_channels; ++c) {
        body(n * x.image + in * x.pixel + (first + c) * x.channel, (tap * group_channels + c) * g.filters + f,
             n * y.image + out * y.pixel + f * y.channel);
      }
    }
  };
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t od = 0; od < a[0].out; ++od)
      for (std::int64_t oh = 0; oh < a[1].out; ++oh)
        for (std::int64_t ow = 0; ow < a[2].out; ++ow)
          for (std::int64_t kd = 0; kd < a[0].window; ++kd)
            for (std::int64_t kh = 0; kh < a[1].window; ++kh)
              for (std::int64_t kw = 0; kw < a[2].window; ++kw) {
                const std::int64_t id = under(a[0], od, kd), ih = under(a[1], oh, kh), iw = under(a[2], ow, kw);
                if (id < 0 || ih < 0 || iw < 0) continue;
                one_pixel(n, (id * a[1].size + ih) * a[2].size + iw, (kd * a[1].window + kh) * a[2].window + kw,
                          (od * a[1].out + oh) * a[2].out + ow);
              }
}

/// What the node of a convolution keeps of its call's options.
template <std::size_t rank>
ConvolutionOptions plain(const ConvNdOptions<rank>& options) {
  return {.steps = window_steps(options.stride, options.dilation, options.padding, options.format),
          .groups = options.groups,
          .output_padding = {options.output_padding.begin(), options.output_padding.end()}};
}

/// A convolution and its options.
template <std::size_t rank>
struct ConvolutionLine {
  std::string name;
  Shape x, w;
  ConvNdOptions<rank> options{};
  bool dynamic_batch = false;
};

/// The case of a line: `convolve(x, w, options)`. In a transposed convolution each product goes back to the element of
/// the image that a convolution would read.
template <std::size_t rank, class Convolve>
OpCase convolution_case(const ConvolutionLine<rank>& line, const Convolve& convolve,
                        ConvolutionKind kind = ConvolutionKind::forward) {
  const bool is_transposed = kind == ConvolutionKind::transposed;
  const ConvolutionGeometry g = convolution_geometry(line.x, line.w, plain(line.options), line.name, kind);
  const double num_terms = static_cast<double>(g.num_taps() * (is_transposed ? g.filters : g.channels) / g.groups);
  return {.name = line.name,
          .inputs = {input(line.x), parameter(line.w)},
          .build = [convolve, options = line.options](
                       Graph&, const std::vector<Value>& in) { return std::vector{convolve(in[0], in[1], options)}; },
          .reference =
              [g, is_transposed](const std::vector<Doubles>& in) {
                const Shape shape = is_transposed ? g.x_shape() : g.y_shape();
                Doubles result(static_cast<std::size_t>(shape.num_elements()));
                for_each_product(g, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
                  const std::int64_t from = is_transposed ? y : x, to = is_transposed ? x : y;
                  result[static_cast<std::size_t>(to)] +=
                      in[0][static_cast<std::size_t>(from)] * in[1][static_cast<std::size_t>(w)];
                });
                return std::vector<Doubles>{result};
              },
          .tolerance = {.relative = 4, .absolute = num_terms / 2 + 4},
          .dynamic_batch = line.dynamic_batch};
}

/// The cases of all lines, in their order.
template <std::size_t rank, std::size_t count, class Convolve>
std::vector<OpCase> convolution_cases(const ConvolutionLine<rank> (&lines)[count], const Convolve& convolve,
                                      ConvolutionKind kind = ConvolutionKind::forward) {
  std::vector<OpCase> all;
  for (const ConvolutionLine<rank>& line : lines) all.push_back(convolution_case(line, convolve, kind));
  return all;
}

}  // namespace sectionflow::testing_support
