#include "graph/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/moved.h"
#include "tests/support/positions.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Where pixel i of `out` lies among `in`.
double place_of(std::int64_t i, std::int64_t in, std::int64_t out, bool align_corners) {
  const auto pixel = static_cast<double>(i), from = static_cast<double>(in), to = static_cast<double>(out);
  if (align_corners) return out == 1 ? 0.0 : pixel * (from - 1) / (to - 1);
  return (pixel + 0.5) * from / to - 0.5;
}

/// The weight of pixel `from` of x in a pixel of y that lies at `place`.
double weight_of(std::int64_t from, double place, std::int64_t in, ResizeMethod method) {
  const auto last = static_cast<double>(in - 1), pixel = static_cast<double>(from);
  // Halves are exact in double; the small number lets places that are only nearly one count as such.
  if (method == ResizeMethod::nearest) return std::floor(place + 0.5 + 1e-9) == pixel ? 1.0 : 0.0;
  return std::max(0.0, 1 - std::abs(std::clamp(place, 0.0, last) - pixel));
}

/// The pixels of x that may have a weight at `place`, last exclusive.
std::pair<std::int64_t, std::int64_t> pixels_near(double place, std::int64_t in) {
  const auto floor = static_cast<std::int64_t>(std::floor(place));
  return {std::max<std::int64_t>(0, floor - 1), std::min(in, floor + 3)};
}

/// By definition: every pixel of y asks those of x around it for their weight.
Doubles resized(const Doubles& x, const Shape& shape, const Resize2dOptions& options, const Shape& y_shape) {
  const int axis = options.format == DataFormat::nhwc ? 1 : 2;
  Doubles y(static_cast<std::size_t>(y_shape.num_elements()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    Position position = position_of(static_cast<std::int64_t>(i), y_shape);
    const double row = place_of(position[axis], shape[axis], y_shape[axis], options.align_corners);
    const double column = place_of(position[axis + 1], shape[axis + 1], y_shape[axis + 1], options.align_corners);
    const auto [first_row, last_row] = pixels_near(row, shape[axis]);
    const auto [first_column, last_column] = pixels_near(column, shape[axis + 1]);
    for (std::int64_t h = first_row; h < last_row; ++h) {
      const double row_weight = weight_of(h, row, shape[axis], options.method);
      for (std::int64_t w = first_column; w < last_column; ++w) {
        position[axis] = h;
        position[axis + 1] = w;
        const double weight = row_weight * weight_of(w, column, shape[axis + 1], options.method);
        if (weight != 0) y[i] += weight * x[number_of(position, shape)];
      }
    }
  }
  return y;
}

struct ResizeSizes {
  const char* name;
  std::int64_t batch, height, width, channels, to_height, to_width;
};
const ResizeSizes kResizeSizes[] = {
    {"as_it_is", 2, 3, 4, 3, 3, 4},    {"twice", 2, 3, 4, 3, 6, 8},       {"half", 2, 6, 8, 3, 3, 4},
    {"to_one", 2, 5, 4, 3, 1, 1},      {"of_one", 2, 1, 1, 3, 4, 5},      {"odd", 3, 5, 7, 5, 8, 3},
    {"other_odd", 1, 7, 5, 17, 3, 11}, {"one_channel", 2, 4, 5, 1, 7, 9}, {"no_batch", 0, 2, 2, 3, 4, 4},
    {"no_channels", 2, 2, 2, 0, 4, 4}, {"large", 1, 31, 33, 9, 62, 66},   {"much_smaller", 2, 64, 60, 3, 5, 7},
    {"one_axis", 2, 3, 4, 3, 3, 9},
};

std::vector<OpCase> resize_cases() {
  std::vector<OpCase> cases;
  for (ResizeMethod method : {ResizeMethod::nearest, ResizeMethod::bilinear}) {
    for (bool align_corners : {false, true}) {
      for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
        for (const ResizeSizes& s : kResizeSizes) {
          const bool is_nhwc = format == DataFormat::nhwc;
          const Shape x =
              is_nhwc ? Shape{s.batch, s.height, s.width, s.channels} : Shape{s.batch, s.channels, s.height, s.width};
          const Shape y = is_nhwc ? Shape{s.batch, s.to_height, s.to_width, s.channels}
                                  : Shape{s.batch, s.channels, s.to_height, s.to_width};
          const Resize2dOptions options{s.to_height, s.to_width, method, align_corners, format};
          OpCase op_case = moving_case(
              text_of(method == ResizeMethod::nearest ? "nearest" : "bilinear", align_corners ? "_corners" : "",
                      is_nhwc ? "_nhwc_" : "_nchw_", s.name),
              {input(x)},
              [options](Graph&, const std::vector<Value>& in) { return std::vector{resize2d(in[0], options)}; },
              [=](const std::vector<Doubles>& in) { return std::vector<Doubles>{resized(in[0], x, options, y)}; });
          if (method == ResizeMethod::bilinear) op_case.tolerance = {.relative = 2, .absolute = 2};
          op_case.dynamic_batch = true;
          cases.push_back(op_case);
        }
      }
    }
  }
  return cases;
}

class Resize : public testing::TestWithParam<OpCase> {};
TEST_P(Resize, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Resize, testing::ValuesIn(resize_cases()), case_name);

std::vector<OpCase> resize_dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    for (std::int64_t channels : {1, 3}) {
      const Shape x{2, 3, 4, channels}, y{2, 5, 6, channels};
      const Resize2dOptions options{.height = 5, .width = 6};
      cases.push_back(moving_case(
          text_of(dtype_name(dtype), "_", channels), {moved_input(dtype, x)},
          [options](Graph&, const std::vector<Value>& in) { return std::vector{resize2d(in[0], options)}; },
          [=](const std::vector<Doubles>& in) { return std::vector<Doubles>{resized(in[0], x, options, y)}; }));
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Dtypes, Resize, testing::ValuesIn(resize_dtype_cases()), case_name);

std::vector<float> row_resized(const std::vector<float>& row, Resize2dOptions options) {
  Graph graph;
  const auto width = static_cast<std::int64_t>(row.size());
  options.height = 1;
  const HostTensor y =
      std::move(run_kernels({resize2d(constant(graph, HostTensor::of<float>({1, 1, width, 1}, row)), options)}, {})[0]);
  return {y.values<float>().begin(), y.values<float>().end()};
}

// The numbers of PyTorch's interpolate.
TEST(ResizeExactly, KnownRows) {
  using Row = std::vector<float>;
  const Row x = {1, 2, 3, 4};
  constexpr auto kNearest = ResizeMethod::nearest;
  constexpr auto kBilinear = ResizeMethod::bilinear;
  EXPECT_EQ(row_resized(x, {.width = 8, .method = kNearest}), (Row{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(row_resized(x, {.width = 2, .method = kNearest}), (Row{2, 4}));
  EXPECT_EQ(row_resized(x, {.width = 8, .method = kBilinear}), (Row{1, 1.25F, 1.75F, 2.25F, 2.75F, 3.25F, 3.75F, 4}));
  EXPECT_EQ(row_resized(x, {.width = 2, .method = kBilinear}), (Row{1.5F, 3.5F}));
  EXPECT_EQ(row_resized(x, {.width = 7, .method = kBilinear, .align_corners = true}),
            (Row{1, 1.5F, 2, 2.5F, 3, 3.5F, 4}));
  EXPECT_EQ(row_resized(x, {.width = 1, .method = kBilinear, .align_corners = true}), (Row{1}));
}

TEST(ResizeExactly, GradientsOfRepeatedPixelsAreTheirSums) {
  Graph graph;
  const Value x = placeholder(graph, "x", {1, 1, 2, 1});
  const Value r = constant(graph, HostTensor::of<float>({1, 2, 4, 1}, {1, 2, 3, 4, 10, 20, 30, 40}));
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({1, 1, 2, 1}, {0, 0}));
  const Value dx = gradients(reduce_sum(resize2d(x, {.height = 2, .width = 4}) * r), {x})[0];
  EXPECT_TRUE(same_bits(run_kernels({dx}, feeds)[0], HostTensor::of<float>({1, 1, 2, 1}, {33, 77})));
}

TEST(ResizeShapes, KeepBatchAndChannels) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, kDynamic, 5, 3});
  EXPECT_EQ(resize2d(x, {.height = 7, .width = 9}).type().text(), "f32[?,7,9,3]");
  EXPECT_EQ(resize2d(x, {.height = 7, .width = 9, .format = DataFormat::nchw}).type().text(), "f32[?,?,7,9]");
}

TEST(ResizeShapes, RefuseWhatIsNoImage) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4, 5, 3}), flat = placeholder(graph, "flat", {2, 4});
  const Value none = placeholder(graph, "none", {2, 0, 5, 3}), bytes = placeholder(graph, "b", {2, 4, 5, 3}, Dtype::u8);
  const int before = graph.num_nodes();
  const std::string start = "resize2d 'resize2d'";
  expect_refused<ArgumentError>([&] { resize2d(x, {.height = 3}); }, start, {"3 x 0", ">= 1"});
  expect_refused<ShapeError>([&] { resize2d(flat, {.height = 3, .width = 3}); }, start, {"f32[2,4]", "[N, H, W, C]"});
  expect_refused<ShapeError>([&] { resize2d(none, {.height = 3, .width = 3}); }, start, {"f32[2,0,5,3]", "a pixel"});
  expect_refused<ArgumentError>([&] { resize2d(bytes, {.height = 3, .width = 3, .method = ResizeMethod::bilinear}); },
                                start, {"u8[2,4,5,3]", "f32", "try cast"});
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow
