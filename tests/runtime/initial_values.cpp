// The order of initial assignments, where an initial value reads variables.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "graph/graph_file.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/random.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<SessionOptions> sessions() {
  const SessionOptions plain{.device_memory = 1_MiB, .threads = 1, .check_schedules = true};
  SessionOptions on_host = plain, copied = plain, poisoned = plain;
  on_host.swap_variables = copied.swap_variables = true;
  copied.copy_threads = true;
  poisoned.poison = true;
  return {plain, on_host, copied, poisoned};
}

/// v1 = relu(v2 * 2) + v3, v2 = 7, v3 = v2 + v2: each made before what its initial value reads.
void build(Graph& graph) {
  const Value first = relu(fill(graph, {2}, 3)), last = first + fill(graph, {2}, 0);
  (void)variable("v1", last);
  const Value third = fill(graph, {2}, 1) + fill(graph, {2}, 2);
  const Value v3 = variable("v3", third);
  const Value v2 = variable("v2", fill(graph, {2}, 7));
  graph.replace_input(first.node(), 0, v2 * 2.0F);
  graph.replace_input(last.node(), 1, v3);
  graph.replace_input(third.node(), 0, v2);
  graph.replace_input(third.node(), 1, v2);
}

float first_of(Session& session, const char* name) {
  return session.read(session.graph().find(name).output()).values<float>()[0];
}

void expect_values(Graph& graph) {
  for (const SessionOptions& options : sessions()) {
    Session session(graph, options);
    for (int time = 0; time < 2; ++time) {
      session.initialize();
      EXPECT_EQ(first_of(session, "v2"), 7.0F);
      EXPECT_EQ(first_of(session, "v3"), 14.0F);
      EXPECT_EQ(first_of(session, "v1"), 28.0F) << "time " << time;
      // What variables hold by now must not show the next time.
      for (const char* name : {"v1", "v2", "v3"}) {
        session.write(graph.find(name).output(), HostTensor::of<float>({2}, {1000, 1000}));
      }
    }
  }
}

TEST(InitialValues, AreReadAsTheyAreGivenWhoeverReadsThem) {
  Graph graph;
  build(graph);
  expect_values(graph);
}

TEST(InitialValues, OfALoadedGraphWhoseEdgesPointForwardAreTheSame) {
  Graph graph, loaded;
  build(graph);
  load_graph_text(loaded, graph_text(graph));
  expect_values(loaded);
}

TEST(InitialValues, ThatReadEachOtherInACircleAreRefusedAndNothingChanges) {
  Graph graph;
  const Value a_first = relu(fill(graph, {2}, 3)), b_first = relu(fill(graph, {2}, 4));
  const Value a = variable("a", a_first), b = variable("b", b_first);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  graph.replace_input(a_first.node(), 0, b);
  graph.replace_input(b_first.node(), 0, a);
  EXPECT_THAT([&] { session.initialize(); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E011"), HasSubstr("initial value"), HasSubstr("relu"))));
  EXPECT_EQ(first_of(session, "a"), 3.0F);
  EXPECT_EQ(first_of(session, "b"), 4.0F);
}

TEST(InitialValues, OfAVariableThatReadsItselfAreRefused) {
  Graph graph;
  const Value initial = relu(fill(graph, {2}, 3));
  const Value v = variable("v", initial);
  graph.replace_input(initial.node(), 0, v);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  EXPECT_THAT([&] { session.initialize(); }, ThrowsMessage<ArgumentError>(HasSubstr("SF-E011")));
}

TEST(InitialValues, ARunThatAssignsOneStillReadsWhatWasThereBefore) {
  Graph graph;
  const Value v = variable("v", fill(graph, {2}, 3));
  const Value twice = v * 2.0F;
  Session session(graph, {.device_memory = 1_MiB, .threads = 1, .check_schedules = true});
  session.initialize();
  session.write(v, HostTensor::of<float>({2}, {5, 5}));
  const auto [fetched] = session.run({twice}, {}, {.targets = {initializer_of(v)}});
  EXPECT_EQ(fetched.values<float>()[0], 10.0F);
  EXPECT_EQ(first_of(session, "v"), 3.0F);
}

}  // namespace
}  // namespace sectionflow
