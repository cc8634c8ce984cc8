#include "graph/ops/pool2d.h"

#include <cmath>
#include <limits>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/graph/description.h"
#include "tests/ops/pool_reference.h"
#include "tests/support/moved.h"

namespace sectionflow::testing_support {
namespace {

struct Line {
  std::string name;
  Shape x;
  Pool2dOptions options{};
  bool dynamic_batch = false;
};

PoolOptions plain(const Pool2dOptions& options) {
  return {.window = {options.window.begin(), options.window.end()},
          .steps = window_steps(options.stride, {1, 1}, options.padding, options.format),
          .include_padding = options.include_padding};
}

/// Odd and even sizes, channels that fit no vector, windows that overlap, touch or leave elements unread.
std::vector<Line> lines() {
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

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const Line& line : lines()) {
    const auto max = [o = line.options](Value x) { return max_pool2d(x, o); };
    all.push_back(pool_case("max_" + line.name, line.x, plain(line.options), true, max, line.dynamic_batch));
    for (bool include_padding : {false, true}) {
      Pool2dOptions options = line.options;
      options.include_padding = include_padding;
      const auto average = [options](Value x) { return average_pool2d(x, options); };
      const std::string name = (include_padding ? "average_with_padding_" : "average_") + line.name;
      all.push_back(pool_case(name, line.x, plain(options), false, average, line.dynamic_batch));
      if (line.name == "unequal_sides") all.push_back(in_bf16(all.back()));
    }
  }
  return all;
}

/// A pool over the whole image.
OpCase global_case(const std::string& name, const Shape& shape, DataFormat format, bool is_maximum) {
  const ImageDims image = image_dims(shape, format);
  const Pool2dOptions whole{.window = {image.sizes[0], image.sizes[1]}, .format = format};
  OpCase result = pool_case(
      name, shape, plain(whole), is_maximum, [](Value x) { return x; }, shape[0] > 1);
  result.build = [=](Graph&, const std::vector<Value>& in) {
    return std::vector{is_maximum ? global_max_pool2d(in[0], format) : global_average_pool2d(in[0], format)};
  };
  result.reference = [=](const std::vector<Doubles>& in) {
    return std::vector<Doubles>{pool_reference(shape, plain(whole), is_maximum, in[0])[0]};
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
INSTANTIATE_TEST_SUITE_P(Cases, Pool2dCases, testing::ValuesIn(cases()), case_name);
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
  EXPECT_EQ(average_pool2d(x, {.stride = {kLargest, 2}, .padding = Padding::same}).type().text(), "f32[?,1,8,6]");
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
  expect_refused<ShapeError>([&] { max_pool2d(x, {.padding = {kLargest, 0}}); }, "", {"does not fit 64 bits"});
  expect_refused<ShapeError>(
      [&] {
        global_max_pool2d(placeholder(graph, "wide", {2, 8, kDynamic, 3}));
      },
      "global_max_pool2d", {"only the batch may be -1"});
  expect_refused<ShapeError>(
      [&] {
        max_pool2d(placeholder(graph, "open", {2, kDynamic, 8, 3}));
      },
      "max_pool2d", {"only the batch may be -1"});
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

}  // namespace
}  // namespace sectionflow::testing_support
