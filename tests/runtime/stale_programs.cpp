// A session that keeps programs, places and counts by the numbers of nodes, and a graph that takes nodes out again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "base/bytes.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A session that has initialised w, and a graph in which changes fail.
struct Changing {
  Graph graph;
  Value x = placeholder(graph, "x", {2});
  Value w = variable("w", fill(graph, {2}, 1));
  HostTensor data = HostTensor::of<float>({2}, {1, 2});
  Session session{graph, {.device_memory = 1_MiB, .threads = 1, .check_schedules = true}};

  Changing() { session.initialize(); }
  template <class Change>
  void take_out_again(const Change& change) {
    EXPECT_THROW(graph.all_or_nothing([&] {
      change();
      throw std::runtime_error("the user's own check");
    }),
                 std::runtime_error);
  }
  float first_of(Value fetch) { return session.run(fetch, {{x, data}}).values<float>()[0]; }
};

TEST(StalePrograms, ANodeIsComputedByItsOwnProgramWhoseverNumberItHas) {
  Changing c;
  c.take_out_again([&] { EXPECT_EQ(c.first_of(c.x * 2.0F), 2.0F); });
  EXPECT_EQ(c.first_of(c.x * 3.0F), 3.0F);
  EXPECT_THROW(c.graph.build_at(Where::here(),
                                [&] {
                                  EXPECT_EQ(c.first_of(c.x * 5.0F), 5.0F);
                                  throw std::runtime_error("once more");
                                  return 0;
                                }),
               std::runtime_error);
  EXPECT_EQ(c.first_of(c.x * 7.0F), 7.0F);
}

TEST(StalePrograms, AnEdgeThatWasTakenOutServesNoOther) {
  Changing c;
  const Operation add_one = assign_add(c.w, fill(c.graph, {2}, 1)), add_ten = assign_add(c.w, fill(c.graph, {2}, 10));
  const Value z = relu(c.x);
  // As many edges each time, and a fetch of the same number.
  c.take_out_again([&] {
    c.graph.add_control_edge(add_one, Operation(z));
    (void)c.first_of(z);
  });
  EXPECT_EQ(c.session.read(c.w).values<float>()[0], 2.0F);
  c.graph.add_control_edge(add_ten, Operation(z));
  (void)c.first_of(z);
  EXPECT_EQ(c.session.read(c.w).values<float>()[0], 12.0F);
}

TEST(StalePrograms, AReplacedInputIsReadFromThenOn) {
  Changing c;
  const Value twice = c.x * 2.0F, thrice = c.x * 3.0F, y = relu(twice);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(c.first_of(y), 2.0F);
  c.take_out_again([&] {
    c.graph.replace_input(y.node(), 0, thrice);
    EXPECT_EQ(c.first_of(y), 3.0F);
  });
  EXPECT_EQ(c.first_of(y), 2.0F);
  c.graph.replace_input(y.node(), 0, thrice);
  EXPECT_EQ(c.first_of(y), 3.0F);
}

TEST(StalePrograms, AnOrderEdgeIsKeptFromThenOn) {
  Changing c;
  const Value a = relu(c.x), b = tanh(c.x);
  const auto comes_first = [&](Value value) {
    (void)c.session.run({a, b}, {{c.x, c.data}});
    for (const Step& step : engine(c.session).latest_program()->schedule.steps) {
      if (step.kind == StepKind::compute) return step.node == value.node().id();
    }
    return false;
  };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(comes_first(a));
  c.graph.add_order_edge(Operation(b), Operation(a));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(comes_first(b));
}

TEST(StalePrograms, TargetsAreThoseOfTheCall) {
  Changing c;
  const Operation add_one = assign_add(c.w, fill(c.graph, {2}, 1)), add_ten = assign_add(c.w, fill(c.graph, {2}, 10));
  const auto w_after = [&](const std::vector<Operation>& targets) {
    c.session.run({}, {.targets = targets});
    return c.session.read(c.w).values<float>()[0];
  };
  EXPECT_EQ(w_after({add_one}), 2.0F);
  EXPECT_EQ(w_after({add_ten}), 12.0F);
  EXPECT_EQ(w_after({add_one, add_ten}), 23.0F);
  EXPECT_EQ(w_after({add_one}), 24.0F);
}

TEST(StalePrograms, AnUpdateThatBecomesTrainingCompletesCyclesFromThenOn) {
  Changing c;
  const Operation update = assign_add(c.w, c.x);
  const RunOptions step{.targets = {update}};
  c.session.run({{c.x, c.data}}, step);
  EXPECT_EQ(c.session.completed_cycles(), 0U);
  c.graph.add_to_collection(kTrainingOperations, update);
  c.session.run({{c.x, c.data}}, step);
  EXPECT_EQ(c.session.completed_cycles(), 1U);
  Changing taken;
  const Operation other = assign_add(taken.w, taken.x);
  taken.take_out_again([&] {
    taken.graph.add_to_collection(kTrainingOperations, other);
    taken.session.run({{taken.x, taken.data}}, {.targets = {other}});
  });
  EXPECT_EQ(taken.session.completed_cycles(), 1U);
  taken.session.run({{taken.x, taken.data}}, {.targets = {other}});
  EXPECT_EQ(taken.session.completed_cycles(), 1U) << "it is no training operation any more";
}

TEST(StalePrograms, CountsAndPlacesAreNotThoseOfANodeThatHadTheNumberBefore) {
  Changing c;
  c.take_out_again([&] {
    (void)variable("first", fill(c.graph, {4}, 3));
    const Value y = relu(c.x);
    c.session.initialize();
    for (int i = 0; i < 3; ++i) (void)c.first_of(y);
    EXPECT_EQ(c.session.executions(y.node()), 3);
  });
  const Value second = variable("second", fill(c.graph, {64}, 4));
  const Value y = tanh(c.x);
  EXPECT_EQ(c.session.executions(y.node()), 0);
  (void)c.first_of(y);
  EXPECT_EQ(c.session.executions(y.node()), 1);
  EXPECT_THAT([&] { (void)c.session.read(second); }, ThrowsMessage<ArgumentError>(HasSubstr("it has no value yet")));
  EXPECT_THAT([&] { (void)c.session.run(second); },
              ThrowsMessage<ArgumentError>(HasSubstr("'second' was made after session.initialize()")));
  EXPECT_EQ(c.session.read(c.w).values<float>()[0], 1.0F) << "what was there before still is";
  c.session.initialize();
  EXPECT_EQ(c.session.read(second).values<float>()[63], 4.0F);
}

TEST(StalePrograms, AProgramOfNodesThatAreGoneIsRefusedAndNotShown) {
  Changing c;
  Executable* program = nullptr;
  c.take_out_again([&] {
    program = &engine(c.session).whole_program({c.x * 2.0F}, {{c.x, Shape{2}}});
    EXPECT_EQ(engine(c.session).latest_program(), program);
  });
  EXPECT_EQ(engine(c.session).latest_program(), nullptr);
  EXPECT_THAT(
      [&] {
        (void)engine(c.session).execute(*program, {{c.x, c.data}});
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("taken out of the graph"), HasSubstr("hint:"))));
}

TEST(StalePrograms, AProgramOutlivesAChangeThatFailsAndTouchesNoneOfItsNodes) {
  Changing c;
  const Value y = c.x * c.w;
  Executable& program = engine(c.session).whole_program({y}, {{c.x, Shape{2}}});
  c.take_out_again([&] { (void)relu(y); });
  EXPECT_EQ(engine(c.session).execute(program, {{c.x, c.data}})[0].values<float>()[1], 2.0F);
  EXPECT_EQ(engine(c.session).latest_program(), &program);
}

}  // namespace
}  // namespace sectionflow
