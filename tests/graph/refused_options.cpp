// Options that no operation takes: enumerations that hold none of their values, images in the other format, numbers
// that are too large. Each is refused when the call is made, by name, and leaves the graph as it was.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/layers.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/ops/resize.h"
#include "graph/ops/unary.h"
#include "tests/graph/description.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max(), kTooMuch = std::int64_t{1} << 33;

class RefusedOptions : public testing::Test {
 protected:
  /// The error's text, which has all of `parts`.
  template <class Wanted>
  void expect_refused(const std::function<void()>& call, const std::vector<std::string>& parts) {
    const auto before = testing_support::description(graph_);
    std::string text;
    try {
      call();
    } catch (const Wanted& error) {
      text = error.what();
    }
    for (const std::string& part : parts) EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
    EXPECT_EQ(testing_support::description(graph_), before);
  }

  Graph graph_;
  Value x_ = placeholder(graph_, "x", {2, 8, 8, 3}), w_ = placeholder(graph_, "w", {3, 3, 3, 4});
  Value per_channel_ = placeholder(graph_, "c", {3}), training_ = graph_.training();
};

// ---- Enumerations.

TEST_F(RefusedOptions, AFormatThatIsNoneIsRefusedByEveryCall) {
  const auto none = static_cast<DataFormat>(7);
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"conv2d 'conv2d'", [&] { conv2d(x_, {.features = 4, .format = none}); }},
      {"conv2d 'conv2d'", [&] { conv2d(x_, w_, {.format = none}); }},
      {"conv_transpose2d 'up'", [&] { conv_transpose2d(x_, {.features = 4, .format = none, .name = "up"}); }},
      {"batch_norm 'bn'", [&] { batch_norm(x_, {.format = none, .name = "bn"}); }},
      {"batch_norm 'batch_norm'",
       [&] { batch_norm(x_, per_channel_, per_channel_, per_channel_, per_channel_, training_, {.format = none}); }},
      {"bias_add 'bias_add'", [&] { bias_add(x_, per_channel_, {.format = none}); }},
      {"max_pool2d 'max_pool2d'", [&] { max_pool2d(x_, {.format = none}); }},
      {"average_pool2d 'average_pool2d'", [&] { average_pool2d(x_, {.format = none}); }},
      {"global_max_pool2d", [&] { global_max_pool2d(x_, none); }},
      {"global_average_pool2d", [&] { global_average_pool2d(x_, none); }},
      {"resize2d 'resize2d'", [&] { resize2d(x_, {.height = 4, .width = 4, .format = none}); }},
  };
  for (const auto& [label, call] : calls) {
    expect_refused<ArgumentError>(call, {text_of("SF-E010 ArgumentError: ", label,
                                                 ": format is 7, which is none of "
                                                 "its values; wanted nhwc or nchw"),
                                         "where:", "inputs:  'x' f32[2,8,8,3]"});
  }
}

TEST_F(RefusedOptions, OtherEnumerationsThatHoldNoneOfTheirValuesAreRefused) {
  expect_refused<ArgumentError>([&] { gelu(x_, {.approximation = static_cast<Gelu>(2)}); },
                                {"gelu 'gelu': approximation is 2", "exact or tanh"});
  expect_refused<ArgumentError>(
      [&] { resize2d(x_, {.height = 4, .width = 4, .method = static_cast<ResizeMethod>(-1)}); },
      {"resize2d 'resize2d': method is -1", "wanted nearest or bilinear"});
  const Value q = placeholder(graph_, "q", {2, 4, 8, 3});
  expect_refused<ArgumentError>(
      [&] { attention(q, q, q, {.causal = true, .alignment = static_cast<CausalAlignment>(9)}); }, {"alignment is 9"});
}

TEST_F(RefusedOptions, ADtypeThatIsNoneIsRefused) {
  const auto none = static_cast<Dtype>(99);
  expect_refused<ArgumentError>([&] { (void)placeholder(graph_, "p", {2}, none); },
                                {"placeholder 'p': type is 99", "wanted f32, f64, i32, i64, u8, bool or bf16"});
  expect_refused<ArgumentError>([&] { cast(x_, none); }, {"cast 'cast': dtype is 99"});
  expect_refused<ArgumentError>([&] { (void)fill(graph_, {2}, 1, none); }, {"fill 'fill': type is 99"});
  expect_refused<ArgumentError>([&] { const MixedPrecision precision(graph_, none); }, {"dtype 99 is none"});
  expect_refused<ArgumentError>([&] { HostTensor tensor(none, {2}); }, {"dtype 99 is none"});
}

// ---- Images in the other format.

TEST_F(RefusedOptions, AnImageInTheOtherFormatIsRefusedWithAHint) {
  const Value image = placeholder(graph_, "image", {2, 3, 8, 8});
  const Value open = placeholder(graph_, "open", {kDynamic, 3, kDynamic, kDynamic});
  const std::string hint = "hint:    as an image of DataFormat::nchw it would fit: if it is one, say so in .format";
  const std::string inputs = "inputs:  'image' f32[2,3,8,8] (placeholder)";
  expect_refused<ShapeError>(
      [&] { conv2d(image, w_); },
      {"conv2d 'conv2d': input [2,3,8,8] has 8 channels, filter [3,3,3,4] wants 3", hint, inputs});
  expect_refused<ShapeError>(
      [&] { conv2d(image, {.features = 4, .kernel = 5, .padding = Padding::valid, .name = "first"}); },
      {"conv2d 'first': kernel of 5 is larger than the padded image of 3", hint, inputs});
  expect_refused<ShapeError>([&] { conv2d(open, {.features = 4}); }, {"wanted [N, H, W, C] with C known", hint});
  expect_refused<ShapeError>([&] { max_pool2d(image, {.window = 4, .padding = Padding::valid}); },
                             {"max_pool2d 'max_pool2d': ", hint, inputs});
  expect_refused<ShapeError>([&] { batch_norm(open); }, {"wanted [..., C] with C known", hint});
  expect_refused<ShapeError>(
      [&] { batch_norm(image, per_channel_, per_channel_, per_channel_, per_channel_, training_, {}); },
      {hint, inputs});
  expect_refused<ShapeError>([&] { bias_add(image, per_channel_); }, {"[..., C]", hint, inputs});
  // And the other way round.
  expect_refused<ShapeError>([&] { conv2d(x_, w_, {.format = DataFormat::nchw}); },
                             {"has 8 channels", "as an image of DataFormat::nhwc it would fit"});
}

TEST_F(RefusedOptions, NoFormatIsHintedAtThatWouldNotDo) {
  const Value five = placeholder(graph_, "five", {2, 5, 8, 8});
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { conv2d(five, w_); },
           [&] { bias_add(five, per_channel_); },
           [&] { conv2d(five, {.features = 4, .kernel = 9, .padding = Padding::valid}); },
       }) {
    try {
      call();
      ADD_FAILURE() << "not refused";
    } catch (const ShapeError& error) {
      EXPECT_FALSE(contains(error.what(), "DataFormat")) << error.what();
      EXPECT_TRUE(contains(error.what(), "inputs:  'five'")) << error.what();
    }
  }
}

TEST_F(RefusedOptions, WhatALayerRefusesNamesItsInputs) {
  const Value one = placeholder(graph_, "one", {7}), scalar = placeholder(graph_, "scalar", {});
  expect_refused<ShapeError>([&] { dense(one, {.features = 4}); }, {"dense 'dense' got [7]", "inputs:  'one' f32[7]"});
  expect_refused<ShapeError>([&] { layer_norm(scalar); }, {"inputs:  'scalar' f32[]"});
  expect_refused<ArgumentError>([&] { embedding(one, {.vocabulary = 3, .width = 2}); }, {"inputs:  'one' f32[7]"});
  expect_refused<ShapeError>([&] { global_max_pool2d(one); }, {"inputs:  'one' f32[7]"});
}

// ---- Numbers that are too large.

TEST_F(RefusedOptions, StepsBeyondWhatKernelsTakeAreRefusedWhenTheyAreMade) {
  const std::string most = "wanted at most 2147483647 along each axis";
  expect_refused<ArgumentError>([&] { conv2d(x_, w_, {.stride = kTooMuch}); },
                                {"conv2d 'conv2d': stride {8589934592, 8589934592}", most, "inputs:"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x_, {.features = 4, .kernel = 1, .dilation = {1, kTooMuch}, .name = "c"});
      },
      {"conv2d 'c': dilation {1, 8589934592}", most});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x_, w_, {.padding = {kLargest, 0}});
      },
      {"conv2d 'conv2d': padding before of {9223372036854775807, 0}", most});
  expect_refused<ArgumentError>([&] { conv2d(x_, {.features = 4, .kernel = kTooMuch}); }, {"kernel", most});
  expect_refused<ArgumentError>([&] { max_pool2d(x_, {.window = 2, .stride = kTooMuch}); },
                                {"max_pool2d 'max_pool2d': stride", most});
  expect_refused<ArgumentError>([&] { conv_transpose2d(x_, {.features = 4, .stride = kTooMuch}); },
                                {"conv_transpose2d 'conv_transpose2d': stride", most});
  const std::int64_t kMost = 2147483647;
  expect_refused<ArgumentError>(
      [&] { conv2d(x_, w_, {.dilation = kMost}); },
      {"conv2d 'conv2d': kernel of 4294967295 (with its dilation)", "wanted at most 2147483647"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x_, w_, {.stride = kMost, .padding = {kMost, kMost}});
      },
      {"padding of 2147483647 and 2147483647; wanted at most 2147483647 of either"});
  EXPECT_EQ(conv2d(x_, w_, {.stride = 2147483647}).shape(), (Shape{2, 1, 1, 4}));
}

TEST_F(RefusedOptions, SizesThatDoNotFit64BitsNameTheOperation) {
  const Value huge = placeholder(graph_, "huge", {1, std::int64_t{1} << 62, 1, 3});
  const Value volume = placeholder(graph_, "volume", {1, 1, 1, 1, 1});
  const std::string hint = "hint:    look for a dimension or an option";
  expect_refused<ShapeError>([&] { conv_transpose2d(huge, {.features = 4, .stride = 4, .name = "up"}); },
                             {"conv_transpose2d 'up': size 4611686018427387904 x 4 is negative or does not fit 64 bits",
                              hint, "inputs:  'huge'"});
  const Value w = placeholder(graph_, "w", {1, 1, 3, 1 << 20});
  expect_refused<ShapeError>(
      [&] {
        conv2d(x_, w, {.padding = {1 << 29, 1 << 29}});
      },
      {"conv2d 'conv2d': size ", "does not fit 64 bits", hint, "inputs:  'x'"});
  expect_refused<ShapeError>([&] { max_pool3d(volume, {.window = 2147483647, .padding = Padding3d::same}); },
                             {"max_pool3d 'max_pool3d': size", "does not fit 64 bits", hint});
  expect_refused<ShapeError>([&] { pad(per_channel_, {.before = {kLargest}, .after = {0}}); },
                             {"pad 'pad': size 3 + 9223372036854775807 does not fit 64 bits", hint});
}

}  // namespace
}  // namespace sectionflow
