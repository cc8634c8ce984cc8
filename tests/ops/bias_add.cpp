#include "graph/ops/bias_add.h"

#include <string>

#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

OpCase bias_add_case(const std::string& name, const Shape& x, DataFormat format = DataFormat::nhwc) {
  const std::int64_t channels = x[channel_axis(format)];
  std::int64_t plane = 1;
  for (int axis = 2; format == DataFormat::nchw && axis < x.rank(); ++axis) plane *= x[axis];
  return {.name = name,
          .inputs = {input(x), parameter({channels})},
          .build =
              [format](Graph&, const std::vector<Value>& in) {
                return std::vector{bias_add(in[0], in[1], {.format = format})};
              },
          .reference =
              [channels, plane](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (std::size_t i = 0; i < y.size(); ++i) {
                  y[i] += in[1][i / static_cast<std::size_t>(plane) % static_cast<std::size_t>(channels)];
                }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 1, .absolute = 0},
          .dynamic_batch = x.rank() > 1,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> bias_add_cases() {
  std::vector<OpCase> all;
  for (std::int64_t channels : {1, 3, 8, 10, 16, 17, 32, 33, 63, 64, 65, 100, 256, 300, 600}) {
    all.push_back(bias_add_case("rows_77_channels_" + std::to_string(channels), {77, channels}));
  }
  all.push_back(bias_add_case("vector", {5}));
  all.push_back(bias_add_case("one_row", {1, 10}));
  all.push_back(bias_add_case("images", {7, 9, 8, 24}));
  all.push_back(bias_add_case("many_blocks", {7, 100, 100, 3}));
  all.push_back(bias_add_case("no_rows", {0, 4, 3}));
  all.push_back(bias_add_case("no_channels", {4, 0}));
  for (std::int64_t plane : {1, 2, 31, 32, 33, 100, 300}) {
    all.push_back(bias_add_case("nchw_plane_" + std::to_string(plane), {9, 5, plane}, DataFormat::nchw));
  }
  all.push_back(bias_add_case("nchw_vectors", {9, 70}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_images", {7, 24, 9, 8}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_many_blocks", {1100, 17, 2, 3}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_large_planes", {2, 3, 150, 151}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_volumes", {2, 3, 4, 5, 6}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_no_images", {0, 3, 4, 4}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_no_channels", {2, 0, 4}, DataFormat::nchw));
  all.push_back(bias_add_case("nchw_no_elements", {2, 3, 0}, DataFormat::nchw));
  return all;
}

class BiasAddCases : public testing::TestWithParam<OpCase> {};
TEST_P(BiasAddCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BiasAddCases, testing::ValuesIn(bias_add_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, BiasAddCases,
                         testing::Values(in_bf16(bias_add_case("rows", {77, 33})),
                                         in_bf16(bias_add_case("nchw", {7, 24, 9, 8}, DataFormat::nchw))),
                         case_name);

TEST(BiasAdd, ShapesThatDoNotFitTheFormatAreRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3, 4}), vector = placeholder(graph, "vector", {3});
  EXPECT_EQ(bias_add(x, vector, {.format = DataFormat::nchw}).type().text(), "f32[2,3,4]");
  EXPECT_THROW(bias_add(x, vector), ShapeError);
  EXPECT_THROW(bias_add(x, placeholder(graph, "b", {4}), {.format = DataFormat::nchw}), ShapeError);
  try {
    bias_add(vector, vector, {.format = DataFormat::nchw});
    FAIL() << "a vector has no second axis";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("wanted [N, C, ...] and [C]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sectionflow::testing_support
