// Products of any two batches that broadcast, beside loops in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/einsum.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "tests/graph/einsum_reference.h"
#include "tests/support/op_case.h"

namespace sectionflow::einsum_case {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct BroadcastCase {
  const char* name;
  Shape a, b;
  MatmulOptions options;
  const char* text;  ///< the same
  bool a_has_batch = true, b_has_batch = false;
};

const BroadcastCase kBroadcastCases[] = {
    {"matrices", {4, 3}, {3, 5}, {}, "mk,kn->mn"},
    {"batches", {2, 4, 3}, {2, 3, 5}, {}, "...mk,...kn->...mn", true, true},
    {"one_matrix_behind", {2, 6, 4, 3}, {3, 5}, {}, "...mk,...kn->...mn"},
    {"one_matrix_in_front", {4, 3}, {2, 3, 5}, {}, "...mk,...kn->...mn", false, true},
    {"one_matrix_of_rank_three", {2, 6, 4, 3}, {1, 3, 5}, {}, "...mk,...kn->...mn"},
    {"fewer_axes", {2, 3, 4, 3}, {3, 3, 5}, {}, "...mk,...kn->...mn"},
    {"both_repeated", {2, 1, 4, 3}, {6, 3, 5}, {}, "...mk,...kn->...mn"},
    {"crosswise", {2, 1, 4, 3}, {1, 6, 3, 5}, {}, "...mk,...kn->...mn"},
    {"one_row", {2, 6, 1, 3}, {6, 3, 5}, {}, "...mk,...kn->...mn"},
    {"empty_batch", {0, 4, 3}, {3, 5}, {}, "...mk,...kn->...mn"},
    {"transposed_a", {2, 3, 4}, {3, 5}, {.transpose_a = true}, "...km,...kn->...mn"},
    {"transposed_b", {4, 3}, {2, 5, 3}, {.transpose_b = true}, "...mk,...nk->...mn", false, true},
    {"both_transposed",
     {2, 3, 4},
     {2, 5, 3},
     {.transpose_a = true, .transpose_b = true},
     "...km,...nk->...mn",
     true,
     true},
    {"row_in_front", {3}, {2, 3, 5}, {}, "k,...kn->...n", false, true},
    {"row_in_front_of_one", {3}, {3, 5}, {.transpose_a = true}, "k,kn->n", false},
    {"column_behind", {2, 6, 4, 3}, {3}, {}, "...mk,k->...m"},
    {"column_behind_one", {4, 3}, {3}, {.transpose_b = true}, "mk,k->m"},
    {"column_behind_transposes", {2, 3, 4}, {3}, {.transpose_a = true}, "...km,k->...m"},
    {"vectors", {7}, {7}, {}, "k,k->", true, true},
};

std::vector<OpCase> broadcast_cases() {
  std::vector<OpCase> all;
  for (const BroadcastCase& c : kBroadcastCases) {
    all.push_back(
        {.name = c.name,
         .inputs = {c.a_has_batch ? input(c.a) : parameter(c.a), c.b_has_batch ? input(c.b) : parameter(c.b)},
         .build = [&c](Graph&,
                       const std::vector<Value>& in) { return std::vector{broadcast_matmul(in[0], in[1], c.options)}; },
         .reference =
             [&c](const std::vector<Doubles>& in) {
               return std::vector<Doubles>{einsum_in_double(c.text, {{c.a, in[0]}, {c.b, in[1]}})};
             },
         .tolerance = {.relative = 4, .absolute = 16},
         .dynamic_batch = true});
    if (c.name == std::string("both_repeated")) all.push_back(in_bf16(all.back(), {}, 32));
  }
  return all;
}

class BroadcastProducts : public testing::TestWithParam<OpCase> {};
TEST_P(BroadcastProducts, MatchALoopOverAllIndicesWithTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BroadcastProducts, testing::ValuesIn(broadcast_cases()), case_name);

TEST(BroadcastMatmul, OfWhatMatmulTakesIsThatMatmulAlone) {
  for (const MatmulOptions options : {MatmulOptions{}, MatmulOptions{.transpose_b = true}}) {
    const auto matrix = [&](std::vector<std::int64_t> leading) {
      leading.insert(leading.end(), options.transpose_b ? std::initializer_list<std::int64_t>{5, 3}
                                                        : std::initializer_list<std::int64_t>{3, 5});
      return Shape(leading);
    };
    for (const auto& [a, b] : {std::pair<Shape, Shape>{{kDynamic, kDynamic, 4, 3}, matrix({kDynamic, kDynamic})},
                               {{kDynamic, kDynamic, 4, 3}, matrix({})},
                               {{kDynamic, 3}, matrix({})}}) {
      Graph graph;
      const Value x = placeholder(graph, "x", a), y = placeholder(graph, "y", b);
      const Value product = broadcast_matmul(x, y, options);
      EXPECT_EQ(product.node().op().name, "matmul");
      EXPECT_EQ(product.node().inputs(), (std::vector{x, y}));
      EXPECT_EQ(graph.num_nodes(), 3);
      EXPECT_EQ(product.shape(), matmul(x, y, options).shape());
    }
  }
}

TEST(BroadcastMatmul, RefusesWhatDoesNotFitAndAddsNothing) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4, 3}), wrong = placeholder(graph, "wrong", {4, 5});
  const Value other = placeholder(graph, "other", {3, 3, 5}), scalar = placeholder(graph, "scalar", {});
  const Value whole = placeholder(graph, "whole", {3, 5}, Dtype::i64);
  const int before = graph.num_nodes();
  EXPECT_THAT(
      [&] { (void)broadcast_matmul(x, wrong); },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("broadcast_matmul '...mk,...kn->...mn'"),
                                      HasSubstr("index 'k' is 3 in operand 0 'x'"), HasSubstr("4 in operand 1"))));
  EXPECT_THAT([&] { (void)broadcast_matmul(x, other); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("axis -1 of '...' is 2"), HasSubstr("'other'"))));
  EXPECT_THAT([&] { (void)broadcast_matmul(scalar, x); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("'scalar' is f32[]"), HasSubstr("wanted [..., M, K]"))));
  EXPECT_THROW(broadcast_matmul(x, scalar), ShapeError);
  EXPECT_THROW(broadcast_matmul(x, whole), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(graph.scope_names().empty());
}

}  // namespace
}  // namespace sectionflow::einsum_case
