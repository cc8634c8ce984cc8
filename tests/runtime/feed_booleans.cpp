// What is taken for a boolean, and for a type, where a placeholder is fed or planned for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bitset>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "graph/ops/basic.h"
#include "runtime/feeds.h"

namespace sectionflow {
namespace {

/// Whether a placeholder may be fed with it, and is planned for with it, as with a boolean.
template <class Object>
using CanBeFed = std::is_constructible<Feed, Value, Object>;
template <class Object>
using CanBePlanned = std::is_constructible<FeedType, Value, Object>;
template <class Object>
constexpr bool kIsBoolean = CanBeFed<Object>::value&& CanBePlanned<Object>::value;
template <class Object>
constexpr bool kIsNoFeedType = !CanBePlanned<Object>::value;

enum class Answer : bool { no, yes };
enum Switch : bool { off, on };
enum Choice { first, second };
struct ToInteger {
  operator int() const { return 7; }  // NOLINT: what is tested
};
struct ToBooleanAndInteger {
  operator bool() const { return true; }  // NOLINT
  operator int() const { return 7; }      // NOLINT
};
struct ToBooleanIfAsked {
  explicit operator bool() const { return true; }
};

static_assert(kIsBoolean<bool> && kIsBoolean<std::vector<bool>::reference> && kIsBoolean<std::bitset<4>::reference> &&
              kIsBoolean<std::true_type> && kIsBoolean<std::atomic<bool>&> &&
              kIsBoolean<std::reference_wrapper<bool>> && kIsBoolean<Switch>);
static_assert(kIsNoFeedType<int> && kIsNoFeedType<double> && kIsNoFeedType<char> && kIsNoFeedType<unsigned> &&
              kIsNoFeedType<std::integral_constant<int, 5>> && kIsNoFeedType<std::reference_wrapper<int>> &&
              kIsNoFeedType<std::atomic<int>&> && kIsNoFeedType<ToInteger> && kIsNoFeedType<ToBooleanAndInteger>);
static_assert(kIsNoFeedType<decltype([] {})> && kIsNoFeedType<const char*> && kIsNoFeedType<std::nullptr_t> &&
              kIsNoFeedType<ToBooleanIfAsked> && kIsNoFeedType<std::optional<bool>> && kIsNoFeedType<Answer> &&
              kIsNoFeedType<Choice>);

TEST(Feeds, WhatStandsForABooleanIsFedAndPlannedForAsOne) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  std::vector<bool> list = {false, true};
  std::atomic<bool> atomic = true;
  const Feeds feeds = {{flag, list[1]}, {flag, list[0]}, {flag, std::true_type{}}, {flag, atomic}, {flag, on}};
  const FeedTypes types = {{flag, list[1]}, {flag, list[0]}, {flag, std::true_type{}}, {flag, atomic}, {flag, on}};
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    EXPECT_EQ(feeds[i].data.type(), (TensorType{Dtype::boolean, {}}));
    EXPECT_EQ(*feeds[i].data.bytes() != std::byte{0}, i != 1);
    EXPECT_EQ(types[i].boolean, i != 1);
  }
}

TEST(Feeds, ATensorIsPlannedForByItsType) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3}), labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  const HostTensor rows(Dtype::f32, {2, 3}), numbers(Dtype::i32, {2});
  const FeedTypes types = {{x, rows.type()}, {labels, numbers.type()}};
  EXPECT_EQ(types[0].shape, (Shape{2, 3}));
  EXPECT_EQ(types[1].shape, Shape{2});
  EXPECT_THAT([&] { (void)FeedType(labels, rows.type()); },
              testing::ThrowsMessage<ArgumentError>(testing::HasSubstr(
                  "SF-E304 ArgumentError: feed type of 'labels' is f32[2,3], the placeholder i32[?]")));
}

}  // namespace
}  // namespace sectionflow
