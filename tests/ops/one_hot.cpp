#include "graph/ops/one_hot.h"

#include <cstdint>

#include "graph/ops/basic.h"
#include "tests/support/moved.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Indices from beside the classes too.
OpCase one_hot_case(const std::string& name, Shape indices, OneHotOptions options, Dtype dtype = Dtype::i32) {
  CaseInput in = moved_input(dtype, std::move(indices));
  in.low = -1;
  in.high = static_cast<double>(options.depth);
  OpCase op_case = moving_case(
      name, {in}, [options](Graph&, const std::vector<Value>& in) { return std::vector{one_hot(in[0], options)}; },
      [options](const std::vector<Doubles>& in) {
        Doubles y;
        for (double index : in[0]) {
          for (std::int64_t c = 0; c < options.depth; ++c) {
            y.push_back(static_cast<double>(c) == index ? options.on_value : options.off_value);
          }
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = true;
  return op_case;
}

class OneHot : public testing::TestWithParam<OpCase> {};
TEST_P(OneHot, IsOnAtTheIndex) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, OneHot,
    testing::Values(one_hot_case("scalar", {}, {.depth = 5}), one_hot_case("one_class", {7}, {.depth = 1}),
                    one_hot_case("ten_classes", {33}, {.depth = 10}),
                    one_hot_case("i64", {3, 5}, {.depth = 4}, Dtype::i64), one_hot_case("empty", {0, 3}, {.depth = 4}),
                    one_hot_case("other_values", {9}, {.depth = 3, .on_value = 0.5F, .off_value = -2.0F}),
                    one_hot_case("large", {501, 3}, {.depth = 101}, Dtype::i64)),
    case_name);

TEST(OneHotExactly, AnIndexOutOfRangeGivesARowOfOff) {
  Graph graph;
  const Value indices =
      constant(graph, HostTensor::of<std::int64_t>({5}, {-1, 2, std::int64_t{1} << 32, INT64_MIN, INT64_MAX}));
  const Value y = one_hot(indices, {.depth = 2, .off_value = 3});
  EXPECT_EQ(doubles_of(run_kernels({y}, {})[0]), Doubles(10, 3.0));
}

TEST(OneHotShapes, AddAnAxisOfClasses) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3}, Dtype::i64);
  EXPECT_EQ(one_hot(x, {.depth = 4}).type().text(), "f32[?,3,4]");
}

TEST(OneHotShapes, RefuseOtherIndicesAndNoClasses) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), i = placeholder(graph, "i", {2}, Dtype::i32);
  expect_refused<ArgumentError>([&] { one_hot(x, {.depth = 4}); }, "one_hot 'one_hot'", {"f32[2]", "i32 or i64"});
  expect_refused<ArgumentError>([&] { one_hot(i, {}); }, "one_hot 'one_hot'", {"depth is 0"});
  EXPECT_EQ(graph.num_nodes(), 2);
}

}  // namespace
}  // namespace sectionflow
