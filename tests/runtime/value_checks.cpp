// Results of operations that are looked at as soon as they are there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "graph/op_def.h"
#include "sectionflow.h"
#include "tests/support/emulated_device.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// y = log(x w + b) in two sections, with a training of w and b.
struct Logarithm {
  explicit Logarithm(SessionOptions options = {.device_memory = 4_MiB, .threads = 2}) {
    x = placeholder(graph, "x", {kDynamic, 2});
    w = variable("w", constant(graph, HostTensor::of<float>({2, 2}, {1, 0, 0, 1})));
    {
      const auto section = manager.new_section("product");
      product = matmul(x, w);
    }
    {
      const auto section = manager.new_section("logarithm");
      y = log(product);
      loss = mean(y);
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.01}, loss);
    manager.prepare_training();
    session.emplace(graph, options, Where::here());
    session->initialize();
    session->set_value_checks({.nan = true, .infinity = true});
  }
  Logarithm(const Logarithm&) = delete;
  Logarithm& operator=(const Logarithm&) = delete;

  std::string error_of(const std::vector<float>& numbers) {
    const auto rows = static_cast<std::int64_t>(numbers.size()) / 2;
    const HostTensor fed = HostTensor::of<float>({rows, 2}, numbers);
    return whole_error_text<ArgumentError>([&] { manager.run_full_cycle(*session, {loss}, {{x, fed}}); });
  }
  void expect_trains() {
    const HostTensor fed = HostTensor::of<float>({1, 2}, {1, 2});
    const auto [value] = manager.run_full_cycle(*session, {loss}, {{x, fed}});
    EXPECT_TRUE(std::isfinite(value.item<float>()));
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x, w, product, y, loss;
  std::optional<Session> session;
};

TEST(ValueChecks, NameOperationSectionTensorAndElement) {
  Logarithm world;
  EXPECT_THAT(
      world.error_of({1, 2, 3, -4, 5, 6}),
      AllOf(StartsWith("SF-E605"), HasSubstr("log 'log'"), HasSubstr("element [1,1] of its result 'log' f32[3,2]"),
            HasSubstr("is nan"), HasSubstr("backward 1"), HasSubstr("section 1 'logarithm'"), HasSubstr("-4 to 6")));
  EXPECT_THAT(world.error_of({1, 2, 0, 4}), AllOf(HasSubstr("element [1,0]"), HasSubstr("is -inf")));
  EXPECT_THAT(world.error_of({kInfinity, 2}), AllOf(HasSubstr("matmul"), HasSubstr("section 0 'product'")));
  // Nothing was changed: all of it was found before the first update.
  EXPECT_EQ(world.session->completed_cycles(), 0U);
  world.expect_trains();
}

TEST(ValueChecks, RefuseWhatTheyAreToldToAndNothingWhereTheyAreOff) {
  Logarithm world;
  const HostTensor zero = HostTensor::of<float>({1, 2}, {0, 1});
  world.session->set_value_checks({.nan = true});
  EXPECT_TRUE(std::isinf(world.session->run({world.loss}, {{world.x, zero}})[0].item<float>()));
  world.session->set_value_checks({.infinity = true});
  EXPECT_THROW(world.session->run({world.loss}, {{world.x, zero}}), ArgumentError);
  const HostTensor nan = HostTensor::of<float>({1, 2}, {kNan, 1});
  EXPECT_TRUE(std::isnan(world.session->run({world.loss}, {{world.x, nan}})[0].item<float>()));
  world.session->set_value_checks({});
  EXPECT_FALSE(world.session->value_checks().any());
  EXPECT_TRUE(std::isnan(world.session->run({world.loss}, {{world.x, nan}})[0].item<float>()));
}

TEST(ValueChecks, FindUpdatedVariablesAndLeaveTheSessionTorn) {
  Graph graph;
  const Value x = placeholder(graph, "x", {});
  const Value w = variable("w", constant(graph, 3e38F));
  const auto training = minimize(Sgd{.learning_rate = 1.0}, neg(w * x));
  Session session(graph, {.device_memory = 1_MiB});
  session.initialize();
  session.set_value_checks({.nan = true, .infinity = true});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                session.run({{x, 3e38F}}, {.targets = training});
              }),
              AllOf(HasSubstr("updated variable 'w'"), HasSubstr("element [] "), HasSubstr("is inf")));
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { session.run({w}); }), HasSubstr("SF-E323"));
  session.initialize();
  session.run({{x, 1.0F}}, {.targets = training});
}

TEST(ValueChecks, FindTheFirstElementWhereverItLiesInALargeTensor) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic});
  const Value y = sqrt(x);
  Session session(graph, {.device_memory = 8_MiB, .threads = 2});
  session.initialize();
  session.set_value_checks({.nan = true});
  HostTensor numbers(Dtype::f32, {200001});
  for (const std::size_t place : {0U, 1U, 4095U, 4096U, 99999U, 200000U}) {
    auto values = numbers.values<float>();
    std::fill(values.begin(), values.end(), 1.0F);
    values[place] = -1;
    values[200000] = -1;
    EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                  session.run({y}, {{x, numbers}});
                }),
                HasSubstr(text_of("element [", place, "]")));
  }
}

TEST(ValueChecks, FindIndicesThatAreOutOfRangeAndBf16) {
  Graph graph;
  const Value index = placeholder(graph, "index", {kDynamic}, Dtype::i32);
  const Value table = variable("table", fill(graph, {4, 3}, 1));
  const Value rows = gather(table, index);
  const Value half = sqrt(cast(neg(rows), Dtype::bf16));
  Session session(graph, {.device_memory = 1_MiB});
  session.initialize();
  session.set_value_checks({.nan = true, .infinity = true});
  const HostTensor outside = HostTensor::of<std::int32_t>({3}, {0, 3, 4});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                session.run({rows}, {{index, outside}});
              }),
              AllOf(HasSubstr("gather"), HasSubstr("element [2,0]"), HasSubstr("'index' i32[3]: 0 to 4")));
  const HostTensor inside = HostTensor::of<std::int32_t>({1}, {1});
  session.run({rows}, {{index, inside}});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                session.run({half}, {{index, inside}});
              }),
              AllOf(HasSubstr("sqrt"), HasSubstr("bf16[1,3]"), HasSubstr("is nan")));
}

/// A chain of square roots in three sections, whose k-th product may be made NaN, or 0: then the root is fine and its
/// gradient is not.
struct Chain {
  static constexpr int kLength = 6;

  Chain() {
    Value x = variable("w", fill(graph, {4}, 1));
    for (int section = 0; section < kLength / 2; ++section) {
      const auto scope = manager.new_section();
      for (int i = 0; i < 2; ++i) {
        factors.push_back(placeholder(graph, "factor", {}));
        products.push_back(x * factors.back());
        x = sqrt(products.back()) + 1.0F;
      }
      if (section == kLength / 2 - 1) loss = mean(x);
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.1}, loss);
    manager.prepare_training();
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  Feeds feeds(int place, float planted) const {
    Feeds feeds;
    for (int k = 0; k < kLength; ++k)
      feeds.emplace_back(factors[static_cast<std::size_t>(k)], k == place ? planted : 1.0F);
    return feeds;
  }

  Graph graph;
  GraphSectionManager manager{graph};
  std::vector<Value> factors, products;
  Value loss;
};

TEST(ValueChecks, NameTheFirstOperationWhereverOneIsPlantedForwardAndBackward) {
  Chain chain;
  Session session(chain.graph, {.device_memory = 1_MiB});
  session.initialize();
  session.set_value_checks({.nan = true, .infinity = true});
  for (const bool in_sections : {false, true}) {
    const auto error_of = [&](const Feeds& feeds) {
      return whole_error_text<ArgumentError>([&] {
        if (in_sections) {
          chain.manager.run_full_cycle(session, {chain.loss}, feeds);
        } else {
          session.run({chain.loss}, feeds, {.targets = chain.manager.training_operations()});
        }
      });
    };
    for (int k = 0; k < Chain::kLength; ++k) {
      const Value product = chain.products[static_cast<std::size_t>(k)];
      const std::string section = text_of("section ", k / 2);
      EXPECT_THAT(error_of(chain.feeds(k, kNan)),
                  AllOf(HasSubstr(product.node().label() + ": element [0]"), HasSubstr(section)));
      const std::string backward = error_of(chain.feeds(k, 0));
      EXPECT_THAT(backward, AllOf(HasSubstr("'gradients/"), HasSubstr(section), HasSubstr("element [0]")));
      EXPECT_THAT(backward, HasSubstr(in_sections ? text_of("backward ", k / 2) : section));
    }
  }
  EXPECT_EQ(session.completed_cycles(), 0U);
}

/// A variable that Adam or momentum trains, whose slots a test may change.
struct Slots {
  explicit Slots(const Optimizer& optimizer) {
    training = minimize(optimizer, reduce_sum(square(w * x)));
    session.emplace(graph, SessionOptions{.device_memory = 1_MiB, .threads = 1});
    session->initialize();
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  /// What a step says that begins with such a number in the slot.
  std::string error_with(const std::string& slot, float number, const ValueChecks& checks) {
    session->initialize();
    session->set_value_checks({});
    session->run({{x, 1.0F}}, {.targets = training});
    const Value variable = graph.find(slot).output();
    session->write(variable, HostTensor::of<float>({3}, {0, number, 0}));
    session->set_value_checks(checks);
    return whole_error_text<ArgumentError>([&] { session->run({{x, 1.0F}}, {.targets = training}); });
  }

  Graph graph;
  Value x = placeholder(graph, "x", {}), w = variable("w", fill(graph, {3}, 1));
  std::vector<Operation> training;
  std::optional<Session> session;
};

TEST(ValueChecks, NameTheVariableWhoseSlotIsNotFiniteAlthoughNotEachSlotIsLookedAt) {
  Slots adam(Adam{.learning_rate = 0.01}), still(Adam{.learning_rate = 0}), momentum(Momentum{.learning_rate = 0.01});
  Slots decayed(AdamW{.learning_rate = 0.01});
  const ValueChecks both{.nan = true, .infinity = true};
  for (const float number : {kNan, kInfinity, -kInfinity}) {
    const auto names_the_weight = HasSubstr("element [1] of its updated variable 'w' ");
    EXPECT_THAT(adam.error_with("w/adam_m", number, both), names_the_weight);
    EXPECT_THAT(still.error_with("w/adam_m", number, both), names_the_weight);
    EXPECT_THAT(decayed.error_with("w/adam_w_m", number, both), names_the_weight);
    EXPECT_THAT(momentum.error_with("w/momentum", number, both), names_the_weight);
  }
  // Its root divides: the variable is fine, and the slot is named.
  EXPECT_THAT(adam.error_with("w/adam_v", kInfinity, both),
              HasSubstr("element [1] of its updated variable 'w/adam_v'"));
  // Infinity times a rate of 0 is NaN, which is not asked for.
  EXPECT_THAT(still.error_with("w/adam_m", kInfinity, {.infinity = true}),
              HasSubstr("element [1] of its updated variable 'w/adam_m'"));
}

TEST(ValueChecks, LookAgainAtWhatIsComputedAgainWhereTheForwardHalfHadNoChecks) {
  Chain chain;
  Session session(chain.graph, {.device_memory = 1_MiB});
  session.initialize();
  (void)chain.manager.run_forward(session, {chain.loss}, chain.feeds(0, kNan));
  session.set_value_checks({.nan = true, .infinity = true});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { (void)chain.manager.run_backward(session); }), HasSubstr("is nan"));
  session.initialize();
  session.set_value_checks({});
  (void)chain.manager.run_forward(session, {chain.loss}, chain.feeds(0, 1));
  session.set_value_checks({.nan = true, .infinity = true});
  EXPECT_NO_THROW((void)chain.manager.run_backward(session));
}

TEST(ValueChecks, ChangeNoBitOfATraining) {
  std::vector<HostTensor> trained;
  for (const bool checks : {false, true}) {
    Logarithm world;
    if (!checks) world.session->set_value_checks({});
    for (int i = 0; i < 3; ++i) world.expect_trains();
    trained.push_back(world.session->read(world.w));
  }
  EXPECT_TRUE(bitwise_equal(trained[0], trained[1]));
}

TEST(ValueChecks, LetCausalAttentionBeDifferentiatedTwiceWithTheBitsOfAMaskOfInfinities) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 2, 3, 4});
  const Value dx = gradients(reduce_sum(square(attention(x, x * x, x, {.causal = true}))), {x})[0];
  const Value second = gradients(reduce_sum(square(dx)), {x})[0];
  // The masked scores of that derivative, and the probabilities that an infinity in their place would give.
  Value masked;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op().name == "select") masked = graph.node(id).output();
  }
  ASSERT_TRUE(masked.valid());
  const Value infinite = select(masked.node().inputs()[0], masked.node().inputs()[1], constant(graph, -kInfinity));
  const Value here = softmax(masked), there = softmax(infinite);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  HostTensor fed(Dtype::f32, {2, 2, 3, 4});
  for (std::size_t i = 0; i < fed.values<float>().size(); ++i) {
    fed.values<float>()[i] = static_cast<float>(i * 37 % 53) / 8 - 3;
  }
  const auto unchecked = session.run({second, here, there}, {{x, fed}});
  EXPECT_TRUE(bitwise_equal(unchecked[1], unchecked[2]));
  session.set_value_checks({.nan = true, .infinity = true});
  EXPECT_TRUE(bitwise_equal(session.run({second}, {{x, fed}})[0], unchecked[0]));
}

TEST(ValueChecks, WorkOnAGpuWhoseKernelsRunBehindTheCaller) {
  const testing_support::EmulatedCuda cuda_device;
  Logarithm world({.device = cuda(0), .device_memory = 4_MiB});
  EXPECT_THAT(world.error_of({1, 2, 3, -4, 5, 6}), AllOf(HasSubstr("log 'log'"), HasSubstr("element [1,1]")));
  for (int i = 0; i < 4; ++i) world.expect_trains();
  EXPECT_THAT(world.error_of({1, 2, 3, -4, 5, 6}), HasSubstr("element [1,1]"));
}

}  // namespace
}  // namespace sectionflow
