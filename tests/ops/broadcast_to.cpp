#include "graph/ops/broadcast_to.h"

#include "graph/ops/basic.h"
#include "tests/support/moved.h"
#include "tests/support/positions.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// `shape`: as it is asked for, perhaps with -1; `result`: as it must become.
OpCase broadcast_case(const std::string& name, Shape x, Shape shape, Shape result, bool dynamic_batch = false,
                      Dtype dtype = Dtype::f32) {
  OpCase op_case = moving_case(
      name, {moved_input(dtype, x)},
      [shape](Graph&, const std::vector<Value>& in) { return std::vector{broadcast_to(in[0], shape)}; },
      [x, result](const std::vector<Doubles>& in) {
        Doubles y(static_cast<std::size_t>(result.num_elements()));
        for (std::size_t i = 0; i < y.size(); ++i) {
          const Position to = position_of(static_cast<std::int64_t>(i), result);
          Position from(to.end() - x.rank(), to.end());
          for (int axis = 0; axis < x.rank(); ++axis) from[axis] = x[axis] == 1 ? 0 : from[axis];
          y[i] = in[0][number_of(from, x)];
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = dynamic_batch;
  return op_case;
}

std::vector<OpCase> dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    cases.push_back(
        broadcast_case(std::string(dtype_name(dtype)), {3, 1, 2}, {2, 3, 4, 2}, {2, 3, 4, 2}, false, dtype));
  }
  return cases;
}

class BroadcastTo : public testing::TestWithParam<OpCase> {};
TEST_P(BroadcastTo, RepeatsXAndAddsTheGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, BroadcastTo,
    testing::Values(broadcast_case("scalar", {}, {}, {}), broadcast_case("of_scalar", {}, {3, 4}, {3, 4}),
                    broadcast_case("nothing_repeats", {3, 4}, {3, 4}, {3, 4}),
                    broadcast_case("new_axes_of_one", {3, 4}, {1, 3, 4}, {1, 3, 4}),
                    broadcast_case("rows", {4}, {3, 4}, {3, 4}), broadcast_case("columns", {3, 1}, {3, 4}, {3, 4}),
                    broadcast_case("own_batch", {3, 1}, {-1, 4}, {3, 4}, true),
                    broadcast_case("own_batch_inside", {3, 1, 5}, {2, -1, 4, -1}, {2, 3, 4, 5}, true),
                    broadcast_case("both_ends", {1, 5, 1}, {3, 5, 4}, {3, 5, 4}),
                    broadcast_case("to_nothing", {1, 5}, {0, 5}, {0, 5}),
                    broadcast_case("of_nothing", {0, 1}, {-1, 3}, {0, 3}, true),
                    broadcast_case("large_rows", {1003}, {101, 1003}, {101, 1003}),
                    broadcast_case("large_columns", {1003, 1}, {1003, 101}, {1003, 101})),
    case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, BroadcastTo, testing::ValuesIn(dtype_cases()), case_name);

OpCase like_case(const std::string& name, Shape x, Shape like, bool dynamic_batch = false) {
  OpCase op_case = broadcast_case(name, std::move(x), like, like);
  op_case.inputs.push_back(moved_input(Dtype::f32, like));
  op_case.inputs[1].differentiable = false;
  op_case.build = [](Graph&, const std::vector<Value>& in) { return std::vector{broadcast_like(in[0], in[1])}; };
  op_case.dynamic_batch = dynamic_batch;
  return op_case;
}

INSTANTIATE_TEST_SUITE_P(Like, BroadcastTo,
                         testing::Values(like_case("like_a_scalar", {}, {}), like_case("like_a_matrix", {}, {3, 4}),
                                         like_case("like_itself", {3, 4}, {3, 4}, true),
                                         like_case("like_a_batch", {3, 1}, {3, 4}, true),
                                         like_case("like_nothing", {1, 5}, {0, 5}),
                                         like_case("like_large", {1003}, {101, 1003})),
                         case_name);

TEST(BroadcastToShapes, LikeRefusesWhatDoesNotBroadcast) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 1}), like = placeholder(graph, "like", {1, 3});
  expect_refused<ShapeError>([&] { broadcast_like(x, like); }, "broadcast_like 'broadcast_like", {"f32[4,1]", "[1,3]"});
}

TEST(BroadcastToShapes, UnknownDimensionsFitMinusOneAlone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1});
  EXPECT_EQ(broadcast_to(x, {2, -1, 3}).type().text(), "f32[2,?,3]");
  expect_refused<ShapeError>(
      [&] {
        broadcast_to(x, {4, 3});
      },
      "broadcast_to 'broadcast_to", {"[?,1]", "[4,3]", "dimension -2", "try -1"});
}

TEST(BroadcastToShapes, RefuseWhatDoesNotBroadcast) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const auto refuses = [&](Shape shape, const std::vector<std::string>& parts) {
    expect_refused<ShapeError>([&] { broadcast_to(x, shape); }, "broadcast_to 'broadcast_to'", parts);
  };
  refuses({3}, {"f32[2,3]", "[3]", "as many dimensions"});
  refuses({2, 6}, {"f32[2,3]", "[2,6]", "dimension -1"});
  refuses({-1, 2, 3}, {"f32[2,3]", "dimension -3", "none"});
  EXPECT_EQ(graph.num_nodes(), 1);
}

}  // namespace
}  // namespace sectionflow
