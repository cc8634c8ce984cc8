#include "graph/ops/convolution.h"

#include <limits>
#include <string>

#include "graph/nodes/convolution.h"
#include "graph/ops/basic.h"
#include "tests/graph/description.h"
#include "tests/ops/convolution_reference.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

Value convolve_flat(Value x, Value w, const Conv2dOptions& options) {
  return conv2d(x, w, options);
}
Value convolve_deep(Value x, Value w, const Conv3dOptions& options) {
  return conv3d(x, w, options);
}

/// Odd and even sizes, channels that fit no vector, every kernel size, stride and padding.
std::vector<OpCase> flat_cases() {
  const Conv2dOptions halved{.stride = {2, 2}};
  const ConvolutionLine<2> lines[] = {
      {"mnist_first_layer", {7, 28, 28, 1}, {3, 3, 1, 16}},
      {"mnist_16_channels", {7, 28, 28, 16}, {3, 3, 16, 16}, {}, true},
      {"mnist_halving_3x3", {7, 28, 28, 16}, {3, 3, 16, 32}, halved, true},
      {"mnist_halving_1x1", {7, 28, 28, 16}, {1, 1, 16, 32}, halved},
      {"halving_1x1_channels_1", {3, 13, 14, 1}, {1, 1, 1, 16}, halved},
      {"halving_1x1_channels_4", {8, 14, 14, 4}, {1, 1, 4, 8}, halved},
      {"stride_3_1x1_channels_13", {5, 12, 12, 13}, {1, 1, 13, 24}, {.stride = {3, 3}}},
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
      {"dilation_2_channels_16", {2, 12, 11, 16}, {3, 3, 16, 16}, {.dilation = {2, 2}}, true},
      {"dilation_2_channels_17_to_10", {3, 12, 11, 17}, {3, 3, 17, 10}, {.dilation = {2, 2}}},
      {"dilations_3_and_1_valid", {2, 12, 9, 3}, {3, 2, 3, 10}, {.padding = Padding::valid, .dilation = {3, 1}}},
      {"dilation_2_stride_2", {3, 13, 12, 17}, {3, 3, 17, 10}, {.stride = {2, 2}, .dilation = {2, 2}}},
      {"dilation_2_stride_3_leaves_pixels_unread",
       {2, 16, 15, 10},
       {3, 2, 10, 70},
       {.stride = {3, 3}, .padding = Padding::valid, .dilation = {2, 2}}},
      {"dilation_beyond_image", {2, 4, 5, 3}, {3, 3, 3, 4}, {.dilation = {4, 5}}},
      {"depthwise_16", {3, 14, 13, 16}, {3, 3, 1, 16}, {.groups = 16}, true},
      {"depthwise_1_to_1", {3, 9, 8, 1}, {3, 3, 1, 1}, {.groups = 1}},
      {"depthwise_3", {3, 9, 8, 3}, {3, 3, 1, 3}, {.groups = 3}},
      {"depthwise_10_stride_2", {3, 9, 8, 10}, {3, 3, 1, 10}, {.stride = {2, 2}, .groups = 10}},
      {"depthwise_17_kernel_5", {2, 9, 12, 17}, {5, 5, 1, 17}, {.groups = 17}},
      {"depthwise_32_even_kernel_stride_2",
       {2, 10, 11, 32},
       {2, 4, 1, 32},
       {.stride = {2, 2}, .padding = Padding({1, 0}, {0, 2}), .groups = 32}},
      {"depthwise_16_dilation_2", {2, 12, 11, 16}, {3, 3, 1, 16}, {.dilation = {2, 2}, .groups = 16}},
      {"depthwise_7_stride_2_dilation_2",
       {2, 12, 11, 7},
       {3, 3, 1, 7},
       {.stride = {2, 2}, .dilation = {2, 2}, .groups = 7}},
      {"depthwise_4_many_positions", {2, 40, 39, 4}, {3, 3, 1, 4}, {.groups = 4}},
      {"depthwise_17_three_filters_each", {2, 8, 7, 17}, {3, 3, 1, 51}, {.groups = 17}},
      {"groups_2_channels_6_to_4", {3, 8, 7, 6}, {3, 3, 3, 4}, {.groups = 2}},
      {"groups_2_channels_20_to_34_stride_2", {3, 9, 8, 20}, {3, 3, 10, 34}, {.stride = {2, 2}, .groups = 2}, true},
      {"groups_4_channels_64", {2, 7, 8, 64}, {3, 3, 16, 64}, {.groups = 4}},
      {"groups_4_kernel_1", {2, 7, 8, 64}, {1, 1, 16, 64}, {.groups = 4}},
      {"groups_32_channels_128", {2, 7, 7, 128}, {3, 3, 4, 128}, {.groups = 32}},
      {"groups_2_dilation_2", {2, 9, 9, 8}, {3, 3, 4, 8}, {.dilation = {2, 2}, .groups = 2}},
      {"groups_2_dilation_2_stride_2",
       {2, 9, 9, 8},
       {3, 3, 4, 140},
       {.stride = {2, 2}, .dilation = {2, 2}, .groups = 2}},
      {"nchw", {3, 5, 9, 8}, {3, 3, 5, 7}, {.format = DataFormat::nchw}, true},
      {"nchw_stride_2", {2, 16, 14, 14}, {3, 3, 16, 32}, {.stride = {2, 2}, .format = DataFormat::nchw}},
      {"nchw_one_channel", {2, 1, 12, 11}, {5, 5, 1, 6}, {.padding = Padding::valid, .format = DataFormat::nchw}},
      {"nchw_groups", {2, 6, 8, 7}, {3, 3, 3, 4}, {.groups = 2, .format = DataFormat::nchw}},
      {"nchw_depthwise", {2, 10, 8, 7}, {3, 3, 1, 10}, {.groups = 10, .format = DataFormat::nchw}},
      {"nchw_depthwise_many_positions", {2, 3, 40, 39}, {3, 2, 1, 6}, {.groups = 3, .format = DataFormat::nchw}},
      {"nchw_dilation_2_stride_2",
       {2, 5, 9, 10},
       {3, 3, 5, 4},
       {.stride = {2, 2}, .dilation = {2, 2}, .format = DataFormat::nchw}},
      {"nchw_empty_batch", {0, 3, 8, 8}, {3, 3, 3, 4}, {.format = DataFormat::nchw}, true},
  };
  return convolution_cases(lines, convolve_flat);
}

class Conv2dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Conv2dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Conv2dCases, testing::ValuesIn(flat_cases()), case_name);

std::vector<OpCase> bf16_cases() {
  const ConvolutionLine<2> lines[] = {
      {"odd", {3, 9, 8, 5}, {3, 3, 5, 7}, {}, true},
      {"halved", {2, 14, 14, 16}, {3, 3, 16, 8}, {.stride = {2, 2}}},
      {"pointwise", {2, 7, 6, 16}, {1, 1, 16, 24}},
      {"nchw_groups", {2, 6, 8, 7}, {3, 3, 3, 4}, {.groups = 2, .format = DataFormat::nchw}},
      {"in_slices_of_2_images", {3, 160, 160, 8}, {1, 1, 8, 56}},
      {"taps_that_meet_zeros_alone", {8, 1, 1, 64}, {3, 3, 64, 64}, {.stride = {2, 2}}},
      {"dilated", {2, 14, 14, 129}, {3, 3, 129, 64}, {.dilation = {2, 2}}},
      {"pixels_dilated", {2, 7, 7, 33}, {1, 1, 33, 33}, {.dilation = {2, 2}}},
      {"odd_filters", {1, 6, 15, 96}, {1, 1, 96, 131}},
      {"many", {4, 9, 10, 48}, {3, 3, 48, 80}},
      {"many_halved", {4, 9, 10, 48}, {3, 3, 48, 80}, {.stride = {2, 2}}},
      {"halved_by_a_row", {4, 13, 6, 192}, {1, 3, 192, 64}, {.stride = {2, 2}}},
      {"left_over", {2, 13, 18, 96}, {4, 4, 96, 16}, {.stride = {3, 3}, .padding = Padding::valid}},
      {"beside_zeros_alone", {1, 9, 7, 64}, {3, 3, 64, 16}, {.stride = {2, 2}, .padding = Padding({1, 2}, {3, 0})}},
      {"of_63_pixels", {1, 7, 9, 96}, {1, 1, 96, 112}},
      {"of_pixels", {2, 6, 5, 96}, {1, 1, 96, 104}},
      {"of_every_third_pixel", {2, 8, 7, 104}, {1, 1, 104, 96}, {.stride = {3, 2}}},
      {"of_pixels_beside_zeros", {2, 5, 5, 96}, {1, 1, 96, 104}, {.padding = Padding({1, 1}, {1, 1})}},
  };
  std::vector<OpCase> all;
  for (const ConvolutionLine<2>& line : lines) all.push_back(in_bf16(convolution_case(line, convolve_flat)));
  return all;
}
INSTANTIATE_TEST_SUITE_P(Bf16, Conv2dCases, testing::ValuesIn(bf16_cases()), case_name);

/// Both gradients of a convolution that has nothing to sum.
OpCase empty_gradients(const std::string& name, const Shape& x, const Shape& w) {
  const Shape y = convolution_geometry(x, w, plain(Conv2dOptions()), name).y_shape();
  return {.name = name,
          .inputs = {input(y), input(x), parameter(w)},
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

TEST(Conv2d, RefusesGroupsAndDilationsThatDoNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 6});
  const auto w = [&](Shape shape) { return placeholder(graph, "w", std::move(shape)); };
  const auto refused = [&](const Shape& shape, const Conv2dOptions& options) {
    const Value weights = w(shape);
    return error_text<Error>([&] { conv2d(x, weights, options); });
  };
  const auto expect_parts = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
  };
  expect_parts(refused({3, 3, 6, 4}, {.groups = 2}), {"6 channels", "in 2 groups wants 12"});
  expect_parts(refused({3, 3, 1, 4}, {.groups = 4}), {"6 channels and 4 filters in 4 groups", "multiples"});
  expect_parts(refused({3, 3, 3, 3}, {.groups = 2}), {"6 channels and 3 filters in 2 groups"});
  expect_parts(refused({3, 3, 6, 4}, {.groups = 0}), {"groups 0; wanted >= 1"});
  expect_parts(refused({3, 3, 6, 4}, {.dilation = {0, 1}}), {"dilation {0, 1}; wanted 1 or more"});
  expect_parts(refused({3, 3, 6, 4}, {.padding = Padding::valid, .dilation = {4, 1}}),
               {"kernel of 9 (with its dilation) is larger than the padded image of 8"});
  expect_parts(refused({3, 3, 6, 4}, {.padding = {std::numeric_limits<std::int64_t>::max(), 1}}),
               {"padding before of {9223372036854775807, 1}; wanted at most 2147483647"});
  expect_parts(refused({3, 3, 6, 4}, {.format = DataFormat::nchw}), {"has 8 channels", "wants 6"});
  const Value flat = placeholder(graph, "flat", {2, 8, 6});
  const Value weights = w({3, 3, 6, 4});
  expect_parts(error_text<ShapeError>([&] { conv2d(flat, weights, {.format = DataFormat::nchw}); }),
               {"conv2d 'conv2d' got x [2,8,6] and w [3,3,6,4]", "[N, C, H, W]", "[KH, KW, C, F]"});
}

std::vector<OpCase> deep_cases() {
  const ConvolutionLine<3> lines[] = {
      {"channels_1_to_16", {2, 6, 7, 8, 1}, {3, 3, 3, 1, 16}, {}, true},
      {"channels_16", {2, 6, 5, 7, 16}, {3, 3, 3, 16, 16}},
      {"channels_3_to_10_valid", {2, 6, 7, 5, 3}, {3, 3, 3, 3, 10}, {.padding = Padding3d::valid}},
      {"channels_17_to_10_stride_2", {2, 6, 7, 5, 17}, {3, 3, 3, 17, 10}, {.stride = {2, 2, 2}}},
      {"channels_32_to_64_stride_2", {1, 6, 6, 6, 32}, {3, 3, 3, 32, 64}, {.stride = {2, 2, 2}}, true},
      {"kernel_1_channels_5_to_7", {2, 4, 5, 3, 5}, {1, 1, 1, 5, 7}},
      {"kernel_1_stride_2", {2, 4, 5, 3, 8}, {1, 1, 1, 8, 16}, {.stride = {2, 2, 2}}},
      {"even_kernel_pads_after", {2, 4, 5, 6, 4}, {2, 2, 2, 4, 4}},
      {"unequal_sides",
       {2, 7, 6, 9, 3},
       {1, 2, 4, 3, 5},
       {.stride = {1, 2, 3}, .padding = Padding3d({0, 1, 0}, {1, 0, 2})}},
      {"stride_leaves_elements_unread",
       {2, 7, 7, 8, 10},
       {2, 2, 2, 10, 3},
       {.stride = {3, 3, 3}, .padding = Padding3d::valid}},
      {"flat_kernel_of_video", {2, 5, 8, 8, 10}, {1, 3, 3, 10, 16}, {.padding = {0, 1, 1}}},
      {"dilation_2", {2, 7, 6, 8, 16}, {3, 3, 3, 16, 16}, {.dilation = {2, 2, 2}}},
      {"dilation_2_channels_17_to_10", {1, 7, 6, 8, 17}, {3, 2, 3, 17, 10}, {.dilation = {2, 1, 2}}},
      {"dilation_2_stride_2", {2, 7, 6, 8, 5}, {3, 3, 3, 5, 7}, {.stride = {2, 2, 2}, .dilation = {2, 2, 2}}},
      {"depthwise_16", {2, 5, 6, 4, 16}, {3, 3, 3, 1, 16}, {.groups = 16}},
      {"depthwise_10_stride_2", {2, 5, 6, 4, 10}, {3, 3, 3, 1, 10}, {.stride = {2, 2, 2}, .groups = 10}},
      {"groups_2", {2, 5, 6, 4, 6}, {3, 3, 3, 3, 4}, {.groups = 2}},
      {"groups_2_channels_32", {1, 5, 6, 4, 32}, {3, 3, 3, 16, 32}, {.groups = 2}},
      {"empty_batch", {0, 4, 4, 4, 3}, {3, 3, 3, 3, 4}, {}, true},
      {"no_channels", {2, 4, 4, 4, 0}, {3, 3, 3, 0, 4}},
      {"ncdhw", {2, 3, 5, 6, 7}, {3, 3, 3, 3, 10}, {.format = DataFormat::nchw}, true},
      {"ncdhw_groups_stride_2",
       {2, 6, 5, 6, 7},
       {3, 2, 3, 3, 4},
       {.stride = {2, 1, 2}, .groups = 2, .format = DataFormat::nchw}},
  };
  return convolution_cases(lines, convolve_deep);
}

class Conv3dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Conv3dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Conv3dCases, testing::ValuesIn(deep_cases()), case_name);

TEST(Conv3d, GivesShapesAndRefusesWhatDoesNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 9, 8, 7, 6});
  const Value w = placeholder(graph, "w", {3, 3, 3, 6, 4});
  EXPECT_EQ(conv3d(x, w, {.stride = {2, 1, 3}}).type().text(), "f32[?,5,8,3,4]");
  EXPECT_EQ(conv3d(x, w, {.padding = Padding3d::valid}).type().text(), "f32[?,7,6,5,4]");
  const Value flat = placeholder(graph, "flat", {2, 8, 8, 6});
  const std::string rank = error_text<ShapeError>([&] { conv3d(flat, w); });
  EXPECT_TRUE(contains(rank,
                       "got x [2,8,8,6] and w [3,3,3,6,4]; wanted [N, D, H, W, C] and "
                       "[KD, KH, KW, C, F]"))
      << rank;
  const std::string size = error_text<ShapeError>([&] {
    conv3d(x, w, {.padding = Padding3d::valid, .dilation = {1, 1, 4}});
  });
  EXPECT_TRUE(contains(size, "kernel of 9 (with its dilation) is larger than the padded image of 7")) << size;
  EXPECT_THROW(conv3d(x, w, {.groups = 2}), ShapeError);
  EXPECT_THROW(conv3d(x, w, {.stride = {1, 0, 1}}), ArgumentError);
  EXPECT_THROW(conv3d_backward_input(x, w, x, {}), ShapeError);
}

}  // namespace
}  // namespace sectionflow::testing_support
