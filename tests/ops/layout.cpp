#include "graph/ops/layout.h"

#include "graph/nodes/layout.h"
#include "graph/ops/basic.h"
#include "tests/support/moved.h"
#include "tests/support/positions.h"

namespace sectionflow {
namespace {

using namespace testing_support;

OpCase reshape_case(std::string name, Shape from, Shape to, bool dynamic_batch = false) {
  return {.name = std::move(name),
          .inputs = {input(std::move(from))},
          .build = [to](Graph&, const std::vector<Value>& in) { return std::vector{reshape(in[0], to)}; },
          .reference = [](const std::vector<Doubles>& in) { return in; },
          .tolerance = {.relative = 0, .absolute = 0},
          .dynamic_batch = dynamic_batch,
          .same_bits_for_any_threads = true};
}

class Reshape : public testing::TestWithParam<OpCase> {};
TEST_P(Reshape, KeepsTheElementsAndPassesTheGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Reshape,
                         testing::Values(reshape_case("flatten", {4, 3, 2}, {-1}),
                                         reshape_case("flatten_images", {5, 7, 7, 3}, {-1, 147}, true),
                                         reshape_case("to_scalar", {1, 1}, {}),
                                         reshape_case("of_scalar", {}, {1, 1, 1}),
                                         reshape_case("empty", {0, 6}, {2, 0, 3}),
                                         reshape_case("empty_batch", {0, 6}, {-1, 2, 3}, true),
                                         reshape_case("large", {300, 1001}, {1001, 300})),
                         case_name);

OpCase flatten_case(std::string name, Shape from, Dtype dtype = Dtype::f32) {
  OpCase op_case = moving_case(
      std::move(name), {moved_input(dtype, std::move(from))},
      [](Graph&, const std::vector<Value>& in) { return std::vector{flatten(in[0])}; },
      [](const std::vector<Doubles>& in) { return in; });
  op_case.dynamic_batch = true;
  return op_case;
}

INSTANTIATE_TEST_SUITE_P(Flatten, Reshape,
                         testing::Values(flatten_case("flatten_vector", {5}), flatten_case("flatten_matrix", {3, 4}),
                                         flatten_case("flatten_image", {5, 7, 7, 3}),
                                         flatten_case("flatten_no_images", {0, 7, 3}),
                                         flatten_case("flatten_no_pixels", {4, 0, 3}),
                                         flatten_case("flatten_bytes", {4, 3, 2}, Dtype::u8)),
                         case_name);

TEST(ReshapeShapes, FlattenLeavesUnknownWhatTheFeedDecides) {
  Graph graph;
  EXPECT_EQ(flatten(placeholder(graph, "a", {kDynamic, 7, 3})).type().text(), "f32[?,21]");
  EXPECT_EQ(flatten(placeholder(graph, "b", {kDynamic, kDynamic, 3})).type().text(), "f32[?,?]");
  EXPECT_EQ(flatten(placeholder(graph, "c", {kDynamic})).type().text(), "f32[?,1]");
  const Value scalar = placeholder(graph, "scalar", {});
  expect_refused<ShapeError>([&] { flatten(scalar); }, "flatten 'flatten", {"scalar", "try reshape"});
}

TEST(ReshapeExactly, TakesEveryDtypeInPlaceOrNot) {
  Graph graph;
  std::vector<Value> fetches;
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean}) {
    fetches.push_back(reshape(fill(graph, {2, 3}, 1, dtype), {3, 2}));
    fetches.push_back(reshape_like(fill(graph, {2, 3}, 1, dtype), fill(graph, {6}, 0)));
  }
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs}) {
    const auto results = run_kernels(fetches, {}, {.in_place = in_place});
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].shape(), i % 2 == 0 ? Shape({3, 2}) : Shape({6}));
      EXPECT_EQ(doubles_of(results[i]), Doubles(6, 1.0));
    }
  }
}

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

std::vector<OpCase> transpose_dtype_cases() {
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
INSTANTIATE_TEST_SUITE_P(Dtypes, Transpose, testing::ValuesIn(transpose_dtype_cases()), case_name);

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

std::vector<OpCase> broadcast_dtype_cases() {
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
INSTANTIATE_TEST_SUITE_P(Dtypes, BroadcastTo, testing::ValuesIn(broadcast_dtype_cases()), case_name);

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

OpCase same_size_case(const std::string& name, Shape x, Shape like, SameSizeOptions options, bool dynamic_batch) {
  OpCase op_case = broadcast_case(name, x, x, x);
  op_case.inputs.push_back(moved_input(Dtype::f32, std::move(like)));
  op_case.inputs[1].differentiable = false;
  op_case.build = [=](Graph&, const std::vector<Value>& in) { return std::vector{same_size(in[0], in[1], options)}; };
  op_case.dynamic_batch = dynamic_batch;
  return op_case;
}

INSTANTIATE_TEST_SUITE_P(SameSize, BroadcastTo,
                         testing::Values(same_size_case("same_rows", {3, 4}, {3}, {}, true),
                                         same_size_case("same_columns", {3, 4}, {4, 2}, {.axis = -1}, false),
                                         same_size_case("same_none", {0, 4}, {2, 0}, {.like_axis = 1}, false)),
                         case_name);

TEST(SameSizeShapes, KnowWhatEitherKnowsAndRefuseTwoSizes) {
  Graph graph;
  const auto in = [&](const char* name, Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, name, std::move(shape), dtype);
  };
  const Value x = in("x", {kDynamic, kDynamic}), like = in("like", {5, kDynamic}, Dtype::i32);
  EXPECT_EQ(same_size(x, like, {.axis = 1}).type().text(), "f32[?,5]");
  EXPECT_EQ(same_size(like, x, {}).type().text(), "i32[5,?]");
  EXPECT_EQ(same_size(x, like, {.like_axis = 1}).type().text(), "f32[?,?]");
  const int before = graph.num_nodes();
  expect_refused<ShapeError>(
      [&] {
        same_size(in("one", {1, 5}), like, {.what = "the batch"});
      },
      "the batch is 1 in f32[1,5], 5 in i32[5,?]", {"wanted one size"});
  EXPECT_EQ(graph.num_nodes(), before + 1) << "the placeholder";
  EXPECT_THROW(same_size(x, like, {.axis = 2}), ShapeError);
  EXPECT_THROW(same_size(x, like, {.like_axis = -3}), ShapeError);
}

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
