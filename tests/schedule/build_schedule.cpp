#include "schedule/build_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "runtime/check_feeds.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The instruction list as text: "feed x", "compute y", "fetch y".
std::vector<std::string> instructions(const Graph& graph, const RunRequest& request, const Feeds& feeds = {}) {
  const Signature signature = signature_of(graph, feeds);
  std::vector<std::string> texts;
  for (const Instruction& instruction : build_schedule(ConcreteGraph(graph, signature), request).instructions) {
    if (instruction.kind == StepKind::fetch) {
      texts.push_back("fetch " + instruction.fetched.name());
    } else {
      texts.push_back((instruction.kind == StepKind::feed ? "feed " : "compute ") +
                      graph.node(instruction.node).name());
    }
  }
  return texts;
}

std::ptrdiff_t place(const std::vector<std::string>& instructions, const std::string& instruction) {
  const auto found = std::find(instructions.begin(), instructions.end(), instruction);
  EXPECT_NE(found, instructions.end()) << instruction << " is missing of " << testing::PrintToString(instructions);
  return found - instructions.begin();
}

Value scalar_variable(Graph& graph, const char* name, float value) {
  return variable(name, constant(graph, value));
}

struct Machine {
  explicit Machine(Graph& graph) : session(graph, {.device_memory = 1_MiB, .threads = 1, .check_schedules = true}) {
    session.initialize();
  }
  Session session;
  float read(Value variable) { return session.read(variable).item<float>(); }
};

TEST(BuildSchedule, AnUpdateRunsAfterEveryReaderOfTheOldValue) {
  Graph graph;
  const Value w = scalar_variable(graph, "w", 3);
  const Operation update = assign(w, constant(graph, 10.0F));
  // Made after the update, and yet a reader of the old value.
  const Value squared = w * w;
  const Value later = squared + w;
  Machine m(graph);
  const auto [s, l, fetched] = m.session.run({squared, later, w}, {}, {.targets = {update}});
  EXPECT_EQ(s.item<float>(), 9);
  EXPECT_EQ(l.item<float>(), 12);
  EXPECT_EQ(fetched.item<float>(), 3) << "a fetched variable gives the value from before the update";
  EXPECT_EQ(m.read(w), 10);
}

TEST(BuildSchedule, AFetchedVariableIsReadFirstOfAll) {
  Graph graph;
  const Value w = scalar_variable(graph, "w", 3);
  const Operation update = assign_add(w, constant(graph, 1.0F, "one"));
  EXPECT_THAT(instructions(graph, {{w}, {update}}), ElementsAre("fetch w", "compute one", "compute " + update.name()));
}

TEST(BuildSchedule, SeveralUpdatesRunInTheOrderOfTheirMaking) {
  Graph graph;
  const Value w = scalar_variable(graph, "w", 3);
  const Operation first = assign(w, constant(graph, 5.0F));
  const Operation second = assign_add(w, constant(graph, 2.0F));
  const Operation third = assign_add(w, w * 10.0F);
  Machine m(graph);
  m.session.run({}, {.targets = {third, second, first}});
  EXPECT_EQ(m.read(w), 5 + 2 + 30) << "the product reads the old value";
}

TEST(BuildSchedule, SwappingTwoVariablesByAssignIsRefusedNamingTheCycle) {
  Graph graph;
  const Value a = scalar_variable(graph, "a", 1), b = scalar_variable(graph, "b", 2);
  const Operation to_a = assign(a, b), to_b = assign(b, a);
  Machine m(graph);
  EXPECT_THAT(
      ([&] {
        m.session.run({}, {.targets = {to_a, to_b}});
      }),
      ThrowsMessage<ArgumentError>(testing::AllOf(HasSubstr("cycle"), HasSubstr(to_a.name()), HasSubstr(to_b.name()))));
  EXPECT_EQ(m.read(a), 1) << "nothing has run";
  m.session.run({}, {.targets = {to_a}});
  EXPECT_EQ(m.read(a), 2) << "each alone is fine";
}

TEST(BuildSchedule, SwappingThroughCopiesWorks) {
  Graph graph;
  const Value a = scalar_variable(graph, "a", 1), b = scalar_variable(graph, "b", 2);
  const Operation to_a = assign(a, b + 0.0F), to_b = assign(b, a + 0.0F);
  Machine m(graph);
  m.session.run({}, {.targets = {to_a, to_b}});
  EXPECT_EQ(m.read(a), 2);
  EXPECT_EQ(m.read(b), 1);
}

TEST(BuildSchedule, ControlEdgesOrderSteps) {
  Graph graph;
  const Value x = placeholder(graph, "x", {});
  const Value late = relu(x), early = relu(x);
  graph.add_control_edge(Operation(early), Operation(late));
  const Feeds feeds = {{x, 1.0F}};
  const auto list = instructions(graph, {{late}, {}}, feeds);
  EXPECT_LT(place(list, "compute " + early.name()), place(list, "compute " + late.name()))
      << "the earlier operation is brought along";
}

TEST(BuildSchedule, ControlEdgesOrderUpdatesAgainstTheirNumbers) {
  Graph graph;
  const Value a = scalar_variable(graph, "a", 1), b = scalar_variable(graph, "b", 2);
  const Value one = constant(graph, 1.0F);
  const Operation first_made = assign_add(a, one), second_made = assign_add(b, one);
  graph.add_control_edge(second_made, first_made);
  const auto list = instructions(graph, {{}, {first_made}});
  EXPECT_LT(place(list, "compute " + second_made.name()), place(list, "compute " + first_made.name()));
}

TEST(BuildSchedule, ACycleOfControlEdgesIsRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {});
  const Value a = relu(x), b = relu(x);
  graph.add_control_edge(Operation(a), Operation(b));
  graph.add_control_edge(Operation(b), Operation(a));
  EXPECT_THAT(([&] { instructions(graph, {{a}, {}}, {{x, 1.0F}}); }), ThrowsMessage<ArgumentError>(HasSubstr("cycle")));
}

TEST(BuildSchedule, AGroupExecutesAllItsOperations) {
  Graph graph;
  const Value a = scalar_variable(graph, "a", 1), b = scalar_variable(graph, "b", 2);
  const Operation both = group(graph, {assign(a, constant(graph, 3.0F)), assign(b, constant(graph, 4.0F))});
  const Operation outer = group(graph, {both});
  Machine m(graph);
  m.session.run({}, {.targets = {outer}});
  EXPECT_EQ(m.read(a), 3);
  EXPECT_EQ(m.read(b), 4);
}

TEST(BuildSchedule, SourcesComeJustBeforeTheirFirstReader) {
  Graph graph;
  const Value late = placeholder(graph, "late", {});
  const Value x = placeholder(graph, "x", {});
  const Value a = relu(x), b = relu(a);
  const Value two = constant(graph, 2.0F, "two");
  const Value product = mul(b, two), sum = add(product, late), again = add(sum, two);
  EXPECT_THAT(
      instructions(graph, {{again}, {}}, {{x, 1.0F}, {late, 1.0F}}),
      ElementsAre("feed x", "compute " + a.name(), "compute " + b.name(), "compute two", "compute " + product.name(),
                  "feed late", "compute " + sum.name(), "compute " + again.name(), "fetch " + again.name()));
}

TEST(BuildSchedule, FetchesComeAsSoonAsTheirValueIsThere) {
  Graph graph;
  const Value x = placeholder(graph, "x", {});
  const Value a = relu(x), b = relu(a);
  EXPECT_THAT(instructions(graph, {{b, a, x, a}, {}}, {{x, 1.0F}}),
              ElementsAre("feed x", "fetch x", "compute " + a.name(), "fetch " + a.name(), "fetch " + a.name(),
                          "compute " + b.name(), "fetch " + b.name()));
}

TEST(BuildSchedule, OnlyWhatIsNeededIsExecuted) {
  Graph graph;
  const Value x = placeholder(graph, "x", {}), unused = placeholder(graph, "unused", {});
  const Value y = relu(x);
  relu(y);
  relu(unused);
  EXPECT_THAT(instructions(graph, {{y}, {}}, {{x, 1.0F}}),
              ElementsAre("feed x", "compute " + y.name(), "fetch " + y.name()));
  EXPECT_THAT(instructions(graph, {{}, {}}), ElementsAre());
}

TEST(BuildSchedule, MovingAverageUpdatesAreDroppedOutsideOfTraining) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 2});
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value y = batch_norm(x, is_training);
  const HostTensor batch(Dtype::f32, {4, 2});
  const RunRequest request{{y}, graph.operations(kUpdateOperations)};
  const auto training = instructions(graph, request, {{x, batch}, {is_training, true}});
  const auto evaluation = instructions(graph, request, {{x, batch}, {is_training, false}});
  const auto updates = [](const std::vector<std::string>& list) {
    return std::count_if(list.begin(), list.end(), [](const std::string& instruction) {
      return instruction.find("update_moving_average") != std::string::npos;
    });
  };
  EXPECT_EQ(updates(training), 2);
  EXPECT_EQ(updates(evaluation), 0);
  EXPECT_EQ(evaluation.size(), 3u) << testing::PrintToString(evaluation);
}

TEST(BuildSchedule, UpdatesComeAsSoonAsNoReaderIsLeft) {
  for (const bool adam : {false, true}) {
    Graph graph;
    const Value x = placeholder(graph, "x", {4, 3});
    const Value loss = mean(dense(relu(dense(x, {.features = 5})), {.features = 2}));
    const std::vector<Operation> updates = adam ? minimize(Adam{}, loss) : minimize(Sgd{}, loss);
    const HostTensor batch(Dtype::f32, {4, 3});
    const auto list = instructions(graph, {{loss}, updates}, {{x, batch}});
    const std::string apply = adam ? "apply_adam" : "apply_sgd";
    // Gradients die at once: that of a parameter is followed by its update wherever nobody else reads the parameter.
    for (const Operation& update : updates) {
      const Node& node = update.node();
      const auto kernel = node.inputs()[0].name() == "dense_1/kernel";
      if (node.op().name != apply || kernel) continue;
      const auto gradient = place(list, "compute " + node.inputs()[adam ? 3 : 1].node().name());
      const auto own = place(list, "compute " + node.name());
      EXPECT_LT(gradient, own);
      EXPECT_LE(own, gradient + 2) << node.name() << ": at most a learning rate comes between";
    }
  }
}

}  // namespace
}  // namespace sectionflow
