// What feeds decide: einsum holds the size of each letter in all operands that have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/einsum.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"

namespace sectionflow::einsum_case {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kDecidedByFeed = kDynamic;

/// Operands as the graph knows them and as they are fed.
struct FedCase {
  std::string text;
  std::vector<Shape> known, fed;
};

/// The shape of the result; the text of the refusal of a feed.
std::string result_of(const FedCase& fed) {
  Graph graph;
  std::vector<Value> operands;
  Feeds feeds;
  for (std::size_t i = 0; i < fed.known.size(); ++i) {
    operands.push_back(placeholder(graph, text_of("x", i), fed.known[i]));
    feeds.emplace_back(operands.back(), HostTensor(Dtype::f32, fed.fed[i]));
  }
  const Value y = einsum(fed.text, operands);
  Session session(graph, {.threads = 1});
  session.initialize();
  try {
    return session.run({y}, feeds)[0].shape().text();
  } catch (const ShapeError& error) {
    return error.what();
  }
}

TEST(EinsumOfFeeds, RefusesTwoSizesOfOneLetter) {
  struct Refused {
    FedCase fed;
    const char *index, *sizes;
  };
  const Refused all[] = {
      // The product of two summed axes is one.
      {{"abc,abd->cd",
        {{kDecidedByFeed, kDecidedByFeed, 3}, {kDecidedByFeed, kDecidedByFeed, 5}},
        {{2, 6, 3}, {3, 4, 5}}},
       "'a'",
       "is 2 in f32[2,6,3], 3 in"},
      {{"ab,ab->", {{kDecidedByFeed, kDecidedByFeed}, {kDecidedByFeed, kDecidedByFeed}}, {{2, 6}, {6, 2}}},
       "'a'",
       "is 2 in f32[2,6], 6 in"},
      {{"ab,ba->", {{kDecidedByFeed, kDecidedByFeed}, {kDecidedByFeed, kDecidedByFeed}}, {{2, 6}, {4, 3}}},
       "'a'",
       "is 2 in f32[2,6], 3 in"},
      // A 1 would be repeated.
      {{"ab,ab->ab", {{kDecidedByFeed, 3}, {kDecidedByFeed, 3}}, {{1, 3}, {4, 3}}}, "'a'", "is 1 in f32[1,3], 4 in"},
      {{"ab,a->ab", {{kDecidedByFeed, 3}, {kDecidedByFeed}}, {{4, 3}, {1}}}, "'a'", "is 4 in f32[4,3], 1 in"},
      {{"ab,ab->ab", {{4, 3}, {kDecidedByFeed, 3}}, {{4, 3}, {1, 3}}}, "'a'", "is 1 in f32[1,3], 4 in"},
      {{"...a,...a->...a", {{kDecidedByFeed, kDecidedByFeed}, {4, kDecidedByFeed}}, {{4, 1}, {4, 3}}},
       "'a'",
       "is 1 in f32[4,1], 3 in"},
      // One operand knows, of three.
      {{"ab,ab,ab->ab", {{kDecidedByFeed, 3}, {kDecidedByFeed, 3}, {4, 3}}, {{4, 3}, {1, 3}, {4, 3}}},
       "'a'",
       "is 1 in f32[1,3], 4 in"},
      {{"ab,a,a->b", {{kDecidedByFeed, 3}, {kDecidedByFeed}, {kDecidedByFeed}}, {{4, 3}, {4}, {1}}}, "'a'", "4"},
      // What matmul holds too.
      {{"ab,bc->ac", {{2, kDecidedByFeed}, {kDecidedByFeed, 5}}, {{2, 3}, {4, 5}}}, "'b'", "is 3 in f32[2,3], 4 in"},
      {{"bij,bjk->bik", {{kDecidedByFeed, 2, 3}, {kDecidedByFeed, 3, 4}}, {{1, 2, 3}, {5, 3, 4}}},
       "'b'",
       "is 1 in f32[1,2,3], 5 in"},
      {{"...a,...a->...a", {{kDecidedByFeed, 3}, {4, 3}}, {{5, 3}, {4, 3}}},
       "axis -1 of '...'",
       "is 5 in f32[5,3], 4 in"},
  };
  for (const Refused& each : all) {
    EXPECT_THAT(result_of(each.fed),
                AllOf(HasSubstr("einsum '" + each.fed.text + "': index " + each.index), HasSubstr(each.sizes)));
  }
}

TEST(EinsumOfFeeds, TakesOneSizeOfEachLetter) {
  EXPECT_EQ(result_of({"abc,abd->cd",
                       {{kDecidedByFeed, kDecidedByFeed, 3}, {kDecidedByFeed, kDecidedByFeed, 5}},
                       {{2, 6, 3}, {2, 6, 5}}}),
            "[3,5]");
  EXPECT_EQ(
      result_of({"ab,ba->", {{kDecidedByFeed, kDecidedByFeed}, {kDecidedByFeed, kDecidedByFeed}}, {{2, 6}, {6, 2}}}),
      "[]");
  EXPECT_EQ(result_of({"ab,ab->ab", {{4, kDecidedByFeed}, {kDecidedByFeed, 3}}, {{4, 3}, {4, 3}}}), "[4,3]");
  EXPECT_EQ(result_of({"...a,...a->...a", {{kDecidedByFeed, 3}, {kDecidedByFeed, 3}}, {{1, 3}, {4, 3}}}), "[4,3]")
      << "'...' is repeated";
  EXPECT_EQ(result_of({"aa,ab->b", {{kDecidedByFeed, kDecidedByFeed}, {4, 3}}, {{4, 4}, {4, 3}}}), "[3]");
}

TEST(EinsumOfFeeds, KnowsOfEachOperandWhatAnotherKnows) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDecidedByFeed, kDecidedByFeed, 2, 5}),
              w = placeholder(graph, "w", {2, 5, 6});
  const Value lengths = placeholder(graph, "lengths", {kDecidedByFeed, 7});
  EXPECT_EQ(einsum("bthd,hde,bt->bthe", {x, w, lengths}).shape(), (Shape{kDecidedByFeed, 7, 2, 6}));
  const Value a = placeholder(graph, "a", {kDecidedByFeed, 3}), b = placeholder(graph, "b", {4, kDecidedByFeed});
  EXPECT_EQ(einsum("ij,ij->ij", {a, b}).shape(), (Shape{4, 3}));
}

}  // namespace
}  // namespace sectionflow::einsum_case
