#include "graph/ops/pool.h"

#include <cmath>
#include <limits>

#include "autodiff/gradients.h"
#include "graph/nodes/pool.h"
#include "graph/nodes/window.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/graph/description.h"
#include "tests/ops/pool_reference.h"
#include "tests/support/moved.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

template <std::size_t rank>
struct Line {
  std::string name;
  Shape x;
  PoolNdOptions<rank> options{};
  bool dynamic_batch = false;
};

template <std::size_t rank>
PoolOptions plain_pool(const PoolNdOptions<rank>& options) {
  return {.window = {options.window.begin(), options.window.end()},
          .steps = window_steps<rank>(options.stride, 1, options.padding, options.format),
          .include_padding = options.include_padding};
}

Value max_pool_of(Value x, const Pool2dOptions& options) {
  return max_pool2d(x, options);
}
Value max_pool_of(Value x, const Pool3dOptions& options) {
  return max_pool3d(x, options);
}
Value average_pool_of(Value x, const Pool2dOptions& options) {
  return average_pool2d(x, options);
}
Value average_pool_of(Value x, const Pool3dOptions& options) {
  return average_pool3d(x, options);
}

template <std::size_t rank>
std::vector<OpCase> pool_cases(const std::vector<Line<rank>>& lines) {
  std::vector<OpCase> all;
  for (const Line<rank>& line : lines) {
    const auto max = [o = line.options](Value x) { return max_pool_of(x, o); };
    all.push_back(pool_case("max_" + line.name, line.x, plain_pool(line.options), true, max, line.dynamic_batch));
    for (bool include_padding : {false, true}) {
      PoolNdOptions<rank> options = line.options;
      options.include_padding = include_padding;
      const auto average = [options](Value x) { return average_pool_of(x, options); };
      const std::string name = (include_padding ? "average_with_padding_" : "average_") + line.name;
      all.push_back(pool_case(name, line.x, plain_pool(options), false, average, line.dynamic_batch));
      if (rank == 2 && line.name == "unequal_sides") all.push_back(in_bf16(all.back()));
    }
  }
  return all;
}

/// Odd and even sizes, channels that fit no vector, windows that overlap, touch or leave elements unread.
std::vector<Line<2>> flat_lines() {
  const DataFormat nchw = DataFormat::nchw;
  return {
      {"halving", {7, 28, 28, 16}, {}, true},
      {"halving_of_odd_image", {3, 9, 7, 10}},
      {"window_3_stride_2_same", {3, 15, 14, 17}, {.window = {3, 3}, .padding = Padding::same}, true},
      {"window_3_stride_2_padding_1", {2, 56, 56, 64}, {.window = {3, 3}, .padding = {1, 1}}},
      {"window_3_stride_1", {2, 7, 8, 3}, {.window = {3, 3}, .stride = {1, 1}}},
      {"window_5_stride_1_same", {2, 7, 8, 65}, {.window = {5, 5}, .stride = {1, 1}, .padding = Padding::same}},
      {"windows_apart", {2, 11, 10, 5}, {.window = {2, 1}, .stride = {3, 4}}},
      {"one_element", {3, 4, 5, 1}, {.window = {1, 1}, .stride = {1, 1}}},
      {"one_channel", {7, 28, 28, 1}},
      {"unequal_sides", {2, 9, 12, 6}, {.window = {3, 2}, .stride = {1, 3}, .padding = Padding({2, 0}, {1, 1})}},
      {"window_of_the_image", {3, 7, 7, 130}, {.window = {7, 7}}},
      {"window_17x17_has_wide_index", {2, 20, 19, 9}, {.window = {17, 17}, .stride = {1, 2}}},
      {"window_16x16_has_narrow_index", {1, 20, 19, 9}, {.window = {16, 16}, .stride = {1, 2}}},
      {"window_beyond_small_image", {2, 2, 3, 4}, {.window = {5, 5}, .padding = Padding::same}},
      {"empty_batch", {0, 8, 8, 3}, {}, true},
      {"no_channels", {2, 8, 8, 0}},
      {"nchw", {3, 5, 9, 8}, {.window = {3, 3}, .format = nchw}, true},
      {"nchw_same", {2, 3, 10, 9}, {.window = {3, 3}, .padding = Padding::same, .format = nchw}},
  };
}

std::vector<Line<3>> deep_lines() {
  return {
      {"halving", {2, 8, 6, 10, 16}, {}, true},
      {"window_3_stride_2_same", {2, 5, 8, 7, 10}, {.window = {3, 3, 3}, .padding = Padding3d::same}},
      {"window_3_stride_1_padding_1",
       {1, 6, 5, 4, 65},
       {.window = {3, 3, 3}, .stride = {1, 1, 1}, .padding = {1, 1, 1}}},
      {"unequal_sides",
       {2, 7, 5, 6, 3},
       {.window = {1, 2, 3}, .stride = {2, 1, 3}, .padding = Padding3d({0, 1, 0}, {0, 0, 2})}},
      {"window_7x7x7_has_wide_index", {1, 8, 7, 9, 5}, {.window = {7, 7, 7}, .stride = {1, 1, 2}}},
      {"empty_batch", {0, 4, 4, 4, 3}, {}, true},
      {"ncdhw", {2, 3, 6, 5, 7}, {.window = {3, 2, 3}, .format = DataFormat::nchw}},
  };
}

Value global_pool_of(Value x, std::size_t rank, DataFormat format, bool is_maximum) {
  if (rank == 2) return is_maximum ? global_max_pool2d(x, format) : global_average_pool2d(x, format);
  return is_maximum ? global_max_pool3d(x, format) : global_average_pool3d(x, format);
}

/// A pool over the whole image.
OpCase global_case(const std::string& name, const Shape& shape, DataFormat format, bool is_maximum) {
  const ImageDims image = image_dims(shape, format);
  const std::size_t rank = image.sizes.size();
  PoolOptions whole =
      rank == 2 ? plain_pool(Pool2dOptions{.format = format}) : plain_pool(Pool3dOptions{.format = format});
  whole.window = image.sizes;
  OpCase result = pool_case(
      name, shape, whole, is_maximum, [](Value x) { return x; }, shape[0] > 1);
  result.build = [=](Graph&, const std::vector<Value>& in) {
    return std::vector{global_pool_of(in[0], rank, format, is_maximum)};
  };
  result.reference = [=](const std::vector<Doubles>& in) {
    return std::vector<Doubles>{pool_reference(shape, whole, is_maximum, in[0])[0]};
  };
  return result;
}

std::vector<OpCase> global_cases() {
  std::vector<OpCase> all;
  for (bool is_maximum : {true, false}) {
    const std::string kind = is_maximum ? "global_max" : "global_average";
    all.push_back(global_case(kind, {3, 7, 5, 10}, DataFormat::nhwc, is_maximum));
    all.push_back(global_case(kind + "_large", {2, 20, 21, 33}, DataFormat::nhwc, is_maximum));
    all.push_back(global_case(kind + "_one_pixel", {1, 1, 1, 3}, DataFormat::nhwc, is_maximum));
    all.push_back(global_case(kind + "_nchw", {3, 10, 7, 5}, DataFormat::nchw, is_maximum));
  }
  return all;
}

class Pool2dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Pool2dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Pool2dCases, testing::ValuesIn(pool_cases(flat_lines())), case_name);
INSTANTIATE_TEST_SUITE_P(Global, Pool2dCases, testing::ValuesIn(global_cases()), case_name);

std::vector<float> values_of(const HostTensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST(MaxPool2d, GivesTheFirstOfEqualElementsAndTheGradientToItAlone) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({1, 2, 4, 1}, {5, 5, -0.0F, 0, 5, 5, 0, -0.0F}));
  const Value y = max_pool2d(x);
  const auto results = run_kernels({y, gradients(reduce_sum(y), {x})[0]}, {});
  EXPECT_EQ(values_of(results[0]), (std::vector<float>{5, 0}));
  EXPECT_EQ(values_of(results[1]), (std::vector<float>{1, 0, 1, 0, 0, 0, 0, 0}));
}

TEST(MaxPool2d, TakesTheFirstNaNForTheLargestAndMinusInfinityForAnElement) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kLow = -std::numeric_limits<float>::infinity();
  Graph graph;
  const Value x =
      constant(graph, HostTensor::of<float>({3, 1, 4, 1}, {1, kNaN, 9, kNaN, kNaN, 1, 2, 3, kLow, kLow, kLow, kLow}));
  const Value y = max_pool2d(x, {.window = {1, 4}});
  const auto results = run_kernels({y, y.node().output(1)}, {});
  const std::vector<float> maxima = values_of(results[0]);
  EXPECT_TRUE(std::isnan(maxima[0]) && std::isnan(maxima[1]));
  EXPECT_EQ(maxima[2], kLow);
  const auto index = results[1].values<std::uint8_t>();
  EXPECT_EQ((std::vector<int>(index.begin(), index.end())), (std::vector<int>{1, 0, 0}));
}

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(Pool2d, GlobalMaximumOfNoChannelsIsEmpty) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3, 3, 0});
  Feeds feeds;
  feeds.emplace(x, HostTensor(Dtype::f32, {2, 3, 3, 0}));
  EXPECT_EQ(run_kernels({global_max_pool2d(x)}, feeds)[0].shape(), (Shape{2, 0}));
}

TEST(Pool2d, GivesTheShapesOfTheTable) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 28, 15, 6});
  const Value y = max_pool2d(x, {.window = {3, 3}});
  EXPECT_EQ(y.type().text(), "f32[?,13,7,6]");
  EXPECT_EQ(y.node().output(1).type().text(), "u8[?,13,7,6]");
  EXPECT_EQ(max_pool2d(x, {.window = {28, 15}}).node().output(1).type().text(), "i32[?,1,1,6]");
  EXPECT_EQ(average_pool2d(x, {.padding = Padding::same}).type().text(), "f32[?,14,8,6]");
  EXPECT_EQ(max_pool2d(x, {.format = DataFormat::nchw}).type().text(), "f32[?,28,7,3]");
  EXPECT_EQ(global_max_pool2d(x).type().text(), "f32[?,6]");
  EXPECT_EQ(global_max_pool2d(placeholder(graph, "open", {2, 3, 3, kDynamic})).type().text(), "f32[2,?]");
  EXPECT_EQ(average_pool2d(x, {.stride = {2147483647, 2}, .padding = Padding::same}).type().text(), "f32[?,1,8,6]");
  EXPECT_EQ(global_average_pool2d(x, DataFormat::nchw).type().text(), "f32[?,28]");
}

TEST(Pool2d, RefusesWhatDoesNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 3});
  const int num_nodes = graph.num_nodes();
  expect_refused<ShapeError>(
      [&] {
        max_pool2d(placeholder(graph, "flat", {2, 64}));
      },
      "max_pool2d 'max_pool2d'", {"[2,64]", "[N, H, W, C]"});
  expect_refused<ShapeError>(
      [&] {
        max_pool2d(x, {.window = {9, 2}});
      },
      "max_pool2d", {"kernel of 9", "image of 8", "Padding::same"});
  expect_refused<ArgumentError>(
      [&] {
        average_pool2d(x, {.window = {0, 2}});
      },
      "average_pool2d", {"window of {0, 2}; wanted 1 or more"});
  expect_refused<ArgumentError>(
      [&] {
        average_pool2d(x, {.stride = {1, 0}});
      },
      "average_pool2d", {"stride {1, 0}; wanted 1 or more"});
  expect_refused<ArgumentError>(
      [&] {
        max_pool2d(x, {.padding = {2, 0}});
      },
      "max_pool2d", {"padding of 2", "windows of 2", "less padding"});
  expect_refused<ArgumentError>(
      [&] {
        max_pool2d(x, {.padding = {-1, 0}});
      },
      "max_pool2d", {"padding of {-1, 0} before"});
  expect_refused<ArgumentError>(
      [&] {
        max_pool2d(x, {.padding = {kLargest, 0}});
      },
      "max_pool2d", {"padding before of {9223372036854775807, 0}; wanted at most 2147483647"});
  expect_refused<ShapeError>(
      [&] {
        global_max_pool2d(placeholder(graph, "wide", {2, 8, kDynamic, 3}));
      },
      "global_max_pool2d", {"only the batch may be left to the feed"});
  expect_refused<ShapeError>(
      [&] {
        max_pool2d(placeholder(graph, "open", {2, kDynamic, 8, 3}));
      },
      "max_pool2d", {"only the batch may be left to the feed"});
  expect_refused<ShapeError>(
      [&] {
        average_pool2d(placeholder(graph, "none", {2, 0, 8, 3}));
      },
      "average_pool2d", {"[2,0,8,3]", "without elements"});
  expect_refused<ArgumentError>(
      [&] {
        max_pool2d(placeholder(graph, "bytes", {2, 8, 8, 3}, Dtype::u8));
      },
      "max_pool2d", {"u8[2,8,8,3]", "cast"});
  expect_refused<ShapeError>(
      [&] {
        global_max_pool2d(placeholder(graph, "rank3", {2, 8, 8}));
      },
      "global_max_pool2d", {"[2,8,8]", "[N, H, W, C]"});
  expect_refused<ShapeError>(
      [&] {
        global_average_pool2d(placeholder(graph, "rank5", {2, 8, 8, 8, 3}));
      },
      "global_average_pool2d", {"[2,8,8,8,3]"});
  EXPECT_EQ(graph.num_nodes(), num_nodes + 7);  // the placeholders
}

class Pool3dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Pool3dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Pool3dCases, testing::ValuesIn(pool_cases(deep_lines())), case_name);
INSTANTIATE_TEST_SUITE_P(Global, Pool3dCases,
                         testing::Values(global_case("global_max", {3, 4, 7, 5, 10}, DataFormat::nhwc, true),
                                         global_case("global_average", {3, 4, 7, 5, 10}, DataFormat::nhwc, false),
                                         global_case("global_max_ncdhw", {2, 3, 8, 7, 6}, DataFormat::nchw, true),
                                         global_case("global_average_ncdhw", {2, 3, 8, 7, 6}, DataFormat::nchw, false)),
                         case_name);

TEST(Pool3d, RefusesWhatDoesNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 8, 3});
  const Value flat = placeholder(graph, "flat", {2, 8, 8, 3});
  const std::string rank = error_text<ShapeError>([&] { max_pool3d(flat); });
  EXPECT_TRUE(contains(rank, "max_pool3d 'max_pool3d' got [2,8,8,3]; wanted [N, D, H, W, C]")) << rank;
  const std::string size = error_text<ShapeError>([&] { average_pool3d(x, {.window = {2, 2, 9}}); });
  EXPECT_TRUE(contains(size, "kernel of 9 is larger than the padded image of 8")) << size;
  EXPECT_THROW(max_pool3d(x, {.padding = {2, 0, 0}}), ArgumentError);
  EXPECT_THROW(global_max_pool3d(flat), ShapeError);
  EXPECT_THROW(global_average_pool3d(flat), ShapeError);
  EXPECT_EQ(max_pool3d(x, {.format = DataFormat::nchw}).type().text(), "f32[2,8,4,4,1]");
  EXPECT_EQ(global_max_pool3d(x).type().text(), "f32[2,3]");
}

}  // namespace
}  // namespace sectionflow::testing_support
