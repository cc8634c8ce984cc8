#include "graph/ops/conv2d.h"

#include <cmath>
#include <string>

#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

using Geometry = Conv2dGeometry;

/// Calls `body(x element, w element, y element)` for every product of a convolution.
template <class Body>
void for_each_product(const Geometry& g, const Body& body) {
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t oh = 0; oh < g.out_height; ++oh)
      for (std::int64_t ow = 0; ow < g.out_width; ++ow)
        for (std::int64_t kh = 0; kh < g.kernel_height; ++kh)
          for (std::int64_t kw = 0; kw < g.kernel_width; ++kw) {
            const std::int64_t ih = oh * g.stride[0] - g.pad_before[0] + kh;
            const std::int64_t iw = ow * g.stride[1] - g.pad_before[1] + kw;
            if (ih < 0 || ih >= g.height || iw < 0 || iw >= g.width) continue;
            const std::int64_t x = ((n * g.height + ih) * g.width + iw) * g.channels;
            const std::int64_t w = (kh * g.kernel_width + kw) * g.channels * g.filters;
            const std::int64_t y = ((n * g.out_height + oh) * g.out_width + ow) * g.filters;
            for (std::int64_t c = 0; c < g.channels; ++c)
              for (std::int64_t f = 0; f < g.filters; ++f) body(x + c, w + c * g.filters + f, y + f);
          }
}

struct Line {
  std::string name;
  Shape x, w;
  Conv2dOptions options{};
  bool dynamic_batch = false;
};

OpCase to_case(const Line& line) {
  const Geometry g = conv2d_geometry(line.x, line.w, line.options, line.name);
  const double num_terms = static_cast<double>(g.kernel_height * g.kernel_width * g.channels);
  return {.name = line.name,
          .inputs = {input(line.x), parameter(line.w)},
          .build = [options = line.options](
                       Graph&, const std::vector<Value>& in) { return std::vector{conv2d(in[0], in[1], options)}; },
          .reference =
              [g](const std::vector<Doubles>& in) {
                Doubles y(static_cast<std::size_t>(g.batch * g.out_height * g.out_width * g.filters));
                for_each_product(
                    g, [&](std::int64_t x, std::int64_t w, std::int64_t out) { y[out] += in[0][x] * in[1][w]; });
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 4, .absolute = num_terms / 2 + 4},
          .dynamic_batch = line.dynamic_batch};
}

/// Odd and even sizes, channels that fit no vector, every kernel size, stride and padding.
std::vector<OpCase> cases() {
  const Conv2dOptions halved{.stride = {2, 2}};
  const Line lines[] = {
      {"mnist_first_layer", {7, 28, 28, 1}, {3, 3, 1, 16}},
      {"mnist_16_channels", {7, 28, 28, 16}, {3, 3, 16, 16}, {}, true},
      {"mnist_halving_3x3", {7, 28, 28, 16}, {3, 3, 16, 32}, halved, true},
      {"mnist_halving_1x1", {7, 28, 28, 16}, {1, 1, 16, 32}, halved},
      {"mnist_64_channels", {2, 7, 7, 64}, {3, 3, 64, 64}},
      {"one_image_one_channel", {1, 5, 5, 1}, {3, 3, 1, 1}},
      {"one_pixel", {3, 1, 1, 4}, {1, 1, 4, 5}},
      {"kernel_larger_than_image", {2, 2, 3, 3}, {5, 5, 3, 2}},
      {"kernel_1_channels_17_to_10", {7, 9, 8, 17}, {1, 1, 17, 10}},
      {"kernel_3_channels_3_to_10", {7, 9, 8, 3}, {3, 3, 3, 10}},
      {"kernel_5_channels_10_to_17", {7, 9, 8, 10}, {5, 5, 10, 17}},
      {"kernel_5_channels_6_to_16_valid", {7, 14, 14, 6}, {5, 5, 6, 16}, {.padding = Padding::valid}},
      {"kernel_3x1_channels_24", {2, 11, 6, 24}, {3, 1, 24, 24}},
      {"kernel_1x5_channels_5", {2, 6, 11, 5}, {1, 5, 5, 7}},
      {"even_kernel_pads_after", {3, 8, 8, 4}, {2, 2, 4, 4}},
      {"even_kernel_4_stride_3", {3, 11, 10, 4}, {4, 4, 4, 6}, {.stride = {3, 3}}},
      {"stride_2_of_odd_image_valid", {3, 9, 9, 8}, {2, 2, 8, 8}, {.stride = {2, 2}, .padding = Padding::valid}},
      {"stride_2_leaves_pixels_unread", {3, 10, 10, 8}, {3, 3, 8, 8}, {.stride = {3, 3}, .padding = Padding::valid}},
      {"stride_beyond_kernel", {3, 8, 8, 8}, {1, 1, 8, 8}, {.stride = {3, 3}}},
      {"strides_1_and_2", {3, 8, 9, 16}, {3, 3, 16, 8}, {.stride = {1, 2}}},
      {"padding_by_number", {3, 8, 8, 4}, {3, 3, 4, 4}, {.padding = {2, 0}}},
      {"padding_before_only", {3, 8, 8, 4}, {3, 3, 4, 4}, {.padding = Padding({2, 1}, {0, 0})}},
      {"padding_after_only", {3, 8, 8, 16}, {3, 3, 16, 16}, {.stride = {2, 2}, .padding = Padding({0, 0}, {1, 2})}},
      {"many_filters", {2, 6, 6, 3}, {3, 3, 3, 100}},
      {"many_channels", {2, 6, 6, 100}, {3, 3, 100, 20}},
      {"wide_layers", {1, 7, 7, 128}, {3, 3, 128, 128}},
      {"empty_batch", {0, 8, 8, 3}, {3, 3, 3, 4}},
      {"empty_dynamic_batch", {0, 8, 8, 3}, {3, 3, 3, 4}, {}, true},
      {"no_channels", {2, 4, 4, 0}, {3, 3, 0, 4}},
  };
  std::vector<OpCase> all;
  for (const Line& line : lines) all.push_back(to_case(line));
  return all;
}

class Conv2dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Conv2dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Conv2dCases, testing::ValuesIn(cases()), case_name);

/// Both gradients of a convolution that has nothing to sum.
OpCase empty_gradients(const std::string& name, const Shape& x, const Shape& w) {
  const Geometry g = conv2d_geometry(x, w, {}, name);
  return {.name = name,
          .inputs = {input({g.batch, g.out_height, g.out_width, g.filters}), input(x), parameter(w)},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                return std::vector{conv2d_backward_input(in[0], in[2], in[1], {}),
                                   conv2d_backward_filter(in[0], in[1], in[2], {})};
              },
          .reference =
              [=](const std::vector<Doubles>&) {
                return std::vector<Doubles>{Doubles(static_cast<std::size_t>(x.num_elements())),
                                            Doubles(static_cast<std::size_t>(w.num_elements()))};
              },
          .gradient_outputs = {},
          .dynamic_batch = true};
}

TEST(Conv2d, GradientsOfNothingAreZero) {
  check(empty_gradients("gradients_of_an_empty_batch", {0, 8, 8, 3}, {3, 3, 3, 4}));
  check(empty_gradients("gradients_without_channels", {2, 8, 8, 0}, {3, 3, 0, 4}));
  check(empty_gradients("gradients_without_filters", {2, 8, 8, 3}, {3, 3, 3, 0}));
}

}  // namespace
}  // namespace sectionflow::testing_support
