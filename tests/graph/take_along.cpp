// take_along along any axis: values, gradients and what is refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/index_functions.h"
#include "graph/ops/basic.h"
#include "tests/support/contains.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::index_functions {
namespace {

using namespace testing_support;

/// x [4, 5, 6], of which `count` places are taken along an axis.
OpCase take_along_case(const std::string& name, int axis, std::int64_t count, Dtype index = Dtype::i32,
                       Dtype dtype = Dtype::f32) {
  const Shape shape{4, 5, 6};
  std::vector<std::int64_t> dims = shape.dims();
  const auto place = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
  dims[place] = count;
  CaseInput x = moved_input(dtype, shape), places = moved_input(index, Shape(dims));
  places.high = static_cast<double>(shape[axis]) - 1;
  OpCase op_case = moving_case(
      name, {x, places},
      [=](Graph&, const std::vector<Value>& in) { return std::vector{take_along(in[0], in[1], axis)}; },
      [=](const std::vector<Doubles>& in) {
        Doubles y;
        for (std::size_t n = 0; n < in[1].size(); ++n) {
          const auto size = [&](std::size_t i) { return static_cast<std::size_t>(dims[i]); };
          std::size_t at[] = {n / (size(1) * size(2)), n / size(2) % size(1), n % size(2)};
          at[place] = static_cast<std::size_t>(in[1][n]);
          y.push_back(in[0][(at[0] * 5 + at[1]) * 6 + at[2]]);
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = false;
  return op_case;
}

class TakeAlongAnAxis : public testing::TestWithParam<OpCase> {};
TEST_P(TakeAlongAnAxis, TakesPlacesAlongItWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, TakeAlongAnAxis,
                         testing::Values(take_along_case("first", 0, 3), take_along_case("middle", 1, 9),
                                         take_along_case("last", 2, 2), take_along_case("from_the_end", -2, 1),
                                         take_along_case("of_whole_numbers", 0, 7, Dtype::i64, Dtype::i64),
                                         take_along_case("bf16", 1, 4, Dtype::i64, Dtype::bf16)),
                         case_name);

TEST(TakeAlongAnAxis, RefusesWhatDoesNotFitNamingIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 5, 6}), i = placeholder(graph, "i", {4, 2, 6}, Dtype::i32);
  EXPECT_EQ(take_along(x, i, 1).type().text(), "f32[4,2,6]");
  const int before = graph.num_nodes();
  const std::string text = error_text<ShapeError>([&] { take_along(x, i, 0); });
  EXPECT_TRUE(
      contains(text, "take_along: 'x' is f32[4,5,6], 'i' is i32[4,2,6]; wanted the sizes of 'x' but along axis 0"))
      << text;
  EXPECT_THROW(take_along(x, i, 3), ShapeError);
  EXPECT_THROW(take_along(x, x, 0), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow::index_functions
