#include "graph/ops/transpose.h"

#include "graph/ops/basic.h"
#include "tests/support/moved.h"
#include "tests/support/positions.h"

namespace sectionflow {
namespace {

using namespace testing_support;

Doubles transposed(const Doubles& x, const Shape& shape, const std::vector<int>& permutation) {
  std::vector<std::int64_t> dims;
  for (int axis : permutation) dims.push_back(shape[axis]);
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Position from = position_of(static_cast<std::int64_t>(i), shape);
    Position to;
    for (int axis : permutation) to.push_back(from[normalized_axis(axis, shape.rank(), "test")]);
    y[number_of(to, Shape(dims))] = x[i];
  }
  return y;
}

OpCase transpose_case(const std::string& name, Shape shape, std::vector<int> permutation, Dtype dtype = Dtype::f32) {
  OpCase op_case = moving_case(
      name, {moved_input(dtype, shape)},
      [permutation](Graph&, const std::vector<Value>& in) { return std::vector{transpose(in[0], permutation)}; },
      [shape, permutation](const std::vector<Doubles>& in) {
        return std::vector<Doubles>{transposed(in[0], shape, permutation)};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    const std::string name(dtype_name(dtype));
    cases.push_back(transpose_case(name + "_matrix", {37, 53}, {1, 0}, dtype));
    cases.push_back(transpose_case(name + "_pairs", {37, 21, 2}, {1, 0, 2}, dtype));
    cases.push_back(transpose_case(name + "_fours", {7, 21, 4}, {1, 0, 2}, dtype));
    cases.push_back(transpose_case(name + "_rows", {5, 6, 33}, {1, 0, 2}, dtype));
  }
  return cases;
}

class Transpose : public testing::TestWithParam<OpCase> {};
TEST_P(Transpose, MovesEveryElementToItsPlaceAndBack) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Transpose,
    testing::Values(transpose_case("scalar", {}, {}), transpose_case("vector", {5}, {0}),
                    transpose_case("nothing_moves", {3, 4, 5}, {0, 1, 2}), transpose_case("one_tile", {16, 16}, {1, 0}),
                    transpose_case("row", {1, 40}, {1, 0}), transpose_case("small", {2, 3}, {1, 0}),
                    transpose_case("tiles", {64, 48}, {-1, -2}),
                    transpose_case("tiles_and_remainders", {67, 301}, {1, 0}),
                    transpose_case("narrow", {5003, 3}, {1, 0}), transpose_case("wide", {3, 5003}, {1, 0}),
                    transpose_case("heads_forth", {2, 19, 3, 8}, {0, 2, 1, 3}),
                    transpose_case("heads_of_one", {2, 19, 3, 1}, {0, 2, 1, 3}),
                    transpose_case("heads_and_keys", {2, 19, 3, 8}, {0, 2, 3, 1}),
                    transpose_case("channels_forth", {3, 9, 7, 5}, {0, 3, 1, 2}),
                    transpose_case("channels_back", {3, 5, 9, 7}, {0, 2, 3, 1}),
                    transpose_case("reversed", {2, 3, 4, 5, 6}, {4, 3, 2, 1, 0}),
                    transpose_case("axes_of_one", {1, 6, 1, 5}, {3, 2, 0, 1}),
                    transpose_case("only_ones_move", {4, 1, 6}, {1, 0, 2}),
                    transpose_case("empty", {3, 0, 4}, {2, 0, 1}), transpose_case("empty_batch", {0, 3, 4}, {0, 2, 1}),
                    transpose_case("empty_batch_of_pairs", {0, 3, 2}, {1, 0, 2}),
                    transpose_case("empty_batch_of_fours", {3, 5, 0, 4}, {1, 2, 0, 3}),
                    transpose_case("large_heads", {2, 130, 5, 70}, {0, 2, 1, 3}),
                    transpose_case("large_planes", {3, 257, 300}, {0, 2, 1}),
                    transpose_case("large_ends", {70, 9, 129}, {2, 1, 0})),
    case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, Transpose, testing::ValuesIn(dtype_cases()), case_name);

TEST(TransposeShapes, FollowThePermutation) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3, kDynamic, 5}, Dtype::u8);
  EXPECT_EQ(transpose(x, {1, 0, -1, 2}).type().text(), "u8[3,?,5,?]");
}

TEST(TransposeShapes, RefuseWhatIsNoPermutation) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  expect_refused<ShapeError>([&] { transpose(x, {0}); }, "transpose 'transpose'", {"1 axes", "rank 2"});
  expect_refused<ShapeError>([&] { transpose(x, {0, 0}); }, "transpose 'transpose'", {"axis 0", "twice"});
  expect_refused<ShapeError>([&] { transpose(x, {1, -1}); }, "transpose 'transpose'", {"axis -1", "twice"});
  expect_refused<ShapeError>([&] { transpose(x, {0, 2}); }, "transpose 'transpose'", {"axis 2"});
  EXPECT_EQ(graph.num_nodes(), 1);
}

}  // namespace
}  // namespace sectionflow
