#include "graph/ops/pool3d.h"

#include "graph/ops/basic.h"
#include "tests/graph/description.h"
#include "tests/ops/pool_reference.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

struct Line {
  std::string name;
  Shape x;
  Pool3dOptions options{};
  bool dynamic_batch = false;
};

PoolOptions plain(const Pool3dOptions& options) {
  return {.window = {options.window.begin(), options.window.end()},
          .steps = window_steps(options.stride, {1, 1, 1}, options.padding, options.format),
          .include_padding = options.include_padding};
}

std::vector<OpCase> cases() {
  const Line lines[] = {
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
  std::vector<OpCase> all;
  for (const Line& line : lines) {
    const auto max = [o = line.options](Value x) { return max_pool3d(x, o); };
    all.push_back(pool_case("max_" + line.name, line.x, plain(line.options), true, max, line.dynamic_batch));
    for (bool include_padding : {false, true}) {
      Pool3dOptions options = line.options;
      options.include_padding = include_padding;
      const auto average = [options](Value x) { return average_pool3d(x, options); };
      const std::string name = (include_padding ? "average_with_padding_" : "average_") + line.name;
      all.push_back(pool_case(name, line.x, plain(options), false, average, line.dynamic_batch));
    }
  }
  return all;
}

/// A pool over the whole image.
OpCase global_case(const std::string& name, const Shape& shape, DataFormat format, bool is_maximum) {
  const ImageDims image = image_dims(shape, format);
  const Pool3dOptions whole{.window = {image.sizes[0], image.sizes[1], image.sizes[2]}, .format = format};
  OpCase result = pool_case(
      name, shape, plain(whole), is_maximum, [](Value x) { return x; }, true);
  result.build = [=](Graph&, const std::vector<Value>& in) {
    return std::vector{is_maximum ? global_max_pool3d(in[0], format) : global_average_pool3d(in[0], format)};
  };
  result.reference = [=](const std::vector<Doubles>& in) {
    return std::vector<Doubles>{pool_reference(shape, plain(whole), is_maximum, in[0])[0]};
  };
  return result;
}

class Pool3dCases : public testing::TestWithParam<OpCase> {};
TEST_P(Pool3dCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Pool3dCases, testing::ValuesIn(cases()), case_name);
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
