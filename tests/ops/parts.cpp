#include "graph/ops/parts.h"

#include <cmath>
#include <limits>

#include "graph/ops/basic.h"
#include "tests/support/moved.h"
#include "tests/support/positions.h"

namespace sectionflow {
namespace {

using namespace testing_support;

OpCase slice_case(const std::string& name, Shape shape, std::vector<std::int64_t> begin, std::vector<std::int64_t> size,
                  Dtype dtype = Dtype::f32) {
  std::vector<std::int64_t> dims = size;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == -1) dims[axis] = shape.dims()[axis] - begin[axis];
  }
  OpCase op_case = moving_case(
      name, {moved_input(dtype, shape)},
      [begin, size](Graph&, const std::vector<Value>& in) {
        return std::vector{slice(in[0], {.begin = begin, .size = size})};
      },
      [shape, begin, y_shape = Shape(dims)](const std::vector<Doubles>& in) {
        Doubles y(static_cast<std::size_t>(y_shape.num_elements()));
        for (std::size_t i = 0; i < y.size(); ++i) {
          Position from = position_of(static_cast<std::int64_t>(i), y_shape);
          for (std::size_t axis = 0; axis < from.size(); ++axis) from[axis] += begin[axis];
          y[i] = in[0][number_of(from, shape)];
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> slice_dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    const std::string name(dtype_name(dtype));
    cases.push_back(slice_case(name + "_box", {4, 5, 6}, {1, 0, 2}, {2, -1, 3}, dtype));
    cases.push_back(slice_case(name + "_column", {5, 7}, {0, 3}, {-1, 1}, dtype));
  }
  return cases;
}

class Slice : public testing::TestWithParam<OpCase> {};
TEST_P(Slice, TakesItsPartAndPadsTheGradientWithZeros) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Slice,
    testing::Values(slice_case("scalar", {}, {}, {}), slice_case("everything", {3, 4}, {0, 0}, {-1, 4}),
                    slice_case("vector", {9}, {2}, {4}), slice_case("one_element", {3, 4}, {2, 1}, {1, 1}),
                    slice_case("first_rows", {5, 4}, {0, 0}, {2, -1}), slice_case("last_rows", {5, 4}, {3, 0}, {-1, 4}),
                    slice_case("columns", {5, 8}, {0, 3}, {-1, 4}), slice_case("a_column", {5, 8}, {0, 7}, {-1, 1}),
                    slice_case("middle", {4, 6, 5}, {0, 1, 0}, {4, 3, -1}),
                    slice_case("box", {4, 5, 6, 3}, {1, 2, 1, 0}, {2, 2, -1, 2}),
                    slice_case("alternating", {4, 3, 6, 3}, {1, 0, 1, 0}, {-1, -1, 3, -1}),
                    slice_case("nothing", {4, 5}, {4, 0}, {-1, -1}), slice_case("no_columns", {4, 5}, {0, 2}, {-1, 0}),
                    slice_case("of_nothing", {0, 5}, {0, 1}, {-1, 2}),
                    slice_case("large_rows", {701, 103}, {99, 0}, {500, -1}),
                    slice_case("large_columns", {701, 103}, {0, 50}, {-1, 51}),
                    slice_case("large_column", {50021, 3}, {0, 1}, {-1, 1})),
    case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, Slice, testing::ValuesIn(slice_dtype_cases()), case_name);

TEST(SliceShapes, UnknownDimensions) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5}, Dtype::i64);
  EXPECT_EQ(slice(x, {.begin = {0, 1}, .size = {-1, -1}}).type().text(), "i64[?,4]");
  EXPECT_EQ(slice(x, {.begin = {2, 1}, .size = {3, 2}}).type().text(), "i64[3,2]");
}

TEST(SliceShapes, RefuseWhatLeavesX) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 5});
  const auto refuses = [&](SliceOptions options, const std::vector<std::string>& parts) {
    expect_refused<ShapeError>([&] { slice(x, options); }, "slice 'slice'", parts);
  };
  refuses({.begin = {0}, .size = {1, 1}}, {"1 begins", "2 sizes", "f32[4,5]"});
  refuses({}, {"0 begins", "f32[4,5]"});
  refuses({.begin = {0, -1}, .size = {1, 1}}, {"axis 1", "begin -1"});
  refuses({.begin = {0, 0}, .size = {-2, 1}}, {"axis 0", "size -2"});
  refuses({.begin = {5, 0}, .size = {-1, 1}}, {"axis 0", "[4,5]", "from 5"});
  refuses({.begin = {2, 0}, .size = {3, 1}}, {"axis 0", "[4,5]", "from 2", "3"});
  EXPECT_EQ(graph.num_nodes(), 1);
}

TEST(SliceShapes, RefuseAFeedThatIsTooSmall) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic});
  const Value y = slice(x, {.begin = {2}, .size = {3}});
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({4}, {1, 2, 3, 4}));
  expect_refused<ShapeError>([&] { run_kernels({y}, feeds); }, "slice 'slice'", {"[4]", "from 2", "3"});
}

OpCase pad_case(const std::string& name, Shape shape, std::vector<std::int64_t> before, std::vector<std::int64_t> after,
                double value = 0, Dtype dtype = Dtype::f32) {
  std::vector<std::int64_t> dims = shape.dims();
  for (std::size_t axis = 0; axis < dims.size(); ++axis) dims[axis] += before[axis] + after[axis];
  OpCase op_case = moving_case(
      name, {moved_input(dtype, shape)},
      [=](Graph&, const std::vector<Value>& in) {
        return std::vector{pad(in[0], {.before = before, .after = after, .value = value})};
      },
      [=, y_shape = Shape(dims)](const std::vector<Doubles>& in) {
        Doubles y(static_cast<std::size_t>(y_shape.num_elements()), value);
        for (std::size_t i = 0; i < in[0].size(); ++i) {
          Position to = position_of(static_cast<std::int64_t>(i), shape);
          for (std::size_t axis = 0; axis < to.size(); ++axis) to[axis] += before[axis];
          y[number_of(to, y_shape)] = in[0][i];
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> pad_dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    cases.push_back(pad_case(text_of(dtype_name(dtype), "_box"), {2, 3, 4}, {1, 0, 2}, {0, 1, 1}, 1, dtype));
  }
  return cases;
}

class Pad : public testing::TestWithParam<OpCase> {};
TEST_P(Pad, PutsABorderAroundXAndCutsItOffTheGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Pad,
    testing::Values(pad_case("scalar", {}, {}, {}), pad_case("no_border", {3, 4}, {0, 0}, {0, 0}),
                    pad_case("vector", {5}, {2}, {3}, 0.5), pad_case("rows", {3, 4}, {1, 0}, {2, 0}, -1),
                    pad_case("columns", {3, 4}, {0, 1}, {0, 2}, 2), pad_case("before_alone", {3, 4}, {2, 1}, {0, 0}),
                    pad_case("after_alone", {3, 4}, {0, 0}, {1, 2}),
                    pad_case("image", {2, 5, 6, 3}, {0, 1, 1, 0}, {0, 1, 2, 0}),
                    pad_case("image_of_packs", {2, 5, 6, 8}, {0, 1, 1, 0}, {0, 1, 2, 0}, 0.5),
                    pad_case("planes", {2, 3, 5, 6}, {0, 0, 1, 1}, {0, 0, 2, 1}, -0.25),
                    pad_case("every_axis", {2, 3, 2, 3}, {1, 2, 0, 1}, {2, 0, 1, 1}, 3),
                    pad_case("around_nothing", {0, 3}, {1, 1}, {2, 0}, 4), pad_case("empty", {0, 3}, {0, 1}, {0, 1}),
                    pad_case("large_image", {3, 61, 63, 5}, {0, 1, 2, 0}, {0, 1, 0, 0}, 1),
                    pad_case("large_planes", {5, 61, 63}, {1, 3, 2}, {0, 1, 5}),
                    pad_case("large_rows", {401, 103}, {99, 0}, {100, 0}, 7)),
    case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, Pad, testing::ValuesIn(pad_dtype_cases()), case_name);

TEST(PadExactly, ABorderMayBeInfinite) {
  Graph graph;
  const Value y = pad(fill(graph, {1}, 2), {.before = {1}, .after = {1}, .value = -INFINITY});
  EXPECT_TRUE(same_bits(run_kernels({y}, {})[0], HostTensor::of<float>({3}, {-INFINITY, 2, -INFINITY})));
}

TEST(PadShapes, UnknownDimensions) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5}, Dtype::u8);
  EXPECT_EQ(pad(x, {.before = {1, 2}, .after = {0, 3}}).type().text(), "u8[?,10]");
}

TEST(PadShapes, RefuseSizesThatDoNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 5});
  expect_refused<ShapeError>([&] { pad(x, {.before = {1, 1}, .after = {1}}); }, "pad 'pad'", {"2 sizes", "1 after"});
  expect_refused<ShapeError>([&] { pad(x, {}); }, "pad 'pad'", {"0 sizes", "f32[4,5]"});
  // The sum would wrap around to a small size.
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  expect_refused<ShapeError>(
      [&] {
        pad(x, {.before = {0, kLargest}, .after = {0, kLargest}});
      },
      "", {"does not fit 64 bits"});
  expect_refused<ShapeError>(
      [&] {
        pad(x, {.before = {1, -1}, .after = {1, 1}});
      },
      "pad 'pad'", {"axis 1", "-1", "try slice"});
  EXPECT_EQ(graph.num_nodes(), 1);
}

}  // namespace

}  // namespace sectionflow
