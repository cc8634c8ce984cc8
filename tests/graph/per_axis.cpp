// Options with a number an axis: one number means all axes, and fewer than all are no number at all.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/pool.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

TEST(PerAxis, OneNumberMeansAllAxes) {
  EXPECT_EQ(PerAxis<2>(2), (PerAxis<2>{2, 2}));
  EXPECT_EQ(PerAxis<3>{4}, (PerAxis<3>{4, 4, 4}));
  const Padding one = 1;
  EXPECT_EQ(one.kind(), PaddingKind::fixed);
  EXPECT_EQ(one.before(), PerAxis<2>(1));
  EXPECT_EQ(one.after(), PerAxis<2>(1));
  const Padding3d before_and_after({1, 0, 2}, 3);
  EXPECT_EQ(before_and_after.before(), (PerAxis<3>{1, 0, 2}));
  EXPECT_EQ(before_and_after.after(), PerAxis<3>(3));
}

TEST(PerAxis, NumbersMayBeSetOneByOne) {
  Pool3dOptions options{.window = 2};
  options.window[1] = 3;
  for (std::int64_t& stride : options.stride) stride = 4;
  EXPECT_EQ(options.window, (PerAxis<3>{2, 3, 2}));
  EXPECT_EQ(options.stride, PerAxis<3>(4));
  EXPECT_EQ(options.window.size(), 3U);
}

static_assert(!std::is_constructible_v<PerAxis<3>, int, int>, "two of three numbers are a mistake");
static_assert(!std::is_constructible_v<PerAxis<2>, int, int, int>);
static_assert(!std::is_constructible_v<PerAxis<2>, double>, "axes are counted in whole elements");
static_assert(!std::is_constructible_v<Padding3d, int, int>);

constexpr PerAxis<3> written_one_by_one() {
  PerAxis<3> numbers;
  for (auto& number : numbers) number = 1;
  numbers[numbers.size() - 1] = 2;
  return numbers;
}
static_assert(written_one_by_one() == PerAxis<3>(1, 1, 2), "as an array is");

TEST(PerAxis, LayersAndOperationsTakeOneNumberOrOneAnAxis) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 3}), x3 = placeholder(graph, "x3", {2, 8, 8, 8, 3});
  const Value w = placeholder(graph, "w", {3, 3, 3, 4}), w3 = placeholder(graph, "w3", {3, 3, 3, 3, 4});
  const auto shape = [](Value value) { return value.shape().text(); };
  EXPECT_EQ(shape(conv2d(x, {.features = 4, .kernel = 5, .stride = 2})), "[2,4,4,4]");
  EXPECT_EQ(shape(conv2d(x, {.features = 4, .kernel = {1, 3}, .stride = {2, 1}})), "[2,4,8,4]");
  EXPECT_EQ(shape(conv2d(x, {.features = 4, .kernel = 3, .padding = 0, .dilation = 2})), "[2,4,4,4]");
  EXPECT_EQ(shape(conv2d(x, w, {.stride = 2, .padding = 1})), "[2,4,4,4]");
  EXPECT_EQ(shape(conv3d(x3, {.features = 4, .kernel = 3, .stride = 2})), "[2,4,4,4,4]");
  EXPECT_EQ(shape(conv3d(x3, w3, {.stride = {1, 2, 4}, .padding = {1, 1, 1}})), "[2,8,4,2,4]");
  EXPECT_EQ(shape(conv_transpose2d(x, {.features = 4, .kernel = 2, .stride = 2})), "[2,16,16,4]");
  EXPECT_EQ(shape(conv_transpose2d(x, {.features = 4, .stride = 2, .padding = 1, .output_padding = 1})), "[2,16,16,4]");
  EXPECT_EQ(shape(conv_transpose3d(x3, {.features = 4, .kernel = 2, .stride = 2})), "[2,16,16,16,4]");
  EXPECT_EQ(shape(max_pool2d(x, {.window = 4, .stride = 4})), "[2,2,2,3]");
  EXPECT_EQ(shape(average_pool3d(x3, {.window = 2, .stride = {2, 4, 8}})), "[2,4,2,1,3]");
  // The kernel that a layer makes.
  (void)conv2d(x, {.features = 4, .kernel = 5, .name = "five"});
  EXPECT_EQ(shape(graph.find("five/kernel").output()), "[5,5,3,4]");
}

TEST(PerAxis, ErrorsShowTheNumbersOfAllAxes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 8, 8, 3});
  const auto text = [](const auto& call) { return error_text<Error>(call); };
  const std::pair<std::string, std::string> texts[] = {{text([&] {
                                                          conv2d(x, {.features = 4, .stride = {2, 0}});
                                                        }),
                                                        "stride {2, 0}; wanted 1 or more along each axis"},
                                                       {text([&] {
                                                          conv2d(x, {.features = 4, .dilation = {0, 2}});
                                                        }),
                                                        "dilation {0, 2}"},
                                                       {text([&] {
                                                          conv2d(x, {.features = 4, .kernel = {3, 0}});
                                                        }),
                                                        "{3, 0}"},
                                                       {text([&] {
                                                          max_pool2d(x, {.window = {2, -1}});
                                                        }),
                                                        "window of {2, -1}"}};
  for (const auto& [found, part] : texts) EXPECT_TRUE(contains(found, part)) << "wanted " << part << " in: " << found;
}

}  // namespace
}  // namespace sectionflow
