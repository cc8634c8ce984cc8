#include <algorithm>
#include <iterator>
#include <limits>

#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "tests/graph/description.h"
#include "tests/ops/convolution_reference.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

Value transposed_flat(Value x, Value w, const Conv2dOptions& options) {
  return conv_transpose2d(x, w, options);
}
Value transposed_deep(Value x, Value w, const Conv3dOptions& options) {
  return conv_transpose3d(x, w, options);
}

std::vector<OpCase> conv_transpose_cases() {
  const Padding valid = Padding::valid;
  const ConvolutionLine<2> flat[] = {
      {"doubling", {3, 7, 8, 16}, {4, 4, 32, 16}, {.stride = {2, 2}}, true},
      {"stride_1", {2, 7, 8, 3}, {3, 3, 10, 3}},
      {"valid", {2, 5, 6, 10}, {3, 3, 17, 10}, {.padding = valid}},
      {"valid_stride_2", {2, 5, 6, 17}, {3, 3, 10, 17}, {.stride = {2, 2}, .padding = valid}},
      {"kernel_2_stride_2", {2, 7, 5, 10}, {2, 2, 3, 10}, {.stride = {2, 2}, .padding = valid}},
      {"stride_beyond_kernel", {2, 4, 5, 8}, {2, 1, 8, 8}, {.stride = {3, 3}, .padding = valid}},
      {"output_padding", {2, 5, 6, 8}, {3, 3, 5, 8}, {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}}},
      {"unequal_sides",
       {2, 5, 6, 3},
       {2, 5, 4, 3},
       {.stride = {1, 3}, .padding = Padding({1, 0}, {0, 2}), .output_padding = {0, 2}}},
      {"one_channel", {2, 6, 5, 1}, {5, 5, 1, 1}, {.stride = {2, 2}}},
      {"one_pixel", {3, 1, 1, 100}, {4, 4, 64, 100}, {.padding = valid}},
      {"dilation_2", {2, 5, 6, 10}, {3, 3, 4, 10}, {.dilation = {2, 2}}},
      {"dilation_2_stride_2", {2, 5, 6, 10}, {3, 3, 4, 10}, {.stride = {2, 2}, .dilation = {2, 2}}},
      {"depthwise", {2, 6, 7, 10}, {3, 3, 1, 10}, {.stride = {2, 2}, .groups = 10}},
      {"groups_2", {2, 6, 7, 6}, {3, 3, 5, 6}, {.stride = {2, 2}, .groups = 2}, true},
      {"nchw", {2, 6, 5, 7}, {3, 3, 4, 6}, {.stride = {2, 2}, .format = DataFormat::nchw}, true},
      {"nchw_groups", {2, 6, 5, 7}, {3, 3, 5, 6}, {.padding = valid, .groups = 2, .format = DataFormat::nchw}},
      {"empty_batch", {0, 4, 4, 3}, {3, 3, 5, 3}, {.stride = {2, 2}}, true},
      {"no_channels", {2, 4, 4, 0}, {3, 3, 5, 0}, {}},
  };
  const ConvolutionLine<3> deep[] = {
      {"deep_doubling", {2, 3, 4, 5, 16}, {4, 4, 4, 8, 16}, {.stride = {2, 2, 2}}, true},
      {"deep_valid", {2, 3, 4, 5, 3}, {3, 2, 3, 10, 3}, {.padding = Padding3d::valid}},
      {"deep_output_padding",
       {2, 3, 4, 3, 17},
       {3, 3, 3, 10, 17},
       {.stride = {2, 2, 3}, .padding = {1, 1, 1}, .output_padding = {1, 0, 2}}},
      {"deep_dilation_2", {1, 4, 3, 4, 5}, {2, 3, 3, 4, 5}, {.stride = {1, 2, 1}, .dilation = {2, 1, 2}}},
      {"deep_groups", {2, 3, 4, 3, 6}, {3, 3, 3, 2, 6}, {.stride = {2, 2, 2}, .groups = 2}},
      {"ncdhw", {2, 6, 3, 4, 3}, {3, 3, 3, 5, 6}, {.stride = {2, 2, 2}, .format = DataFormat::nchw}},
  };
  std::vector<OpCase> all = convolution_cases(flat, transposed_flat, ConvolutionKind::transposed);
  std::vector<OpCase> others = convolution_cases(deep, transposed_deep, ConvolutionKind::transposed);
  std::move(others.begin(), others.end(), std::back_inserter(all));
  return all;
}

class ConvTransposeCases : public testing::TestWithParam<OpCase> {};
TEST_P(ConvTransposeCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, ConvTransposeCases, testing::ValuesIn(conv_transpose_cases()), case_name);

TEST(ConvTranspose, GivesTheShapesOfTheTable) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 7, 5, 6});
  const Value w = placeholder(graph, "w", {3, 4, 10, 6});
  const auto shape = [&](const Conv2dOptions& options) { return conv_transpose2d(x, w, options).shape(); };
  EXPECT_EQ(shape({}), (Shape{kDynamic, 7, 5, 10}));
  EXPECT_EQ(shape({.stride = {2, 3}}), (Shape{kDynamic, 14, 15, 10}));
  EXPECT_EQ(shape({.padding = Padding::valid}), (Shape{kDynamic, 9, 8, 10}));
  EXPECT_EQ(shape({.stride = {2, 2}, .padding = Padding::valid}), (Shape{kDynamic, 15, 12, 10}));
  EXPECT_EQ(shape({.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 0}}), (Shape{kDynamic, 14, 10, 10}));
  EXPECT_EQ(shape({.padding = Padding::valid, .dilation = {2, 2}}), (Shape{kDynamic, 11, 11, 10}));
  const Value deep = placeholder(graph, "deep", {2, 3, 4, 5, 6});
  const Value kernel = placeholder(graph, "kernel", {2, 2, 2, 5, 6});
  EXPECT_EQ(conv_transpose3d(deep, kernel, {.stride = {2, 1, 3}, .groups = 2}).shape(), (Shape{2, 6, 4, 15, 10}));
}

TEST(ConvTranspose, RefusesWhatDoesNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 6});
  const Value w = placeholder(graph, "w", {3, 3, 4, 6});
  const auto refused = [&](const Conv2dOptions& options) {
    return error_text<Error>([&] { conv_transpose2d(x, w, options); });
  };
  const std::pair<std::string, std::string> texts[] = {
      {refused({.padding = {1, 1}, .output_padding = {1, 0}}), "output padding 1 with stride 1"},
      {refused({.stride = {2, 2}, .output_padding = {1, 1}}), "try explicit padding"},
      {refused({.stride = {0, 1}}), "stride {0, 1}"},
      {refused({.padding = Padding::valid, .dilation = {1, 0}}), "dilation {1, 0}"},
      {refused({.padding = {-1, 0}}), "padding of {-1, 0} before and {-1, 0} after"},
      {refused({.padding = {5, 5}}), "leaves nothing of an output of 10"},
      {refused({.groups = 4}), "6 channels and 16 filters in 4 groups"},
      {refused({.groups = 0}), "groups 0"},
      {refused({.format = DataFormat::nchw}), "has 8 channels, filter [3,3,4,6] wants 6"},
      {error_text<ShapeError>([&] { conv_transpose3d(x, w); }), "[N, D, H, W, C] and [KD, KH, KW, F, C]"},
  };
  for (const auto& [text, part] : texts) {
    EXPECT_EQ(text.find("conv_transpose"), 0U) << text;
    EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
  }
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(conv_transpose2d(x, w, {.padding = {kLargest, kLargest}}), ArgumentError);
  EXPECT_THROW(conv_transpose2d(x, w, {.stride = {kLargest / 7, 1}, .padding = {1, 1}, .dilation = {9, 1}}),
               ArgumentError);
  const Value open = placeholder(graph, "open", {2, kDynamic, 8, 6});
  EXPECT_THROW(conv_transpose2d(open, w), ShapeError);
  const Value whole = placeholder(graph, "whole", {2, 8, 8, 6}, Dtype::i32);
  EXPECT_THROW(conv_transpose2d(whole, w), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::testing_support
