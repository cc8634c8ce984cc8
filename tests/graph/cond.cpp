// cond: what is built, refused and taken back; what it computes beside the branch in place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/control.h"
#include "graph/ops/identities.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "graph/traversal.h"
#include "runtime/session.h"

namespace sectionflow::cond_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostTensor of(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return HostTensor::of<float>({count}, values);
}

std::vector<float> floats(const HostTensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

/// A flag and two placeholders of two numbers.
struct World {
  std::vector<float> run(Value value, bool taken, Feeds more = {}) {
    Session session(graph, {.threads = 1, .check_schedules = true});
    session.initialize();
    more.push_back({flag, taken});
    return floats(session.run({value}, more)[0]);
  }

  Graph graph;
  Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  Value a = placeholder(graph, "a", {2}), b = placeholder(graph, "b", {2});
  HostTensor ones = of({1, 1}), twos = of({2, 2});
};

TEST(Cond, TakesABranchAndAsksForItsFeedsAlone) {
  World w;
  const Value y = cond(
      w.flag, [&] { return w.a * 3.0F; }, [&] { return w.b + 1.0F; });
  EXPECT_EQ(w.run(y, true, {{w.a, w.ones}}), (std::vector<float>{3, 3}));
  EXPECT_EQ(w.run(y, false, {{w.b, w.ones}}), (std::vector<float>{2, 2}));
  EXPECT_THAT(([&] { (void)w.run(y, true, {{w.b, w.ones}}); }), ThrowsMessage<ArgumentError>(HasSubstr("'a'")));
}

TEST(Cond, GivesSeveralValuesOrNone) {
  World w;
  const auto both = cond(
      w.flag,
      [&] {
        return std::vector{w.a, w.a * 2.0F};
      },
      [&] {
        return std::vector{w.b * 2.0F, w.b};
      });
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(w.run(both[1], true, {{w.a, w.ones}}), (std::vector<float>{2, 2}));
  EXPECT_EQ(w.run(both[1], false, {{w.b, w.ones}}), (std::vector<float>{1, 1}));
  EXPECT_TRUE(cond(
                  w.flag, [] { return std::vector<Value>(); }, [] { return std::vector<Value>(); })
                  .empty());
}

TEST(Cond, TakesAConstantAndTheTrainingFlag) {
  World w;
  const Value known = cond(
      constant(w.graph, HostTensor::scalar(true)), [&] { return w.a; }, [&] { return w.b; });
  EXPECT_EQ(w.run(known, false, {{w.a, w.twos}}), (std::vector<float>{2, 2}));
  const Value evaluated = cond(
      w.graph.training(), [&] { return w.a; }, [&] { return w.b; });
  EXPECT_EQ(w.run(evaluated, false, {{w.b, w.twos}}), (std::vector<float>{2, 2}));
}

TEST(Cond, UnknownSizesFollowWhatIsTaken) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  const Value a = placeholder(graph, "a", {kDynamic, 3}), b = placeholder(graph, "b", {kDynamic, kDynamic});
  const Value y = cond(
      flag, [&] { return a * 2.0F; }, [&] { return b * 2.0F; });
  EXPECT_EQ(y.shape(), (Shape{kDynamic, 3}));
  Session session(graph, {.threads = 1});
  session.initialize();
  EXPECT_EQ(session.run({y}, {{flag, true}, {a, HostTensor(Dtype::f32, {4, 3})}})[0].shape(), (Shape{4, 3}));
  EXPECT_EQ(session.run({y}, {{flag, false}, {b, HostTensor(Dtype::f32, {5, 3})}})[0].shape(), (Shape{5, 3}));
  EXPECT_THROW((void)session.run({y}, {{flag, false}, {b, HostTensor(Dtype::f32, {5, 2})}}), ShapeError);
}

TEST(Cond, GradientsEnterABranchThatLeavesASizeToFeeds) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  const Value a = placeholder(graph, "a", {kDynamic, 2}), b = placeholder(graph, "b", {1, 2});
  const Value w = variable("w", fill(graph, {2}, 3));
  const Value y = cond(
      flag, [&] { return exp(a * w) * w; }, [&] { return b * 2.0F; });
  const Value slope = gradients(reduce_sum(square(y)), {w})[0];
  Session session(graph, {.threads = 1});
  session.initialize();
  EXPECT_EQ(floats(session.run({slope}, {{flag, true}, {a, HostTensor(Dtype::f32, {1, 2})}})[0])[0], 6);
  EXPECT_EQ(floats(session.run({slope}, {{flag, false}, {b, HostTensor(Dtype::f32, {1, 2})}})[0])[0], 0);
}

TEST(Cond, UpdatesOfABranchHappenWhereItIsTaken) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  const Value count = variable("count", fill(graph, {}, 0));
  std::vector<Operation> updates;
  (void)cond(
      flag,
      [&] {
        updates.push_back(assign_add(count, fill(graph, {}, 1)));
        return std::vector<Value>();
      },
      [&] { return std::vector<Value>(); });
  updates.push_back(group(graph, updates));
  Session session(graph, {.threads = 1});
  session.initialize();
  for (const bool taken : {true, false, true, false}) session.run({{flag, taken}}, {.targets = updates});
  EXPECT_EQ(session.read(count).item<float>(), 2.0F);
}

TEST(Cond, VariablesOfABranchAreThereInAnyCaseWithAZeroGradient) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean), x = placeholder(graph, "x", {1, 3});
  const Value y = cond(
      flag, [&] { return dense(x, {.features = 3}); }, [&] { return x; });
  const Value kernel = graph.values(kTrainableVariables)[0];
  const Value loss = mean(y);
  const Value gradient = gradients(loss, {kernel})[0];
  const auto updates = minimize(Sgd{.learning_rate = 1.0}, loss);
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const HostTensor fed = HostTensor::of<float>({1, 3}, {1, 2, 3}), before = session.read(kernel);
  EXPECT_NE(before.values<float>()[0], 0.0F);
  const auto stays = session.run({gradient}, {{flag, false}, {x, fed}}, {.targets = updates});
  EXPECT_EQ(floats(stays[0]), std::vector<float>(9, 0.0F));
  EXPECT_TRUE(bitwise_equal(session.read(kernel), before));
  (void)session.run({gradient}, {{flag, true}, {x, fed}}, {.targets = updates});
  EXPECT_FALSE(bitwise_equal(session.read(kernel), before));
}

TEST(Cond, HasSecondDerivatives) {
  World w;
  const Value y = cond(
      w.flag, [&] { return w.a * w.a * w.b; }, [&] { return w.b * w.b * w.b; });
  const Value dy = gradients(reduce_sum(y), {w.b})[0];
  const auto second = gradients(reduce_sum(dy * dy), {w.a, w.b});
  const Feeds feeds = {{w.a, w.twos}, {w.b, w.ones}};
  // dy is a a where the flag is true: its square has the slope 4 a^3; 3 b b elsewhere: 36 b^3.
  EXPECT_EQ(w.run(second[0], true, feeds), (std::vector<float>{32, 32}));
  EXPECT_EQ(w.run(second[1], true, feeds), (std::vector<float>{0, 0}));
  EXPECT_EQ(w.run(second[0], false, feeds), (std::vector<float>{0, 0}));
  EXPECT_EQ(w.run(second[1], false, feeds), (std::vector<float>{36, 36}));
}

TEST(Cond, GradientsOfALossWithinABranchLeaveIt) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean), x = placeholder(graph, "x", {2});
  const Value w = variable("w", fill(graph, {2}, 3));
  const Value slope = cond(
      flag, [&] { return gradients(reduce_sum(square(x * w)), {w})[0]; }, [&] { return w; });
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor fed = of({1, 2});
  EXPECT_EQ(floats(session.run({slope}, {{flag, true}, {x, fed}})[0]), (std::vector<float>{6, 24}));
  EXPECT_EQ(floats(session.run({slope}, {{flag, false}, {x, fed}})[0]), (std::vector<float>{3, 3}));
}

// ---- What is refused.

TEST(Cond, RefusesWhatDoesNotFitAndLeavesTheGraphAsItWas) {
  World w;
  Graph other;
  const Value strange = placeholder(other, "strange", {2});
  const std::string before = graph_text(w.graph);
  const auto of_a = [&] { return w.a; };
  const auto expect_refused = [&](const std::function<void()>& call, const std::string& text) {
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(text)));
    EXPECT_EQ(graph_text(w.graph), before);
  };
  expect_refused([&] { (void)cond(w.a, of_a, of_a); }, "the flag is f32[2]");
  expect_refused([&] { (void)cond(w.flag, of_a, [&] { return strange; }); }, "a value of another graph");
  expect_refused([&] { (void)cond(w.flag, of_a, [] { return Value(); }); }, "no value");
  expect_refused([&] { (void)cond(w.flag, of_a, [&] { return reduce_sum(w.b); }); },
                 "wanted two of one dtype and shape");
  expect_refused([&] { (void)cond(w.flag, of_a, std::function<Value()>()); }, "is no function");
  expect_refused(
      [&] {
        (void)cond(
            w.flag, [&] { return std::vector{w.a}; }, [] { return std::vector<Value>(); });
      },
      "one branch gave 1 values, the other 0");
  expect_refused(
      [&] {
        (void)cond(
            w.flag,
            [&] {
              (void)variable("v", fill(w.graph, {2}, 1));
              return w.a * 2.0F;
            },
            [&]() -> Value { throw ArgumentError("meant"); });
      },
      "meant");
  const Value computed = logical_not(w.flag);
  EXPECT_THAT(([&] { (void)cond(computed, of_a, of_a); }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("is computed by logical_not"), HasSubstr("select"))));
}

TEST(Cond, RefusesReadersOfABranchFromOutside) {
  World w;
  Value inner, nested;
  const auto keep = [&] {
    inner = w.a * 2.0F;
    return cond(
        w.flag, [&] { return nested = inner * inner; }, [&] { return inner; });
  };
  const Value y = cond(w.flag, keep, [&] {
    const Value other = placeholder(w.graph, "other", {}, Dtype::boolean),
                average = variable("average", fill(w.graph, {2}, 0));
    EXPECT_THAT(([&] { (void)update_moving_average(average, inner, other, 0.5F); }),
                ThrowsMessage<ArgumentError>(HasSubstr("SF-E016")));
    EXPECT_THAT(([&] { (void)exp(inner); }),
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E016"), HasSubstr("in the other branch"))));
    return w.b;
  });
  for (const Value& hidden : {inner, nested}) {
    EXPECT_THAT(([&] { (void)exp(hidden); }),
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E016"), HasSubstr("only where 'flag' is true"),
                                                   HasSubstr("return it from its branch"))));
    EXPECT_THAT(([&] { w.graph.replace_input(exp(w.a).node(), 0, hidden); }),
                ThrowsMessage<ArgumentError>(HasSubstr("SF-E016")));
  }
  EXPECT_TRUE(y.valid());
}

TEST(Cond, ADrawingSaysWhereANodeIsExecuted) {
  World w;
  (void)cond(
      w.flag, [&] { return exp(w.a); }, [&] { return w.b; });
  std::ostringstream dot;
  write_dot(dot, w.graph);
  EXPECT_THAT(dot.str(), AllOf(HasSubstr("where flag is true"), HasSubstr("where flag is false")));
}

TEST(Cond, FilesWithBranchesOfOthersAreRefused) {
  World w;
  (void)cond(
      w.flag, [&] { return exp(w.a); }, [&] { return w.b; });
  const std::string text = graph_text(w.graph), member = "\"branch\":[3,1]";
  ASSERT_NE(text.find(member), std::string::npos);
  const auto with = [&](const std::string& instead) {
    std::string changed = text;
    return changed.replace(changed.find(member), member.size(), instead);
  };
  for (const auto& [instead, wanted] : std::map<std::string, std::string>{{"\"branch\":[0,1]", "is no choice"},
                                                                          {"\"branch\":[3,2]", "branch"},
                                                                          {"\"branch\":[3]", "branch"},
                                                                          {"\"branch\":[3,0]", "SF-E402"},
                                                                          {"\"branch\":[99,1]", "branch"}}) {
    Graph loaded;
    const std::string damaged = with(instead);
    EXPECT_THAT([&] { load_graph_text(loaded, damaged); }, ThrowsMessage<DataError>(HasSubstr(wanted)));
    EXPECT_EQ(loaded.num_nodes(), 0);
  }
}

// ---- Beside the branches in place.

/// A random net of small whole numbers, whose sums have no rounding, of three variables; with conds, or with the
/// branches in place that the flags take. A branch that is not taken multiplies by NaN.
class RandomNet {
 public:
  RandomNet(unsigned seed, unsigned taken, bool has_conds) : taken_(taken), has_conds_(has_conds) {
    std::mt19937 random(seed);
    for (int i = 0; i < 3; ++i) {
      std::vector<float> values(4);
      for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 5) - 2);
      variables.push_back(variable("v" + std::to_string(i), constant(graph, of(values))));
    }
    for (int i = 0; i < kFlags; ++i) {
      flags_.push_back(placeholder(graph, "flag", {}, Dtype::boolean));
      for (const bool side : {false, true}) gates_[{i, side}] = placeholder(graph, "gate", {});
    }
    Value sum;
    for (const Value& value : built(random(), 4, variables)) sum = sum.valid() ? sum + value : value;
    // All variables are reached, whatever is taken.
    for (const Value& value : variables) sum = sum + value * 2.0F;
    loss = reduce_sum(sum);
  }

  /// The loss and the gradients.
  std::vector<std::vector<float>> results() {
    std::vector<Value> fetches = gradients(loss, variables);
    fetches.push_back(loss);
    Session session(graph, {.threads = 1, .check_schedules = true});
    session.initialize();
    Feeds feeds;
    for (int i = 0; i < kFlags; ++i) feeds.push_back({flags_[static_cast<std::size_t>(i)], is_taken(i)});
    const HostTensor one = HostTensor::scalar(1.0F), nan = HostTensor::scalar(std::nanf(""));
    // Every other net does not even feed what is not taken.
    for (const auto& [gate, value] : gates_) {
      const bool taken = gate.second == is_taken(gate.first);
      if (taken || taken_ % 2 == 0) feeds.push_back({value, taken ? one : nan});
    }
    std::vector<std::vector<float>> found;
    for (const HostTensor& tensor : session.run(fetches, feeds)) found.push_back(floats(tensor));
    return found;
  }

  static constexpr int kFlags = 3;
  Graph graph;
  std::vector<Value> variables;
  Value loss;

 private:
  bool is_taken(int flag) const { return (taken_ >> flag & 1) != 0; }

  /// Two values made of some that are given; everything follows from the seed.
  std::vector<Value> built(unsigned seed, int depth, std::vector<Value> values) {
    std::mt19937 random(seed);
    const auto any = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < 4; ++i) {
      const auto kind = random() % 6;
      const Value a = any(), b = any();
      const unsigned inner = static_cast<unsigned>(random());
      if (kind == 0) values.push_back(a + b);
      if (kind == 1) values.push_back(a - b);
      if (kind == 2) values.push_back(relu(a));
      if (kind == 3) values.push_back(maximum(a, b));
      if (kind >= 4 && depth > 0) {
        for (const Value& value : chosen(inner, static_cast<int>(inner % kFlags), depth - 1, values)) {
          values.push_back(value);
        }
      }
    }
    return {values[values.size() - 1], values[values.size() - 2]};
  }

  std::vector<Value> chosen(unsigned seed, int flag, int depth, const std::vector<Value>& values) {
    const auto side = [&](bool when) {
      std::vector<Value> results = built(seed + (when ? 1 : 2), depth, values);
      results[0] = results[0] * gates_.at({flag, when});
      // Now and then a value is passed through as it is.
      if (seed % 5 == 0) results[1] = values[seed % values.size()];
      return results;
    };
    if (!has_conds_) return side(is_taken(flag));
    return cond(
        flags_[static_cast<std::size_t>(flag)], [&] { return side(true); }, [&] { return side(false); });
  }

  unsigned taken_;
  bool has_conds_;
  std::vector<Value> flags_;
  std::map<std::pair<int, bool>, Value> gates_;
};

TEST(Cond, RandomNetsEqualThoseWithTheTakenBranchInPlace) {
  int num_choices = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    for (unsigned taken = 0; taken < 1U << RandomNet::kFlags; ++taken) {
      RandomNet with(seed, taken, true), without(seed, taken, false);
      ASSERT_EQ(with.results(), without.results()) << "seed " << seed << ", flags " << taken;
      for (NodeId id = 0; taken == 0 && id < with.graph.num_nodes(); ++id) {
        num_choices += with.graph.node(id).branch().exists() && with.graph.node(id).output_types().empty() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_choices, 20) << "conds within conds";
}

}  // namespace
}  // namespace sectionflow::cond_tests
