#include "runtime/feeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/check_feeds.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// y = relu(x) + bias over a batch of unknown size, with a boolean that nothing reads.
struct ScaledRelu {
  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic, 3});
  Value scale = placeholder(graph, "scale", {});
  Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  Value y = relu(x) * scale;
  Session session{graph, {.device_memory = 1_MiB, .threads = 1, .check_schedules = true}};

  ScaledRelu() { session.initialize(); }
  std::vector<float> run(const Feeds& feeds) {
    const HostTensor result = session.run(y, feeds);
    return {result.values<float>().begin(), result.values<float>().end()};
  }
};

HostTensor rows(std::int64_t count) {
  HostTensor tensor(Dtype::f32, {count, 3});
  auto values = tensor.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 2;
  return tensor;
}

/// Feeds of a tensor that is gone when they are fed.
Feeds made_elsewhere(const ScaledRelu& f) {
  const HostTensor tensor = rows(2);
  return {{f.x, tensor}, {f.scale, HostTensor::scalar(2.0F)}};
}

TEST(Feeds, MayBeMadeByAFunctionFromTensorsOfItsOwn) {
  ScaledRelu f;
  const Feeds feeds = made_elsewhere(f);
  std::vector<HostTensor> others;  // of the same size: they would lie where the tensor was
  for (int i = 0; i < 8; ++i) others.push_back(HostTensor(Dtype::f32, {2, 3}));
  EXPECT_EQ(f.run(feeds), (std::vector<float>{0, 0, 0, 2, 4, 6}));
}

TEST(Feeds, OfATensorThatWasMovedOrReplacedKeepItsBytes) {
  ScaledRelu f;
  HostTensor tensor = rows(2);
  const Feeds feeds = {{f.x, tensor}, {f.scale, 1.0F}};
  tensor = HostTensor(Dtype::f32, {2, 3});
  EXPECT_EQ(f.run(feeds), (std::vector<float>{0, 0, 0, 1, 2, 3}));
}

TEST(Feeds, AreNotCopies) {
  ScaledRelu f;
  HostTensor tensor = rows(2);
  const Feeds feeds = {{f.x, tensor}, {f.scale, 1.0F}};
  EXPECT_EQ(feeds[0].data.bytes(), tensor.bytes());
  tensor.values<float>()[0] = 9;
  EXPECT_EQ(f.run(feeds)[0], 9) << "what is written before the run is fed";
}

TEST(Feeds, ANumberIsRoundedToTheDtypeOfItsPlaceholder) {
  Graph graph;
  const Value single = placeholder(graph, "single", {}), narrow = placeholder(graph, "narrow", {}, Dtype::bf16),
              twice = placeholder(graph, "twice", {}, Dtype::f64), whole = placeholder(graph, "whole", {}, Dtype::i32);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  const double number = 0.001;
  EXPECT_EQ(session.run(single, {{single, number}}).item<float>(), 0.001F);
  EXPECT_EQ(session.run(single, {{single, 0.001}}).item<float>(), 0.001F);
  EXPECT_EQ(session.run(twice, {{twice, 0.001}}).item<double>(), 0.001);
  EXPECT_EQ(session.run(narrow, {{narrow, 0.001}}).item<BFloat16>().bits, BFloat16(0.001F).bits);
  EXPECT_TRUE(std::isinf(session.run(single, {{single, HUGE_VAL}}).item<float>()));
  // What would change more than a rounding is refused.
  EXPECT_THAT(
      ([&] {
        session.run(single, {{single, 1e300}});
      }),
      ThrowsMessage<ArgumentError>(
          AllOf(HasSubstr("SF-E304"), HasSubstr("is 1e+300, which is out of the range of f32[]"), HasSubstr("hint:"))));
  EXPECT_THAT(([&] {
                session.run(narrow, {{narrow, -1e39}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("is -1e+39, which is out of the range of bf16[]")));
  EXPECT_THAT(([&] {
                session.run(whole, {{whole, 1.0}});
              }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("is f64[]; wanted i32[]"), HasSubstr("without a point"))));
  // Nothing but a number that is written out: tensors keep their dtype.
  EXPECT_THROW(session.run(single, {{single, HostTensor::scalar(0.001)}}), ArgumentError);
}

TEST(Feeds, ANumberIsRoundedOnce) {
  Graph graph;
  const Value narrow = placeholder(graph, "narrow", {}, Dtype::bf16);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  // Beside the middle of 1 and its neighbour in bf16, which is where f32 would put them.
  constexpr double kStep = 0x1p-7, kLittle = 0x1p-40;
  for (const auto& [number, wanted] : {std::pair(1 + kStep / 2 + kLittle, 1 + kStep),
                                       {1 + kStep / 2 - kLittle, 1.0},
                                       {1 + kStep / 2, 1.0},
                                       {1 + kStep * 3 / 2 - kLittle, 1 + kStep},
                                       {1 + kStep * 3 / 2 + kLittle, 1 + kStep * 2},
                                       {1 + kStep * 3 / 2, 1 + kStep * 2}}) {
    for (const double sign : {1.0, -1.0}) {
      EXPECT_EQ(session.run(narrow, {{narrow, sign * number}}).item<BFloat16>(), sign * wanted) << number;
    }
  }
}

TEST(Feeds, AWholeNumberForAFloatIsToBeWrittenWithAPoint) {
  Graph graph;
  const Value rate = placeholder(graph, "rate", {}), count = placeholder(graph, "count", {}, Dtype::i64),
              many = placeholder(graph, "many", {2});
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  EXPECT_THAT(([&] {
                session.run(rate, {{rate, 1}});
              }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("is i32[]; wanted f32[]"), HasSubstr("point, 1.0"))));
  EXPECT_THAT(([&] {
                session.run(rate, {{rate, std::int64_t{-3}}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("point, -3.0")));
  EXPECT_THAT(([&] { session.run(count, {{count, 1}}); }), ThrowsMessage<ArgumentError>(HasSubstr("std::int64_t{1}")));
  const HostTensor doubles(Dtype::f64, {2});
  EXPECT_THAT(([&] {
                session.run(many, {{many, doubles}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("feed data of f32")));
}

TEST(Feeds, AHintForANumberNeverChangesIt) {
  Graph graph;
  const Value i32 = placeholder(graph, "i32", {}, Dtype::i32), i64 = placeholder(graph, "i64", {}, Dtype::i64);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  const auto hint_for = [&](Value value, double number) {
    try {
      session.run(value, {{value, number}});
    } catch (const ArgumentError& error) {
      return error.fact("hint");
    }
    return std::string("no error");
  };
  EXPECT_THAT(hint_for(i32, -2147483648.0), HasSubstr("without a point"));
  EXPECT_THAT(hint_for(i32, 2147483648.0), HasSubstr("feed data of i32"));
  EXPECT_THAT(hint_for(i64, 3e9), HasSubstr("std::int64_t{1}"));
  EXPECT_THAT(hint_for(i64, 0x1p63), HasSubstr("feed data of i64"));
  for (const Value& value : {i32, i64}) {
    EXPECT_THAT(hint_for(value, 1.5), AllOf(HasSubstr("1.5 is no whole number"), Not(HasSubstr("write"))));
    EXPECT_THAT(hint_for(value, std::nan("")), HasSubstr("feed data of"));
  }
}

static_assert(!std::is_constructible_v<FeedData, const float*>, "an address is no boolean");
static_assert(!std::is_constructible_v<FeedData, const char*>);

TEST(Feeds, ANumberForABooleanIsToBeWrittenAsOne) {
  ScaledRelu f;
  const HostTensor ones = HostTensor::of<std::int32_t>({1}, {1});
  const auto hint_for = [&](Value value, const FeedData& data) {
    try {
      (void)signature_of(f.graph, Feeds{{value, data}});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), value.shape() == data.type().shape ? ErrorCode::feed_dtype : ErrorCode::feed_shape);
      return error.fact("hint");
    }
    return std::string("not refused");
  };
  for (const Value& flag : {f.flag, f.graph.training()}) {
    EXPECT_EQ(hint_for(flag, 1), "feed true or false, not a number");
    EXPECT_EQ(hint_for(flag, 1.0), "feed true or false, not a number");
    EXPECT_EQ(hint_for(flag, HostTensor::scalar(1.0F)), "feed true or false, not a number");
    EXPECT_EQ(hint_for(flag, ones), "");
  }
}

TEST(Feeds, MissingFeedNamesPlaceholderTypeReaderAndWhatWasFed) {
  ScaledRelu f;
  const HostTensor labels(Dtype::i32, {2});
  EXPECT_THAT(([&] {
                f.session.run(f.y, {{f.scale, 2.0F}, {f.labels, labels}});
              }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("placeholder 'x' f32[?,3] is not fed"),
                                                 HasSubstr("by " + f.y.node().inputs()[0].node().label()),
                                                 HasSubstr("fed:     'scale' f32[], 'labels' i32[2]"))));
  EXPECT_THAT([&] { f.session.run(f.y); }, ThrowsMessage<ArgumentError>(HasSubstr("fed:     nothing")));
}

TEST(Feeds, AFetchedPlaceholderThatIsNotFedIsNamed) {
  ScaledRelu f;
  EXPECT_THAT([&] { f.session.run(f.scale); },
              ThrowsMessage<ArgumentError>(HasSubstr("placeholder 'scale' f32[] is not fed\n")));
}

TEST(Feeds, WrongShapeIsAShapeErrorWithBothShapes) {
  ScaledRelu f;
  const HostTensor wrong(Dtype::f32, {2, 4});
  EXPECT_THAT(([&] {
                f.session.run(f.y, {{f.x, wrong}, {f.scale, 1.0F}});
              }),
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("feed of 'x'"), HasSubstr("[2,4]"), HasSubstr("f32[?,3]"))));
  const HostTensor rank(Dtype::f32, {3});
  EXPECT_THROW((f.session.run(f.y, {{f.x, rank}, {f.scale, 1.0F}})), ShapeError);
}

TEST(Feeds, WrongDtypeIsAnArgumentErrorWithBothTypes) {
  ScaledRelu f;
  const HostTensor wrong(Dtype::i64, {2, 3});
  EXPECT_THAT(([&] {
                f.session.run(f.y, {{f.x, wrong}, {f.scale, 1.0F}});
              }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'x' is i64[2,3]"), HasSubstr("wanted f32[?,3]"))));
  EXPECT_THROW((f.session.run(f.y, {{f.x, rows(2)}, {f.scale, 1}})), ArgumentError) << "an i32 scalar for a f32 one";
}

TEST(Feeds, BFloat16IsFedAndFetched) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3}, Dtype::bf16);
  const Value y = x + x;
  Session session(graph, {.threads = 1, .check_schedules = true, .check_feeds = true});
  session.initialize();
  HostTensor rows(Dtype::bf16, {2, 3});
  for (int i = 0; i < 6; ++i) rows.values<BFloat16>()[i] = BFloat16(static_cast<float>(i) - 1.5F);
  const HostTensor doubled = session.run(y, {{x, rows}});
  EXPECT_EQ(doubled.type().text(), "bf16[2,3]");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(doubled.values<BFloat16>()[i], 2.0F * static_cast<float>(i) - 3.0F);
  EXPECT_THROW(session.run(y, {{x, HostTensor(Dtype::f32, {2, 3})}}), ArgumentError);
  rows.values<BFloat16>()[4] = BFloat16(INFINITY);
  EXPECT_THAT(([&] { session.run(y, {{x, rows}}); }), ThrowsMessage<ArgumentError>(HasSubstr("element 4 is NaN")));
}

TEST(Feeds, FeedingTwiceIsRefused) {
  ScaledRelu f;
  EXPECT_THAT(([&] {
                f.session.run(f.y, {{f.x, rows(1)}, {f.scale, 1.0F}, {f.x, rows(1)}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("'x' is fed twice")));
}

TEST(Feeds, OnlyPlaceholdersAreFed) {
  ScaledRelu f;
  EXPECT_THAT(([&] {
                f.session.run(f.y, {{f.y, rows(1)}});
              }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("computed by mul"), HasSubstr("wanted a placeholder"))));
  const Value w = variable("w", fill(f.graph, {3}, 1));
  EXPECT_THROW(f.session.run(f.y, {{w, HostTensor(Dtype::f32, {3})}}), ArgumentError);
}

TEST(Feeds, ValuesOfAnotherGraphAreRefused) {
  ScaledRelu f;
  Graph other;
  const Value stranger = placeholder(other, "stranger", {});
  EXPECT_THAT(
      [&] {
        f.session.run(f.y, {{stranger, 1.0F}});
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'stranger'"), HasSubstr("does not belong to the graph"))));
  EXPECT_THROW(f.session.run(f.y, {{Value(), 1.0F}}), ArgumentError);
  EXPECT_THROW(f.session.run(stranger, {{f.x, rows(1)}}), ArgumentError) << "as a fetch";
  EXPECT_THROW(f.session.run(Value()), ArgumentError) << "a fetch of nothing";
}

TEST(Feeds, NothingRunsWhenAFeedIsWrong) {
  ScaledRelu f;
  const HostTensor wrong(Dtype::f32, {2, 4});
  EXPECT_THROW((f.session.run(f.y, {{f.x, wrong}, {f.scale, 1.0F}})), ShapeError);
  EXPECT_EQ(f.session.executions(f.y.node()), 0);
  EXPECT_EQ(f.run({{f.x, rows(1)}, {f.scale, 2.0F}}), (std::vector<float>{0, 0, 0})) << "the session stays usable";
}

TEST(Feeds, TheBatchSizeComesFromTheFeed) {
  ScaledRelu f;
  for (const std::int64_t batch : {2, 5, 1, 2, 0}) {
    const HostTensor input = rows(batch);
    const HostTensor result = f.session.run(f.y, {{f.x, input}, {f.scale, 3.0F}});
    ASSERT_EQ(result.shape(), (Shape{batch, 3}));
    for (std::size_t i = 0; i < result.values<float>().size(); ++i) {
      const float x = input.values<float>()[i];
      ASSERT_EQ(result.values<float>()[i], x > 0 ? 3 * x : 0.0F) << "batch " << batch << ", element " << i;
    }
  }
}

TEST(Feeds, AScalarIsAValueAndNoPartOfTheSignature) {
  ScaledRelu f;
  const Feeds one = {{f.x, rows(1)}, {f.scale, 1.0F}}, two = {{f.x, rows(1)}, {f.scale, 2.0F}};
  EXPECT_EQ(signature_of(f.graph, one).text(), signature_of(f.graph, two).text());
}

TEST(Feeds, ShapesAndBooleansAreTheSignature) {
  ScaledRelu f;
  const HostTensor two = rows(2), three = rows(3);
  const auto text = [&](const HostTensor& x, bool flag) {
    return signature_of(f.graph, Feeds{{f.x, x}, {f.flag, flag}}).text();
  };
  EXPECT_NE(text(two, true), text(three, true));
  EXPECT_NE(text(two, true), text(two, false));
  EXPECT_EQ(text(two, true), signature_of(f.graph, FeedTypes{{f.flag, true}, {f.x, Shape{2, 3}}}).text())
      << "types for planning give the signature of the run";
}

TEST(Feeds, FeedsThatNothingReadsAreAllowed) {
  ScaledRelu f;
  const HostTensor labels(Dtype::i32, {7});
  EXPECT_EQ(f.run({{f.flag, true}, {f.x, rows(1)}, {f.labels, labels}, {f.scale, 2.0F}}),
            (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(f.session.executions(f.labels.node()), 0) << "and are not copied";
}

TEST(Feeds, FeedTypesOfAListOfDimensionsAreShapes) {
  ScaledRelu f;
  const std::int64_t batch = 2;
  const FeedTypes types = {{f.labels, {batch}}, {f.x, {batch, 3}}, {f.flag, true}};
  EXPECT_EQ(types[0].shape, Shape{2});
  EXPECT_FALSE(types[0].boolean.has_value());
  EXPECT_EQ(types[1].shape, (Shape{2, 3}));
  EXPECT_EQ(types[2].boolean, true);
  const FeedTypes ones = {{f.labels, {1}}, {f.scale, {}}};
  EXPECT_EQ(ones[0].shape, Shape{1});
  EXPECT_FALSE(ones[0].boolean.has_value());
  EXPECT_EQ(ones[1].shape, Shape{});
  EXPECT_FALSE(ones[1].boolean.has_value());
  EXPECT_EQ(signature_of(f.graph, types).text(),
            signature_of(f.graph, FeedTypes{{f.labels, Shape{2}}, {f.x, Shape{2, 3}}, {f.flag, true}}).text());
}

TEST(Feeds, FeedTypesOfBooleansNeedTheirValue) {
  ScaledRelu f;
  EXPECT_THAT(([&] {
                signature_of(f.graph, FeedTypes{{f.flag, Shape{}}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("wanted true or false")));
  EXPECT_THROW(signature_of(f.graph, FeedTypes{FeedType(f.scale, true)}), ArgumentError);
  EXPECT_THROW((signature_of(f.graph, FeedTypes{{f.x, Shape{kDynamic, 3}}})), ShapeError)
      << "planning needs the batch size";
}

TEST(Feeds, ABooleanChoosesBatchOrRunningStatistics) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1});
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value y = batch_norm(x, is_training, {.decay = 0.5F, .epsilon = 0});
  const std::vector<Operation> updates = graph.operations(kUpdateOperations);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1, .check_schedules = true});
  session.initialize();

  const HostTensor batch = HostTensor::of<float>({2, 1}, {1, 5});  // mean 3, variance 4
  const HostTensor trained = session.run(y, {{x, batch}, {is_training, true}}, {.targets = updates});
  EXPECT_FLOAT_EQ(trained.values<float>()[0], -1);
  EXPECT_FLOAT_EQ(trained.values<float>()[1], 1);
  // Moving averages, half way from mean 0 and variance 1: 1.5 and 2.5.
  const HostTensor evaluated = session.run(y, {{x, batch}, {is_training, false}}, {.targets = updates});
  EXPECT_NEAR(evaluated.values<float>()[0], (1 - 1.5) / std::sqrt(2.5), 1e-6);
  EXPECT_NEAR(evaluated.values<float>()[1], (5 - 1.5) / std::sqrt(2.5), 1e-6);
  EXPECT_EQ(session.executions(updates[0].node()), 1) << "evaluation has no effect on the averages";
  EXPECT_THAT(([&] {
                session.run(y, {{x, batch}});
              }),
              ThrowsMessage<ArgumentError>(
                  AllOf(HasSubstr("'is_training' bool[] is not fed"), HasSubstr("needed:  by batch_norm"))));
}

}  // namespace
}  // namespace sectionflow
