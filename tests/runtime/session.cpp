#include "runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/runtime/variables.h"
#include "tests/support/random_graph.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kBudget = 8_MiB;

/// A session with a random model that has been trained for some steps.
struct Trained {
  Trained(const SessionOptions& options, std::uint64_t graph_seed, int steps)
      : trainable({.seed = graph_seed}), session(trainable.graph, options) {
    session.initialize();
    train(steps);
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      const RandomBatch batch = random_batch(trainable.model, 3, static_cast<std::uint64_t>(step));
      losses.push_back(session.run(trainable.model.loss, batch.feeds(trainable.model), trainable.training));
    }
  }
  TrainableRandomModel trainable;
  Session session;
  std::vector<HostTensor> losses;
};

TEST(Session, InitialValuesFollowFromTheSeedAlone) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Trained first({.device_memory = kBudget, .threads = 1, .seed = seed}, seed, 0);
    SCOPED_TRACE(first.trainable.model.text);
    const auto initial = variables_of(first.session);
    for (const int threads : {2, 3}) {
      Trained other({.device_memory = kBudget, .threads = threads, .seed = seed}, seed, 0);
      EXPECT_TRUE(differing(initial, variables_of(other.session)).empty()) << threads << " threads";
    }
    Trained other({.device_memory = kBudget, .threads = 1, .seed = seed + 100}, seed, 0);
    EXPECT_FALSE(differing(initial, variables_of(other.session)).empty()) << "another seed, other values";
  }
}

TEST(Session, InitializingAgainStartsAnew) {
  Trained trained({.device_memory = kBudget, .threads = 1, .seed = 5}, 4, 0);
  const auto initial = variables_of(trained.session);
  trained.train(3);
  EXPECT_FALSE(differing(initial, variables_of(trained.session)).empty());
  EXPECT_EQ(trained.session.completed_cycles(), 3u);
  trained.session.initialize();
  EXPECT_TRUE(differing(initial, variables_of(trained.session)).empty());
  EXPECT_EQ(trained.session.completed_cycles(), 0u);
  EXPECT_EQ(trained.session.executions(trained.trainable.model.loss.node()), 0);
  trained.train(3);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(bitwise_equal(trained.losses[i], trained.losses[i + 3])) << "step " << i;
}

TEST(Session, OneThreadCountGivesTheSameBitsInEverySession) {
  for (const int threads : {1, 2}) {
    for (std::uint64_t seed = 20; seed < 24; ++seed) {
      Trained a({.device_memory = kBudget, .threads = threads, .seed = seed}, seed, 3);
      // Another budget, and one that has evaluated in between.
      Trained b({.device_memory = 2 * kBudget, .threads = threads, .seed = seed}, seed, 1);
      const RandomBatch batch = random_batch(b.trainable.model, 5, 9);
      b.session.run(b.trainable.model.logits, batch.feeds(b.trainable.model, false));
      for (int step = 1; step < 3; ++step) {
        const RandomBatch next = random_batch(b.trainable.model, 3, static_cast<std::uint64_t>(step));
        b.session.run(b.trainable.model.loss, next.feeds(b.trainable.model), b.trainable.training);
      }
      EXPECT_TRUE(differing(variables_of(a.session), variables_of(b.session)).empty())
          << a.trainable.model.text << ", " << threads << " threads";
    }
  }
}

/// w = w + x, trained or not.
struct OneVariable {
  Graph graph;
  Value x = placeholder(graph, "x", {2});
  Value w = variable("w", fill(graph, {2}, 1));
  Value y = w * x;
  Operation update = assign_add(w, x);
  HostTensor two = HostTensor::of<float>({2}, {2, 3});
  Session session{graph, {.device_memory = 1_MiB, .threads = 1}};
};

TEST(Session, ReadsAndWritesVariables) {
  OneVariable f;
  f.session.initialize();
  EXPECT_TRUE(bitwise_equal(f.session.read(f.w), HostTensor::of<float>({2}, {1, 1})));
  f.session.write(f.w, HostTensor::of<float>({2}, {5, 7}));
  EXPECT_TRUE(bitwise_equal(f.session.read(f.w), HostTensor::of<float>({2}, {5, 7})));
  EXPECT_TRUE(bitwise_equal(f.session.run(f.y, {{f.x, f.two}}), HostTensor::of<float>({2}, {10, 21})));
}

TEST(Session, ReadingAndWritingWrongThingsIsRefused) {
  OneVariable f;
  EXPECT_THAT(
      [&] { f.session.read(f.w); },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("read of 'w'"), HasSubstr("call session.initialize() first"))));
  EXPECT_THROW(f.session.write(f.w, f.two), ArgumentError);
  f.session.initialize();
  EXPECT_THAT([&] { f.session.read(f.y); }, ThrowsMessage<ArgumentError>(HasSubstr("wanted a variable")));
  EXPECT_THROW(f.session.read(Value()), ArgumentError);
  EXPECT_THAT([&] { f.session.write(f.w, HostTensor(Dtype::f32, {3})); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("f32[3]"), HasSubstr("f32[2]"))));
  EXPECT_THROW(f.session.write(f.w, HostTensor(Dtype::i32, {2})), Error);
  EXPECT_TRUE(bitwise_equal(f.session.read(f.w), HostTensor::of<float>({2}, {1, 1})));
}

TEST(Session, RunningBeforeInitializeIsAClearError) {
  OneVariable f;
  EXPECT_THAT(([&] {
                f.session.run(f.y, {{f.x, f.two}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("call session.initialize() first")));
  f.session.initialize();
  EXPECT_NO_THROW((f.session.run(f.y, {{f.x, f.two}})));
}

TEST(Session, AVariableThatIsMadeAfterInitializeIsNamed) {
  OneVariable f;
  f.session.initialize();
  const Value late = variable("late", fill(f.graph, {2}, 2));
  const Value product = late * f.x;
  EXPECT_THAT(([&] {
                f.session.run(product, {{f.x, f.two}});
              }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("variable 'late' was made after session.initialize()"))));
  EXPECT_THROW(f.session.run(late), ArgumentError);
  EXPECT_THROW(f.session.read(late), ArgumentError);
  EXPECT_NO_THROW((f.session.run(relu(f.y), {{f.x, f.two}}))) << "other nodes may be added at any time";
  f.session.initialize();
  EXPECT_TRUE(bitwise_equal(f.session.run(product, {{f.x, f.two}}), HostTensor::of<float>({2}, {4, 6})));
}

TEST(Session, OnlyTrainingCompletesCycles) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 2});
  const Value noise = random_normal(graph, {2, 2});
  const Value loss = mean(dense(x + noise, {.features = 1}));
  const RunOptions training{.targets = minimize(Sgd{}, loss)};
  const Value counter = variable("counter", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  const Operation count = assign_add(counter, fill(graph, {}, 1, Dtype::i64));
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  const HostTensor batch(Dtype::f32, {2, 2});
  EXPECT_EQ(session.completed_cycles(), 0u);
  const HostTensor before = session.run(noise);
  EXPECT_TRUE(bitwise_equal(before, session.run(noise))) << "evaluation draws the same numbers again";
  session.run({}, {.targets = {count}});
  EXPECT_EQ(session.completed_cycles(), 0u) << "not every update is training";
  const auto [trained_noise] = session.run({noise}, {{x, batch}}, training);
  EXPECT_EQ(session.completed_cycles(), 1u);
  EXPECT_TRUE(bitwise_equal(before, trained_noise));
  EXPECT_FALSE(bitwise_equal(before, session.run(noise))) << "a completed cycle gives new numbers";
  session.run({{x, batch}}, {.targets = {group(graph, training.targets)}});
  EXPECT_EQ(session.completed_cycles(), 2u) << "through a group";
}

TEST(Session, CountsExecutions) {
  OneVariable f;
  f.session.initialize();
  EXPECT_EQ(f.session.executions(f.y.node()), 0);
  for (int i = 0; i < 3; ++i) f.session.run(f.y, {{f.x, f.two}});
  f.session.run({{f.x, f.two}}, {.targets = {f.update}});
  EXPECT_EQ(f.session.executions(f.y.node()), 3);
  EXPECT_EQ(f.session.executions(f.x.node()), 4) << "fed";
  EXPECT_EQ(f.session.executions(f.update.node()), 1);
  EXPECT_EQ(f.session.executions(relu(f.y).node()), 0) << "a node that is newer than every run";
}

TEST(Session, ProgramsShareTheVariables) {
  OneVariable f;
  f.session.initialize();
  const Value sum = reduce_sum(f.w);
  EXPECT_EQ(f.session.run(sum).item<float>(), 2);
  f.session.run({{f.x, f.two}}, {.targets = {f.update}});
  EXPECT_EQ(f.session.run(sum).item<float>(), 7) << "3 + 4";
  EXPECT_TRUE(bitwise_equal(f.session.run(f.y, {{f.x, f.two}}), HostTensor::of<float>({2}, {6, 12})));
  EXPECT_EQ(f.session.statistics().bytes_reserved, 1_MiB) << "and one arena";
}

TEST(Session, PlanningNeedsNeitherValuesNorBudget) {
  TrainableRandomModel trainable({.seed = 3});
  const RandomModel& model = trainable.model;
  Session session(trainable.graph, {.device_memory = 1, .threads = 1});
  const RandomBatch batch = random_batch(model, 2, 0);
  const ProgramReport report = session.plan({model.loss}, batch.types(model), trainable.training);
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.budget_bytes, 1u);
  EXPECT_EQ(report.planned_peak_bytes, report.persistent_bytes + report.transient_bytes);
  EXPECT_GE(report.planned_peak_bytes, report.lower_bound_bytes);
  EXPECT_EQ(session.statistics().bytes_reserved, 0u) << "nothing is allocated";
  // The same plan once there are values.
  Session roomy(trainable.graph, {.device_memory = kBudget, .threads = 1});
  const auto before = roomy.plan({model.loss}, batch.types(model), trainable.training);
  roomy.initialize();
  const auto after = roomy.plan({model.loss}, batch.types(model), trainable.training);
  for (const ProgramReport& other : {before, after}) {
    EXPECT_TRUE(other.fits);
    EXPECT_EQ(other.planned_peak_bytes, report.planned_peak_bytes);
    EXPECT_EQ(other.num_operations, report.num_operations);
    EXPECT_EQ(other.recomputed_operations, 0);
  }
  EXPECT_THAT(report.text(), AllOf(HasSubstr("too small"), HasSubstr("fullest at: "), HasSubstr("recomputed: 0 of ")));
}

TEST(Session, StatisticsTellWhatTheArenaHolds) {
  OneVariable f;
  EXPECT_EQ(f.session.statistics().bytes_limit, 1_MiB);
  EXPECT_EQ(f.session.statistics().bytes_in_use, 0u);
  f.session.initialize();
  f.session.run(f.y, {{f.x, f.two}});
  const Statistics& statistics = f.session.statistics();
  const ProgramReport report = f.session.plan({f.y}, {{f.x, Shape{2}}});
  EXPECT_EQ(statistics.bytes_in_use, report.persistent_bytes);
  EXPECT_EQ(statistics.peak_bytes_in_use, report.planned_peak_bytes);
  EXPECT_EQ(statistics.planned_peak_bytes, report.planned_peak_bytes);
  EXPECT_EQ(statistics.measured_peak_bytes, 0u) << "nothing was measured";
  EXPECT_EQ(statistics.largest_alloc_size, 8u);
  EXPECT_GT(statistics.num_allocs, 0);
}

TEST(Session, ClearedStatisticsKeepWhatIsInUse) {
  OneVariable f;
  f.session.initialize();
  f.session.run(f.y, {{f.x, f.two}});
  f.session.clear_statistics();
  const Statistics& statistics = f.session.statistics();
  EXPECT_EQ(statistics.num_allocs, 0);
  EXPECT_EQ(statistics.largest_alloc_size, 0u);
  EXPECT_EQ(statistics.bytes_in_use, 8u);
  EXPECT_EQ(statistics.peak_bytes_in_use, 8u);
  EXPECT_EQ(statistics.bytes_limit, 1_MiB);
  EXPECT_EQ(statistics.bytes_reserved, 1_MiB);
}

TEST(Session, AnImpossibleNumberOfThreadsIsRefused) {
  Graph graph;
  EXPECT_THROW(Session(graph, {.threads = -1}), ArgumentError);
  EXPECT_THROW(Session(graph, {.threads = 100000}), ArgumentError);
  EXPECT_GT(Session(graph, {.threads = 0}).threads(), 0);
}

}  // namespace
}  // namespace sectionflow
