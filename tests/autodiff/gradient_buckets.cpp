// Which gradients ranks sum in one exchange.

#include "autodiff/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"

namespace sectionflow::bucket_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kSmall = 1024, kLarge = static_cast<std::int64_t>(kLargeGradient / sizeof(float));

/// Pairs of variables of so many elements, each in a section of these, whose gradients are made from the last to the
/// first.
struct Gradients {
  Value add(std::int64_t elements, GroupId section) {
    const auto group = graph.enter_group(section);
    variables.push_back(variable("v", fill(graph, {elements}, 0)));
    return variables.back();
  }
  std::vector<std::vector<std::size_t>> buckets() {
    std::vector<GradientAndVariable> pairs(variables.size());
    for (std::size_t i = variables.size(); i-- > 0;) {
      const auto group = graph.enter_group(variables[i].node().group());
      pairs[i] = {variables[i] * 2.0F, variables[i]};
    }
    return gradient_buckets(pairs);
  }

  Graph graph;
  GroupId first = graph.new_group("first"), second = graph.new_group("second");
  std::vector<Value> variables;
};

TEST(GradientBuckets, AreOfSmallGradientsOfOneSectionInTheOrderOfTheBackwardPass) {
  Gradients of;
  for (const GroupId section : {of.first, of.first, of.second, of.second, of.second}) of.add(kSmall, section);
  EXPECT_THAT(of.buckets(), ElementsAre(ElementsAre(4, 3, 2), ElementsAre(1, 0)));
}

TEST(GradientBuckets, ALargeGradientIsSummedAloneAsSoonAsItIsThere) {
  Gradients of;
  for (const std::int64_t elements : {kSmall, kLarge, kSmall, kLarge}) of.add(elements, of.first);
  EXPECT_THAT(of.buckets(), ElementsAre(ElementsAre(3), ElementsAre(1), ElementsAre(2, 0)));
}

TEST(GradientBuckets, NoneOfSeveralGradientsIsLargerThanTheMost) {
  Gradients of;
  for (int i = 0; i < 5; ++i) of.add(kLarge - 1, of.first);
  EXPECT_THAT(of.buckets(), ElementsAre(ElementsAre(4, 3), ElementsAre(2, 1), ElementsAre(0)));
}

TEST(GradientBuckets, OfNothingAreNone) {
  EXPECT_THAT(gradient_buckets({}), IsEmpty());
}

}  // namespace
}  // namespace sectionflow::bucket_tests
