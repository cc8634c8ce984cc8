#include <limits>
#include <numeric>

#include "autodiff/gradients.h"
#include "graph/nodes/arithmetic.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "tests/support/moved.h"
#include "tests/support/positions.h"

namespace sectionflow {
namespace {

using namespace testing_support;

Shape with_dim(const Shape& shape, int axis, std::int64_t dim) {
  std::vector<std::int64_t> dims = shape.dims();
  dims[axis] = dim;
  return Shape(dims);
}

/// y of shape `y_shape` from its part `part`, which lies from `first` on along the axis; or, `back`, the part from y.
void move_part(Doubles& y, const Shape& y_shape, Doubles& part, const Shape& shape, int axis, std::int64_t first,
               bool back) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    Position position = position_of(static_cast<std::int64_t>(i), shape);
    position[axis] += first;
    double& in_y = y[number_of(position, y_shape)];
    if (back) {
      part[i] = in_y;
    } else {
      in_y = part[i];
    }
  }
}

/// Values of `shape` but for their sizes along `axis`.
OpCase concat_case(const std::string& name, const Shape& shape, const std::vector<std::int64_t>& sizes, int axis,
                   Dtype dtype = Dtype::f32) {
  const int positive = normalized_axis(axis, shape.rank(), "test");
  std::vector<CaseInput> inputs;
  for (std::int64_t size : sizes) inputs.push_back(moved_input(dtype, with_dim(shape, positive, size)));
  const Shape y_shape = with_dim(shape, positive, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  OpCase op_case = moving_case(
      name, std::move(inputs), [axis](Graph&, const std::vector<Value>& in) { return std::vector{concat(in, axis)}; },
      [=](const std::vector<Doubles>& in) {
        std::vector<Doubles> parts = in;
        Doubles y(static_cast<std::size_t>(y_shape.num_elements()));
        std::int64_t first = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
          move_part(y, y_shape, parts[i], with_dim(shape, positive, sizes[i]), positive, first, false);
          first += sizes[i];
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

OpCase stack_case(const std::string& name, const Shape& shape, int count, int axis, Dtype dtype = Dtype::f32) {
  std::vector<std::int64_t> dims = shape.dims();
  const int positive = normalized_axis(axis, shape.rank() + 1, "test");
  dims.insert(dims.begin() + positive, count);
  OpCase op_case = moving_case(
      name, std::vector<CaseInput>(static_cast<std::size_t>(count), moved_input(dtype, shape)),
      [axis](Graph&, const std::vector<Value>& in) { return std::vector{stack(in, axis)}; },
      [=](const std::vector<Doubles>& in) {
        std::vector<Doubles> parts = in;
        const Shape y_shape(dims);
        Doubles y(static_cast<std::size_t>(y_shape.num_elements()));
        for (int i = 0; i < count; ++i) {
          move_part(y, y_shape, parts[i], with_dim(y_shape, positive, 1), positive, i, false);
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

/// The parts of x, whose gradient is checked for those in `used`.
OpCase split_case(const std::string& name, const Shape& shape, const std::vector<std::int64_t>& sizes, int axis,
                  std::vector<int> used, bool equal = false, Dtype dtype = Dtype::f32) {
  const int positive = normalized_axis(axis, shape.rank(), "test");
  OpCase op_case = moving_case(
      name, {moved_input(dtype, shape)},
      [=](Graph&, const std::vector<Value>& in) {
        return equal ? split(in[0], static_cast<int>(sizes.size()), axis) : split(in[0], sizes, axis);
      },
      [=](const std::vector<Doubles>& in) {
        Doubles x = in[0];
        std::vector<Doubles> parts;
        std::int64_t first = 0;
        for (std::int64_t size : sizes) {
          const Shape part = with_dim(shape, positive, size);
          parts.emplace_back(static_cast<std::size_t>(part.num_elements()));
          move_part(x, shape, parts.back(), part, positive, first, true);
          first += size;
        }
        return parts;
      });
  op_case.gradient_outputs = std::move(used);
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> concat_dtype_cases() {
  std::vector<OpCase> cases;
  for (Dtype dtype : kAllDtypes) {
    const std::string name(dtype_name(dtype));
    cases.push_back(concat_case(name + "_concat", {3, 5}, {4, 1, 2}, 1, dtype));
    cases.push_back(stack_case(name + "_stack", {3, 5}, 2, -1, dtype));
    cases.push_back(split_case(name + "_split", {3, 7}, {2, 4, 1}, 1, {0, 1, 2}, false, dtype));
  }
  return cases;
}

class Concat : public testing::TestWithParam<OpCase> {};
TEST_P(Concat, MovesThePartsAndTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Join, Concat,
    testing::Values(concat_case("one", {2, 3}, {3}, 1), concat_case("vectors", {1}, {3, 2, 4}, 0),
                    concat_case("rows", {1, 3}, {2, 5}, 0), concat_case("columns", {4, 1}, {2, 5, 1}, -1),
                    concat_case("channels", {2, 5, 5, 1}, {3, 4}, 3), concat_case("middle", {2, 1, 7}, {3, 1, 2}, -2),
                    concat_case("planes", {2, 1, 5, 5}, {3, 4}, 1), concat_case("an_empty_part", {3, 1}, {2, 0, 3}, 1),
                    concat_case("only_empty_parts", {3, 1}, {0, 0}, 1), concat_case("empty_batch", {0, 1}, {2, 3}, 1),
                    concat_case("single_columns", {5003, 1}, {1, 1, 1}, 1),
                    concat_case("short_rows", {5003, 1}, {2, 4, 3}, 1),
                    concat_case("long_rows", {3, 1}, {40001, 20011, 30001}, 1),
                    concat_case("large", {1, 101}, {700, 1300}, 0),
                    concat_case("many", {3, 1}, std::vector<std::int64_t>(60, 2), 1)),
    case_name);
INSTANTIATE_TEST_SUITE_P(Stack, Concat,
                         testing::Values(stack_case("stack_scalars", {}, 3, 0), stack_case("stack_one", {2, 3}, 1, 1),
                                         stack_case("stack_first", {4, 3}, 3, 0),
                                         stack_case("stack_last", {4, 3}, 3, 2),
                                         stack_case("stack_middle", {4, 3}, 3, -2),
                                         stack_case("stack_empty", {0, 3}, 2, 1),
                                         stack_case("stack_large", {301, 303}, 3, 1)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Split, Concat,
                         testing::Values(split_case("split_one", {3, 4}, {4}, 1, {0}),
                                         split_case("split_one_equal", {3, 4}, {4}, 1, {0}, true),
                                         split_case("split_equal", {3, 6}, {2, 2, 2}, -1, {0, 1, 2}, true),
                                         split_case("split_batch", {6, 5}, {3, 3}, 0, {0, 1}, true),
                                         split_case("split_batch_by_sizes", {6, 5}, {1, 5}, 0, {0, 1}),
                                         split_case("split_first_used", {3, 6}, {1, 3, 2}, 1, {0}),
                                         split_case("split_middle_used", {3, 6, 2}, {1, 3, 2}, 1, {1}),
                                         split_case("split_ends_used", {3, 6}, {1, 3, 2}, 1, {2, 0}),
                                         split_case("split_an_empty_part", {3, 5}, {2, 0, 3}, 1, {0, 2}),
                                         split_case("split_empty", {0, 4}, {2, 2}, 1, {0, 1}, true),
                                         split_case("split_large", {301, 303}, {101, 101, 101}, 1, {0, 2}, true),
                                         split_case("split_long_rows", {2, 90000}, {70001, 19999}, 1, {0})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, Concat, testing::ValuesIn(concat_dtype_cases()), case_name);

TEST(ConcatExactly, GradientsAreMadeOnlyForWhatIsTrained) {
  Graph graph;
  const Value a = placeholder(graph, "a", {2, 2}), b = placeholder(graph, "b", {2, 1});
  const Value r = constant(graph, HostTensor::of<float>({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  const Value loss = reduce_sum(mul(concat({a, b, a}, 1), r));
  Feeds feeds;
  feeds.emplace(a, HostTensor::of<float>({2, 2}, {0, 0, 0, 0}));
  feeds.emplace(b, HostTensor::of<float>({2, 1}, {0, 0}));
  const Value db = gradients(loss, {b})[0];
  EXPECT_EQ(db.node().output_types().size(), 1U);
  EXPECT_TRUE(same_bits(run_kernels({db}, feeds)[0], HostTensor::of<float>({2, 1}, {3, 8})));
  const Value da = gradients(loss, {a})[0];
  EXPECT_TRUE(same_bits(run_kernels({da}, feeds)[0], HostTensor::of<float>({2, 2}, {1 + 4, 2 + 5, 6 + 9, 7 + 10})));
}

TEST(ConcatShapes, UnknownDimensions) {
  Graph graph;
  const Value open = placeholder(graph, "open", {kDynamic, 3}), known = placeholder(graph, "known", {4, 3});
  EXPECT_EQ(concat({open, known}, 0).type().text(), "f32[?,3]");
  EXPECT_EQ(concat({open, known}, 1).type().text(), "f32[4,6]");
  EXPECT_EQ(stack({open, open}, 1).type().text(), "f32[?,2,3]");
  EXPECT_EQ(stack({open, known}, -1).type().text(), "f32[4,3,2]");
  EXPECT_EQ(split(open, 2, 0)[1].type().text(), "f32[?,3]");
  EXPECT_EQ(split(open, {1, 4}, 0)[1].type().text(), "f32[4,3]");
  EXPECT_EQ(split(open, 3, 1)[2].type().text(), "f32[?,1]");
}

TEST(ConcatShapes, RefuseWhatDoesNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), y = placeholder(graph, "y", {4, 3});
  const Value whole = placeholder(graph, "whole", {2, 3}, Dtype::i32), scalar = placeholder(graph, "scalar", {});
  const int before = graph.num_nodes();
  EXPECT_THROW(concat({}, 0), ArgumentError);
  EXPECT_THROW(stack({}, 0), ArgumentError);
  expect_refused<ShapeError>(
      [&] {
        concat({x, y}, 1);
      },
      "concat 'concat'", {"f32[2,3]", "f32[4,3]", "wanted equal shapes but along axis 1\n"});
  expect_refused<ShapeError>([&] { concat({x, y}, 2); }, "concat 'concat'", {"axis 2", "rank 2"});
  expect_refused<ShapeError>([&] { concat({x, scalar}, 0); }, "concat 'concat'", {"f32[2,3]", "f32[]", "rank"});
  expect_refused<ShapeError>([&] { concat({scalar, scalar}, 0); }, "concat 'concat'", {"scalar", "try stack"});
  expect_refused<ArgumentError>([&] { concat({x, whole}, 0); }, "concat 'concat'", {"f32", "i32", "try cast"});
  expect_refused<ShapeError>([&] { stack({x, y}, 0); }, "stack 'stack'", {"[2,3]", "[4,3]"});
  expect_refused<ShapeError>([&] { stack({x, x}, 3); }, "stack 'stack'", {"axis 3", "rank 3"});
  expect_refused<ShapeError>([&] { split(x, 2, 1); }, "split 'split'", {"[2,3]", "2 parts", "try split"});
  expect_refused<ShapeError>([&] { split(x, {1, 1}, 1); }, "split 'split'", {"[2,3]", "sum", "2"});
  expect_refused<ShapeError>([&] { split(scalar, 1, 0); }, "split 'split'", {"axis 0", "rank 0"});
  expect_refused<ArgumentError>([&] { split(x, 0, 1); }, "split of 'x'", {"0 parts"});
  expect_refused<ArgumentError>([&] { split(x, std::vector<std::int64_t>{}, 1); }, "split of 'x'", {"no sizes"});
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  expect_refused<ShapeError>([&] { split(x, {kLargest, kLargest, 5}, 1); }, "", {"does not fit 64 bits"});
  expect_refused<ArgumentError>([&] { split(x, {4, -1}, 1); }, "split of 'x'", {"size -1"});
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow
