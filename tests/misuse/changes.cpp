// Misuse of sessions whose graph changes, and of graphs by the names of ops.

#include "swap/measure_profile.h"
#include "swap/profile.h"
#include "tests/misuse/misuse_case.h"
#include "tests/support/take_out_again.h"

namespace sectionflow::testing {
namespace {

using testing_support::take_out_again;

TEST(MisuseChanges, AnUnknownOpIsToldWithTheNearestThatIsThere) {
  SmallTraining t;
  expect_refused<ArgumentError>(
      state_of(t), [&] { t.graph.add_node("softmacks", {t.net.logits}, {}, "", Where::here()); },
      "SF-E010 ArgumentError: there is no op 'softmacks'"
      "\n  where:   " +
          line(__LINE__ - 3) +
          "\n  inputs:  'dense/bias_add' f32[?,5] (section 3)"
          "\n  hint:    did you mean 'softmax'?");
  expect_trains(t);
}

TEST(MisuseChanges, TheCountOfCyclesIsSetWhenThereAreValuesAndNothingIsPending) {
  SmallTraining t;
  Session fresh(t.graph, {.threads = 1});
  expect_refused<ArgumentError>(
      [&] { return fresh.completed_cycles(); }, [&] { fresh.set_completed_cycles(3); },
      "SF-E321 ArgumentError: set_completed_cycles: the session's variables have no values yet"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    call session.initialize() first: it sets the count to 0");
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  expect_refused<ArgumentError>(
      [&] { return t.session->completed_cycles(); }, [&] { t.session->set_completed_cycles(3); },
      "SF-E322 ArgumentError: set_completed_cycles: the backward half of a cycle is pending; call run_backward or "
      "discard_forward first"
      "\n  where:   " +
          line(__LINE__ - 4));
  t.manager.discard_forward(*t.session);
  expect_trains(t);
}

TEST(MisuseChanges, MeasuringAProgramOfAVariableThatIsMadeTooLateNamesIt) {
  SmallTraining t;
  const Value late = variable("late", fill(t.graph, {4}, 2));
  const int made = __LINE__ - 1;
  const Value sum = reduce_sum(relu(late));
  expect_refused<ArgumentError>(
      state_of(t.graph, t.manager), [&] { (void)measure_profile(*t.session, {sum}, {}); },
      "SF-E321 ArgumentError: variable 'late' was made after session.initialize()"
      "\n  variable: " +
          line(made) + "\n  hint:    make all variables, optimisers included, before it");
  t.session->initialize();
  EXPECT_GT(measure_profile(*t.session, {sum}, {}).kernel_seconds.size(), 0U);
}

TEST(MisuseChanges, InitialValuesInACircle) {
  SmallTraining t;
  const Value initial = relu(fill(t.graph, {2}, 3));
  const Value v = variable("v", initial);
  t.graph.replace_input(initial.node(), 0, v);
  expect_refused<ArgumentError>(
      [&] { return StateHash().add(t.graph).add(t.manager).value(); }, [&] { t.session->initialize(); },
      "SF-E011 ArgumentError: the graph has a cycle: relu_3 -> v/assign -> relu_3"
      "\n  where:   " +
          line(__LINE__ - 3) +
          "\n  needed:  for the initial values of variables, each of which is there before others read it"
          "\n  hint:    a node cannot wait for itself: drop one of its control edges, or read the "
          "variable before its update");
}

TEST(MisuseChanges, AHalfOfACycleWhoseNodesAreGone) {
  SmallTraining t;
  take_out_again(t.graph, [&] {
    const Value shown = reduce_sum(t.net.outputs[0]);
    (void)t.manager.run_forward(*t.session, {shown}, t.net.feeds());
  });
  expect_refused<ArgumentError>(
      state_of(t.graph, t.manager), [&] { t.manager.run_backward(*t.session); },
      "SF-E010 ArgumentError: the program computes nodes that have since been taken out of the graph, by a call that "
      "threw"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  hint:    discard a forward half that is pending, and begin the run again");
  t.manager.discard_forward(*t.session);
  expect_trains(t);
}

}  // namespace
}  // namespace sectionflow::testing
