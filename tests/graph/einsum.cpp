// Einsum: values, gradients and shapes of the texts that people write, and how many operations they become.
#include "graph/einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/graph/einsum_reference.h"
#include "tests/support/op_case.h"

namespace sectionflow::einsum_case {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A text, and operands for it.
struct TextCase {
  const char* name;
  const char* text;
  std::vector<Shape> shapes;
  std::vector<std::size_t> without_batch{};  ///< operands whose first dimension is known whatever the batch
};

const TextCase kTextCases[] = {
    {"product", "ij,jk->ik", {{4, 3}, {3, 5}}, {1}},
    {"product_of_transposes", "ji,kj->ik", {{3, 4}, {5, 3}}, {0, 1}},
    {"transposed_product", "ij,jk->ki", {{4, 3}, {3, 5}}, {1}},
    {"batch", "bij,bjk->bik", {{4, 2, 3}, {4, 3, 5}}},
    {"batch_of_one", "bij,bjk->bik", {{1, 2, 3}, {1, 3, 5}}},
    {"empty_batch", "bij,bjk->bik", {{0, 2, 3}, {0, 3, 5}}},
    {"batch_that_comes_last", "ijb,jkb->ikb", {{2, 3, 4}, {3, 5, 4}}, {0, 1}},
    {"queries_and_keys", "bhtd,bhsd->bhts", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
    {"queries_and_keys_in_rows", "bthd,bshd->bhts", {{2, 4, 3, 5}, {2, 6, 3, 5}}},
    {"weights_and_values", "bhts,bshd->bthd", {{2, 3, 4, 6}, {2, 6, 3, 5}}},
    {"layer", "bi,ij->bj", {{6, 3}, {3, 4}}, {1}},
    {"layer_of_any_rank", "...i,ij->...j", {{2, 3, 4, 5}, {5, 6}}, {1}},
    {"layer_of_a_row", "...i,ij->...j", {{5}, {5, 6}}, {0, 1}},
    {"heads", "btc,chd->bhtd", {{2, 5, 4}, {4, 3, 2}}, {1}},
    {"heads_together", "bhtd,hdc->btc", {{2, 3, 5, 2}, {3, 2, 4}}, {1}},
    {"of_each_head", "bthd,hde->bthe", {{3, 4, 2, 5}, {2, 5, 6}}, {1}},
    {"bilinear", "bi,ijk,bk->bj", {{4, 2}, {2, 3, 5}, {4, 5}}, {1}},
    {"inner", "i,i->", {{7}, {7}}},
    {"inner_of_rows", "bi,bi->b", {{5, 7}, {5, 7}}},
    {"outer", "i,j->ij", {{4}, {3}}, {1}},
    {"outer_of_rows", "bi,bj->bij", {{4, 3}, {4, 5}}},
    {"row_times_matrix", "j,jk->k", {{3}, {3, 5}}, {0, 1}},
    {"matrix_times_column", "ij,j->i", {{4, 3}, {3}}, {1}},
    {"all_elements", "ij,ij->", {{4, 3}, {4, 3}}},
    {"elements", "bij,bij->bij", {{2, 3, 4}, {2, 3, 4}}},
    {"elements_of_transposes", "bij,bji->bij", {{2, 3, 4}, {2, 4, 3}}},
    {"scaled", "bij,i->bij", {{2, 3, 4}, {3}}, {1}},
    {"times_a_scalar", ",bi->bi", {{}, {4, 3}}, {0}},
    {"two_sums", "ij,kl->", {{4, 3}, {2, 5}}, {1}},
    {"sum_of_one_side", "ijl,jk->ik", {{4, 3, 2}, {3, 5}}, {1}},
    {"chain", "ij,jk,kl->il", {{4, 2}, {2, 5}, {5, 3}}, {1, 2}},
    {"chain_out_of_order", "ij,kl,jk->li", {{4, 2}, {5, 3}, {2, 5}}, {1, 2}},
    {"four", "abc,bd,ce,de->a", {{3, 2, 4}, {2, 3}, {4, 2}, {3, 2}}, {1, 2, 3}},
    {"same", "bij->bij", {{2, 3, 4}}},
    {"transpose", "bij->bji", {{2, 3, 4}}},
    {"to_the_front", "...ij->ji...", {{2, 5, 3, 4}}},
    {"sum", "bij->b", {{2, 3, 4}}},
    {"sum_and_transpose", "bij->jb", {{2, 3, 4}}},
    {"trace", "ii->", {{5, 5}}, {0}},
    {"diagonal", "bii->bi", {{3, 4, 4}}},
    {"diagonal_apart", "ibi->bi", {{4, 3, 4}}, {0}},
    {"long_diagonal", "biii->ib", {{2, 3, 3, 3}}},
    {"two_diagonals", "iijj->ij", {{2, 2, 3, 3}}, {0}},
    {"diagonal_times", "bii,ij->bj", {{2, 3, 3}, {3, 4}}, {1}},
    {"repeated_axes", "...ij,...jk->...ik", {{4, 1, 2, 3}, {5, 3, 2}}, {1}},
    {"repeated_batch", "...ij,...jk->...ik", {{4, 2, 3}, {1, 3, 2}}, {1}},
    {"repeated_elements", "...i,...i->...i", {{4, 1, 3}, {2, 3}}, {1}},
    {"long_sum", "ij,jk->ik", {{33, 700}, {700, 17}}, {1}},
    {"many_rows", "bti,ij->btj", {{30, 40, 19}, {19, 23}}, {1}},
};

std::vector<OpCase> text_cases() {
  std::vector<OpCase> all;
  for (const TextCase& text : kTextCases) {
    OpCase made{.name = text.name,
                .inputs = {},
                .build = [&text](Graph&, const std::vector<Value>& in) { return std::vector{einsum(text.text, in)}; },
                .reference =
                    [&text](const std::vector<Doubles>& in) {
                      std::vector<Operand> operands;
                      for (std::size_t i = 0; i < in.size(); ++i) operands.push_back({text.shapes[i], in[i]});
                      return std::vector<Doubles>{einsum_in_double(text.text, operands)};
                    },
                .tolerance = {.relative = 8, .absolute = std::string(text.name) == "long_sum" ? 200.0 : 32.0}};
    made.dynamic_batch = text.without_batch.size() < text.shapes.size();
    for (std::size_t i = 0; i < text.shapes.size(); ++i) {
      const bool is_known = std::ranges::find(text.without_batch, i) != text.without_batch.end();
      made.inputs.push_back(is_known ? parameter(text.shapes[i]) : input(text.shapes[i]));
    }
    all.push_back(made);
    // Between operations, results are rounded to bf16 too.
    for (const char* in_one : {"batch", "layer_of_any_rank", "queries_and_keys_in_rows", "diagonal", "outer_of_rows"}) {
      if (text.name == std::string(in_one)) all.push_back(in_bf16(made, {}, 32));
    }
  }
  return all;
}

class EinsumTexts : public testing::TestWithParam<OpCase> {};
TEST_P(EinsumTexts, MatchALoopOverAllIndicesWithTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, EinsumTexts, testing::ValuesIn(text_cases()), case_name);

/// How many operations of each name compute a value of these operands, but for those that only look at shapes.
std::map<std::string, int> operations_of(const std::string& text, const std::vector<Shape>& shapes) {
  Graph graph;
  std::vector<Value> operands;
  for (const Shape& shape : shapes) operands.push_back(placeholder(graph, "x", shape));
  (void)einsum(text, operands);
  std::map<std::string, int> found;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const std::string& name = graph.node(id).op().name;
    if (name != "placeholder" && name != "reshape" && name != "same_size") ++found[name];
  }
  return found;
}

constexpr std::int64_t kAny = kDynamic;

TEST(Einsum, OfMatricesIsOneMatmulWithoutATranspose) {
  const std::map<std::string, int> one = {{"matmul", 1}};
  EXPECT_EQ(operations_of("bij,bjk->bik", {{kAny, 2, 3}, {kAny, 3, 4}}), one);
  EXPECT_EQ(operations_of("bji,bjk->bik", {{kAny, 3, 2}, {kAny, 3, 4}}), one);
  EXPECT_EQ(operations_of("bij,bkj->bki", {{kAny, 2, 3}, {kAny, 4, 3}}), one);
  EXPECT_EQ(operations_of("bij,bjk->bki", {{kAny, 2, 3}, {kAny, 3, 4}}), one);
  EXPECT_EQ(operations_of("bhtd,bhsd->bhts", {{kAny, 2, kAny, 3}, {kAny, 2, kAny, 3}}), one);
  EXPECT_EQ(operations_of("bhts,bhsd->bhtd", {{kAny, 2, kAny, kAny}, {kAny, 2, kAny, 3}}), one);
  EXPECT_EQ(operations_of("bi,ij->bj", {{kAny, 2}, {2, 3}}), one);
  EXPECT_EQ(operations_of("bi,ji->bj", {{kAny, 2}, {3, 2}}), one);
  EXPECT_EQ(operations_of("...i,ij->...j", {{kAny, kAny, kAny, 2}, {2, 3}}), one);
  EXPECT_EQ(operations_of("ij,...j->...i", {{3, 2}, {kAny, kAny, 2}}), one);
  EXPECT_EQ(operations_of("btc,chd->bthd", {{kAny, 5, 4}, {4, 3, 2}}), one);
  EXPECT_EQ(operations_of("bthd,hdc->btc", {{kAny, 5, 3, 2}, {3, 2, 4}}), one);
  EXPECT_EQ(operations_of("kij,kl->ijl", {{4, kAny, 2}, {4, 3}}), one);
  EXPECT_EQ(operations_of("bi,bi->b", {{kAny, 3}, {kAny, 3}}), one);
}

TEST(Einsum, TransposesTheSmallestOfWhatHasToBeTransposed) {
  // Either operand, or the result, could be turned.
  EXPECT_EQ(operations_of("bthd,bhsd->bhts", {{kAny, 2, 3, 4}, {kAny, 3, 5, 4}}),
            (std::map<std::string, int>{{"matmul", 1}, {"transpose", 1}}));
  Graph graph;
  const Value large = placeholder(graph, "large", {100, 10, 3}), small = placeholder(graph, "small", {4, 3, 10});
  for (const Value& y : {einsum("bij,kji->bk", {large, small}), einsum("kji,bij->bk", {small, large})}) {
    std::vector<Value> transposed;
    for (const Value& side : y.node().inputs()) {
      const Node& reshaped = side.node();
      const Node& before = reshaped.inputs()[0].node();
      if (before.op().name == "transpose") transposed.push_back(before.inputs()[0]);
    }
    EXPECT_EQ(y.node().op().name, "matmul");
    EXPECT_EQ(transposed, std::vector{small});
  }
}

TEST(Einsum, MultipliesElementsWhereNothingIsSummed) {
  const std::map<std::string, int> one = {{"mul", 1}};
  EXPECT_EQ(operations_of("bij,bij->bij", {{kAny, kAny, 3}, {kAny, kAny, 3}}), one);
  EXPECT_EQ(operations_of("bi,bj->bij", {{kAny, 2}, {kAny, 3}}), one);
  EXPECT_EQ(operations_of("...i,i->...i", {{kAny, kAny, 3}, {3}}), one);
  EXPECT_EQ(operations_of("ij,ji->ij", {{2, 3}, {3, 2}}), (std::map<std::string, int>{{"mul", 1}, {"transpose", 1}}));
}

TEST(Einsum, TransposesAnOperandRatherThanALargerProductOfElements) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3, 4}), y = placeholder(graph, "y", {100});
  EXPECT_EQ(einsum("ij,k->kji", {x, y}).node().op().name, "mul");
}

TEST(Einsum, OfAnIndexWithoutValuesIsZeroBetweenOperandsAndRefusedWithinOne) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 0}), y = placeholder(graph, "y", {0, 3});
  EXPECT_THROW(einsum("ij->i", {x}), ShapeError);
  testing_support::Feeds feeds;
  feeds.emplace(x, HostTensor(Dtype::f32, {2, 0}));
  feeds.emplace(y, HostTensor(Dtype::f32, {0, 3}));
  const Value product = einsum("ij,jk->ik", {x, y});
  EXPECT_EQ(doubles_of(run_kernels({product}, feeds)[0]), Doubles(6, 0.0));
  EXPECT_EQ(run_kernels({gradients(reduce_sum(product), {x})[0]}, feeds)[0].shape(), (Shape{2, 0}));
}

TEST(Einsum, SumsWhatOneOperandAloneHasBeforeItMultiplies) {
  EXPECT_EQ(operations_of("ijl,jk->ik", {{kAny, 3, 2}, {3, 5}}),
            (std::map<std::string, int>{{"matmul", 1}, {"reduce", 1}}));
  EXPECT_EQ(operations_of("ij,kl->", {{4, 3}, {2, 5}}), (std::map<std::string, int>{{"mul", 1}, {"reduce", 2}}));
}

TEST(Einsum, OfSeveralTakesThePairFirstOfTheFewestMultiplications) {
  Graph graph;
  const Value a = placeholder(graph, "a", {100, 100}), b = placeholder(graph, "b", {100, 100});
  const Value v = placeholder(graph, "v", {100});
  const Value y = einsum("ij,jk,k->i", {a, b, v});
  // a (b v), and never a b.
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    EXPECT_TRUE(node.op().name != "matmul" || node.output_types()[0].shape.num_elements() == 100) << node.label();
  }
  EXPECT_EQ(y.shape(), (Shape{100}));
}

TEST(Einsum, OfOneOperandInItsOrderIsTheOperand) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kAny, 3});
  EXPECT_EQ(einsum("ij", {x}), x);
  EXPECT_EQ(einsum("...", {x}), x);
  EXPECT_EQ(graph.num_nodes(), 1);
}

TEST(Einsum, WithoutAnArrowHasEllipsisThenSingleLettersInOrder) {
  Graph graph;
  const auto shape = [&](const char* text, const std::vector<Shape>& shapes) {
    std::vector<Value> operands;
    for (const Shape& each : shapes) operands.push_back(placeholder(graph, "x", each));
    return einsum(text, operands).shape();
  };
  EXPECT_EQ(shape("ba", {{2, 3}}), (Shape{3, 2}));
  EXPECT_EQ(shape("bA", {{2, 3}}), (Shape{3, 2}));
  EXPECT_EQ(shape("ij,jk", {{2, 3}, {3, 4}}), (Shape{2, 4}));
  EXPECT_EQ(shape("kj,ji", {{2, 3}, {3, 4}}), (Shape{4, 2}));
  EXPECT_EQ(shape("z...a,...c", {{2, 5, 6, 3}, {6, 4}}), (Shape{5, 6, 3, 4, 2}));
  EXPECT_EQ(shape("ii", {{3, 3}}), (Shape{}));
  EXPECT_EQ(shape("", {{}}), (Shape{}));
  EXPECT_EQ(shape(",", {{}, {}}), (Shape{}));
}

TEST(Einsum, TakesNoNotNumbersFromBesideADiagonal) {
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 2});
  const Value y = einsum("ii->i", {x});
  testing_support::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2, 2}, {1, kNoNumber, kNoNumber, 4}));
  const std::vector<Value> fetches = {y, gradients(einsum("ii->", {x}), {x})[0]};
  const std::vector<HostTensor> found = run_kernels(fetches, feeds);
  EXPECT_EQ(doubles_of(found[0]), (Doubles{1, 4}));
  EXPECT_EQ(doubles_of(found[1]), (Doubles{1, 0, 0, 1}));
}

TEST(Einsum, OfUnknownSizesIsRefusedWhereSeveralWouldBeParted) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kAny, kAny, 2, 5}), w = placeholder(graph, "w", {2, 5, 6});
  const int before = graph.num_nodes();
  EXPECT_THAT(
      [&] {
        (void)einsum("bthd,hde->bthe", {x, w});
      },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("einsum 'bthd,hde->bthe'"), HasSubstr("'b', 't'"),
                                      HasSubstr("'x' times 'w'"), HasSubstr("one such at most"))));
  EXPECT_EQ(graph.num_nodes(), before);
  const Value one = placeholder(graph, "one", {kAny, 7, 2, 5});
  EXPECT_EQ(einsum("bthd,hde->bthe", {one, w}).shape(), (Shape{kAny, 7, 2, 6}));
  // Rows that lie behind the sum could be read as they are if they were not to be parted again.
  const Value behind = placeholder(graph, "behind", {4, kAny, kAny});
  EXPECT_EQ(einsum("kij,kl->ijl", {behind, placeholder(graph, "matrix", {4, 3})}).shape(), (Shape{kAny, kAny, 3}));
  // A size of 1 is added and left out, whatever is unknown.
  const Value column = placeholder(graph, "column", {kAny, 5});
  EXPECT_EQ(einsum("bti,bi->bt", {placeholder(graph, "rows", {kAny, kAny, 5}), column}).shape(), (Shape{kAny, kAny}));
}

}  // namespace
}  // namespace sectionflow::einsum_case
