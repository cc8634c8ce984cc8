#include "graph/ops/conv3d.h"

#include "graph/ops/basic.h"
#include "tests/graph/description.h"
#include "tests/ops/convolution_reference.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

struct Line {
  std::string name;
  Shape x, w;
  Conv3dOptions options{};
  bool dynamic_batch = false;
};

OpCase to_case(const Line& line) {
  const auto build = [options = line.options](Value x, Value w) { return conv3d(x, w, options); };
  return convolution_case(line.name, line.x, line.w, convolution_options(line.options), build, line.dynamic_batch);
}

std::vector<OpCase> cases() {
  const Line lines[] = {
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
  std::vector<OpCase> all;
  for (const Line& line : lines) all.push_back(to_case(line));
  return all;
}

class Conv3dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Conv3dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Conv3dCases, testing::ValuesIn(cases()), case_name);

TEST(Conv3d, GivesShapesAndRefusesWhatDoesNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 9, 8, 7, 6});
  const Value w = placeholder(graph, "w", {3, 3, 3, 6, 4});
  EXPECT_EQ(conv3d(x, w, {.stride = {2, 1, 3}}).type().text(), "f32[?,5,8,3,4]");
  EXPECT_EQ(conv3d(x, w, {.padding = Padding3d::valid}).type().text(), "f32[?,7,6,5,4]");
  const Value flat = placeholder(graph, "flat", {2, 8, 8, 6});
  const std::string rank = error_text<ShapeError>([&] { conv3d(flat, w); });
  EXPECT_TRUE(contains(rank,
                       "conv3d 'conv3d' got x [2,8,8,6] and w [3,3,3,6,4]; wanted [N, D, H, W, C] and "
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
