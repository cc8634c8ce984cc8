// What einsum refuses: texts that are none, with the place, and operands that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "graph/einsum.h"
#include "graph/ops/basic.h"
#include "tests/graph/einsum_reference.h"

namespace sectionflow::einsum_case {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A text for operands of ranks 2 and 2, and what its refusal says.
struct WrongText {
  std::string text, says;
};

const WrongText kWrongTexts[] = {
    {"ij,j1->i", "character 5 is '1'; wanted a letter, '...', ',' or '->'"},
    {"ij,jk-i", "character 6 is '-'; wanted a letter, '...', ',' or '->'"},
    {"ij,jk>ik", "character 6 is '>'"},
    {"ij,jk=>ik", "character 6 is '='"},
    {"ij;jk->ik", "character 3 is ';'"},
    {"ij,jk->ik->i", "character 10 is '-'; wanted letters and '...' behind '->', and then the end"},
    {"ij,jk->i,k", "character 9 is ','; wanted letters and '...' behind '->'"},
    {"ij,jk->iq", "character 9 is 'q'; wanted an index of an operand: ijk"},
    {"ij,jk->i K", "character 10 is 'K'; wanted an index of an operand: ijk"},
    {"...,...->i", "character 10 is 'i'; wanted no index in the result, since no operand has one"},
    {"ij,jk->iki", "character 10 is 'i'; wanted each index of the result once"},
    {"..ij,jk", "character 1 is '.'; wanted '...', three points without space"},
    {". ..ij,jk", "character 1 is '.'; wanted '...'"},
    {"i.j,jk", "character 2 is '.'; wanted '...'"},
    {"ij,jk..", "character 6 is '.'; wanted '...'"},
    {"....ij,jk", "character 4 is '.'; wanted one '...' in a term"},
    {"...i...,jk", "character 5 is '.'; wanted one '...' in a term"},
    {"...j,jk->k", "the text ends after 10 characters; wanted '...' in the result, as in an operand"},
    {"ij,jk->...ik", "the text ends after 12 characters; wanted no '...' in the result, since no operand has it"},
    {std::string("ij,j\a->i"), "character 5 is '\\x07'"},
    {std::string("ij\0,jk", 6), "character 3 is '\\x00'"},
    {"ij,j\xc3\xa4->i", "einsum 'ij,j\\xc3\\xa4->i': character 5 is '\\xc3'"},
    {"ij", "2 operands for a text of 1; wanted as many"},
    {"ij,jk,kl", "2 operands for a text of 3; wanted as many"},
    {"ij,jk,", "2 operands for a text of 3"},
    {"", "2 operands for a text of 1"},
    {"->", "2 operands for a text of 1"},
};

TEST(EinsumText, ThatIsNoneIsRefusedWithThePlace) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), w = placeholder(graph, "w", {3, 4});
  for (const WrongText& wrong : kWrongTexts) {
    EXPECT_THAT(
        [&] {
          (void)einsum(wrong.text, {x, w});
        },
        ThrowsMessage<ArgumentError>(AllOf(HasSubstr("einsum '"), HasSubstr(wrong.says))))
        << wrong.text;
  }
  EXPECT_EQ(graph.num_nodes(), 2);
  EXPECT_TRUE(graph.scope_names().empty());
}

TEST(EinsumText, MayHaveWhiteSpaceBetweenItsParts) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), w = placeholder(graph, "w", {3, 4});
  for (const char* text : {"ij,jk->ki", " i j , j k -> k i ", "\ti\nj,jk\r->\v k\fi", "ij , jk->k i"}) {
    EXPECT_EQ(einsum(text, {x, w}).shape(), (Shape{4, 2})) << text;
  }
  EXPECT_EQ(einsum(" ... j , j k ", {x, w}).shape(), (Shape{2, 4}));
}

TEST(EinsumText, ThatIsLongIsQuotedByItsBeginning) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const std::string text(100000, '-');
  try {
    (void)einsum(text, {x});
    ADD_FAILURE();
  } catch (const ArgumentError& error) {
    EXPECT_LT(std::string(error.what()).size(), 400U);
    EXPECT_THAT(error.what(), HasSubstr("--...': character 1 is '-'"));
  }
}

TEST(EinsumText, OfManyLettersOrOperandsIsReadAsFastAsItIsLong) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  try {
    (void)einsum(std::string(1000000, 'a') + "b", {x});
    ADD_FAILURE();
  } catch (const ShapeError& error) {
    EXPECT_LT(std::string(error.what()).size(), 600U);
  }
  std::string text = "ab";
  for (int i = 1; i < 300; ++i) text += ",ab";
  EXPECT_EQ(einsum(text + "->ab", std::vector<Value>(300, x)).shape(), x.shape());
}

TEST(EinsumOperands, ThatDoNotFitAreRefusedByName) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), w = placeholder(graph, "w", {4, 5});
  const Value half = placeholder(graph, "half", {3, 4}, Dtype::bf16), whole = placeholder(graph, "n", {3}, Dtype::i32);
  const Value rows = placeholder(graph, "rows", {kDynamic, kDynamic}), row = placeholder(graph, "row", {3});
  const int before = graph.num_nodes();
  const auto says = [&](const char* text, const std::vector<Value>& operands, auto matcher) {
    EXPECT_THAT([&] { (void)einsum(text, operands); }, matcher) << text;
  };
  says("ij,jk->ik", {x, w},
       ThrowsMessage<ShapeError>(HasSubstr("index 'j' is 3 in operand 0 'x', f32[2,3], and 4 in operand 1 'w', "
                                           "f32[4,5]; wanted one size")));
  says("ii->i", {x}, ThrowsMessage<ShapeError>(HasSubstr("index 'i' is 2 in operand 0")));
  says("ii->i", {rows},
       ThrowsMessage<ShapeError>(
           AllOf(HasSubstr("'rows' is f32[?,?]"), HasSubstr("index 'i' twice"), HasSubstr("one known size"))));
  says("...i,...k->...", {x, w},
       ThrowsMessage<ShapeError>(AllOf(HasSubstr("axis -1 of '...' is 2"), HasSubstr("4 in operand 1"))));
  says("ijk->i", {x},
       ThrowsMessage<ShapeError>(
           AllOf(HasSubstr("operand 0 'x' is f32[2,3]"), HasSubstr("wanted rank 3"), HasSubstr("'ijk'"))));
  says("i->i", {x}, ThrowsMessage<ShapeError>(HasSubstr("wanted rank 1, an axis")));
  says("i...jk->i...", {x}, ThrowsMessage<ShapeError>(HasSubstr("wanted rank 3 or more")));
  says("ij,jk->ik", {x, half},
       ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'half' is bf16[3,4]"), HasSubstr("wanted one dtype"))));
  says("ij,j->i", {x, whole}, ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'n' is i32[3]"), HasSubstr("wanted f32"))));
  EXPECT_NO_THROW((void)graph.tried([&] { return einsum("ij,j->i", {rows, row}); }));
  EXPECT_THROW(einsum("ij", {}), ArgumentError);
  EXPECT_THROW(einsum("ij", {Value()}), ArgumentError);
  EXPECT_THROW(einsum("ij,jk", {x, Value()}), ArgumentError);
  Graph other;
  EXPECT_THROW(einsum("ij,jk", {x, placeholder(other, "other", {3, 4})}), ArgumentError);
  EXPECT_EQ(other.num_nodes(), 1);
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(graph.scope_names().empty());
}

TEST(EinsumText, OfRandomCharactersIsAnEinsumOrRefusedAndAddsNothing) {
  const std::uint32_t seed = seed_or(104);
  SCOPED_TRACE(text_of("SECTIONFLOW_TEST_SEED=", seed));
  std::mt19937 random(seed);
  Graph graph;
  const std::vector<Value> values = {placeholder(graph, "a", {2, 2}), placeholder(graph, "b", {2, 2, 2}),
                                     placeholder(graph, "c", {}), placeholder(graph, "d", {kDynamic, 2})};
  const std::string usual = "iijjkb,,.->A ";
  int taken = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text;
    for (std::size_t left = random() % 12; left > 0; --left) {
      const std::size_t kind = random() % 24;
      if (kind == 0) {
        text += static_cast<char>(random() % 256);
      } else if (kind < 4) {
        text += kind == 1 ? "..." : (kind == 2 ? "->" : ",");
      } else {
        text += usual[random() % usual.size()];
      }
    }
    std::vector<Value> operands;
    for (std::size_t left = 1 + random() % 3; left > 0; --left) operands.push_back(values[random() % values.size()]);
    const int before = graph.num_nodes();
    try {
      (void)graph.tried([&] { return einsum(text, operands); });
      ++taken;
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("einsum '"));
      EXPECT_THAT(error.what(), HasSubstr("wanted "));
    } catch (const ShapeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("wanted "));
    }
    ASSERT_EQ(graph.num_nodes(), before) << text;
    ASSERT_FALSE(testing::Test::HasFailure()) << text;
  }
  EXPECT_GT(taken, 300);
}

TEST(EinsumTexts, OfTooManyAxesAreRefused) {
  Graph graph;
  const Value a = placeholder(graph, "a", Shape(std::vector<std::int64_t>(9, 1)));
  const Value b = placeholder(graph, "b", Shape(std::vector<std::int64_t>(8, 1)));
  EXPECT_THAT(
      [&] {
        (void)einsum("abcdefghi,jklmnopq->abcdefghijklmnopq", {a, b});
      },
      ThrowsMessage<ShapeError>(
          AllOf(HasSubstr("'a' times 'b' has 17 axes"), HasSubstr("Shape::kMaxRank, 16, at most"))));
}

}  // namespace
}  // namespace sectionflow::einsum_case
