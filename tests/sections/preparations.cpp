// Training that is prepared again, or taken out of the graph again, and several sessions at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stdexcept>

#include "graph/ops/update.h"
#include "runtime/engine.h"
#include "tests/sections/small_net.h"
#include "tests/support/take_out_again.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::take_out_again;

/// A small net with a counter that nothing counts up yet.
struct Counting {
  Graph graph;
  GraphSectionManager manager{graph};
  Value counter = variable("counter", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  SmallNet net{graph, manager};
  std::optional<Session> session;

  Counting() {
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss);
    manager.prepare_training();
    session.emplace(graph, SessionOptions{.threads = 1, .check_schedules = true});
    session->initialize();
  }
  Operation count_up() { return assign_add(counter, fill(graph, {}, 1, Dtype::i64)); }
  void train_by_updates_of_one_more() {
    graph.add_to_collection(kUpdateOperations, count_up());
    manager.prepare_training();
  }
  void cycle() { (void)manager.run_full_cycle(*session, {net.loss}, net.feeds()); }
  std::int64_t counted() { return session->read(counter).item<std::int64_t>(); }
};

TEST(Preparations, ASecondOneHasCyclesRunTheUpdatesThatCameBetween) {
  Counting c;
  c.cycle();
  const std::size_t before = c.manager.training_operations().size();
  c.train_by_updates_of_one_more();
  EXPECT_EQ(c.manager.training_operations().size(), before + 1);
  c.cycle();
  c.cycle();
  EXPECT_EQ(c.counted(), 2);
  (void)c.manager.run_forward(*c.session, {c.net.loss}, c.net.feeds());
  c.manager.run_backward(*c.session);
  EXPECT_EQ(c.counted(), 3);
  c.session->run({c.net.loss}, c.net.feeds(), {.targets = c.manager.training_operations()});
  EXPECT_EQ(c.counted(), 4);
  EXPECT_EQ(c.session->completed_cycles(), 5U);
}

TEST(Preparations, ASecondOneThatFindsNothingNewKeepsThePrograms) {
  Counting c;
  c.cycle();
  const Program* program = engine(*c.session).latest_program();
  c.manager.prepare_training();
  c.cycle();
  EXPECT_EQ(engine(*c.session).latest_program(), program);
}

TEST(Preparations, ACycleEndsWithTheUpdatesThatItBeganWith) {
  Counting plain, fetching;
  for (Counting* c : {&plain, &fetching}) {
    (void)c->manager.run_forward(*c->session, {c->net.loss}, c->net.feeds());
    c->train_by_updates_of_one_more();
  }
  plain.manager.run_backward(*plain.session);
  (void)fetching.manager.run_backward(*fetching.session, std::vector<std::vector<Value>>{{fetching.net.outputs[0]}});
  EXPECT_EQ(plain.counted(), 0);
  EXPECT_EQ(fetching.counted(), 0) << "a fetch must not decide what is trained";
  EXPECT_EQ(first_difference(TrainingState{read_variables(*plain.session), {}},
                             TrainingState{read_variables(*fetching.session), {}}),
            "");
  for (Counting* c : {&plain, &fetching}) {
    c->cycle();
    EXPECT_EQ(c->counted(), 1);
  }
}

TEST(Preparations, OneThatIsTakenOutOfTheGraphAgainIsForgotten) {
  Counting c;
  c.cycle();
  const std::size_t before = c.manager.training_operations().size();
  take_out_again(c.graph, [&] {
    c.train_by_updates_of_one_more();
    c.cycle();
  });
  EXPECT_EQ(c.counted(), 1);
  EXPECT_EQ(c.manager.training_operations().size(), before);
  c.cycle();
  EXPECT_EQ(c.counted(), 1);
  EXPECT_TRUE(c.manager.is_prepared());
  c.train_by_updates_of_one_more();
  c.cycle();
  EXPECT_EQ(c.counted(), 2);
}

TEST(Preparations, TrainingAndSectionsThatAreTakenOutAgainLeaveTheManagerAsItWas) {
  SmallTraining undisturbed;
  Graph graph;
  GraphSectionManager manager(graph);
  std::optional<SmallNet> net;
  const int nodes_at_first = graph.num_nodes();
  take_out_again(graph, [&] {
    net.emplace(graph, manager);
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net->loss);
    manager.prepare_training();
    Session session(graph, {.threads = 2});
    session.initialize();
    (void)manager.run_full_cycle(session, {net->loss}, net->feeds());
  });
  EXPECT_EQ(graph.num_nodes(), nodes_at_first);
  EXPECT_TRUE(manager.sections().empty());
  EXPECT_TRUE(manager.training_operations().empty());
  EXPECT_FALSE(manager.is_prepared());
  net.emplace(graph, manager);
  EXPECT_THROW(graph.all_or_nothing([&] {
    manager.add_training_ops(Sgd{}, net->loss);
    throw std::runtime_error("another optimizer is meant");
  }),
               std::runtime_error);
  EXPECT_TRUE(manager.training_operations().empty());
  manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net->loss);
  manager.prepare_training();
  Session session(graph, {.threads = 2, .check_schedules = true});
  session.initialize();
  for (int step = 0; step < 2; ++step) {
    (void)manager.run_full_cycle(session, {net->loss}, net->feeds());
    (void)undisturbed.manager.run_full_cycle(*undisturbed.session, {undisturbed.net.loss}, undisturbed.net.feeds());
  }
  EXPECT_EQ(first_difference(undisturbed.state(), TrainingState{read_variables(session), {}}), "");
}

TEST(Preparations, AManagerThatIsGoneIsLeftOutWhenItsGraphIsTakenBack) {
  Graph graph;
  take_out_again(graph, [&] {
    GraphSectionManager manager(graph);
    SmallNet net(graph, manager);
    manager.add_training_ops(Sgd{}, net.loss);
    manager.prepare_training();
  });
  EXPECT_EQ(graph.num_nodes(), 0);
  EXPECT_NO_THROW(GraphSectionManager{graph});
}

TEST(Preparations, ASectionThatIsHeldLongerThanItsGraphKeepsItEndsWithoutHarm) {
  Graph graph;
  GraphSectionManager manager(graph);
  std::optional<SectionScope> scope;
  take_out_again(graph, [&] { scope.emplace(manager.new_section("first")); });
  EXPECT_TRUE(manager.sections().empty());
  scope.reset();
  { auto section = manager.new_section("first"); }
  EXPECT_EQ(manager.sections().size(), 1U);
}

TEST(Preparations, ChoicesOfTensorsThatAreTakenOutAgainAreForgotten) {
  SmallTraining t;
  const auto run = [&] { (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds()); };
  take_out_again(t.graph, [&] {
    auto feed = t.manager.section(1).tensors_to_feed();
    Value extra;
    {
      const auto entered = t.graph.enter_group(t.manager.section(1).group());
      extra = relu(t.net.convolved[1]);
    }
    feed.push_back(extra);
    t.manager.section(1).set_tensors_to_feed(feed, Hold::always);
  });
  (void)tanh(t.net.convolved[0]);  // has the number
  run();
  SmallTraining undisturbed;
  (void)undisturbed.manager.run_full_cycle(*undisturbed.session, {undisturbed.net.loss}, undisturbed.net.feeds());
  EXPECT_EQ(first_difference(undisturbed.state(), t.state()), "");
}

TEST(Preparations, OptionsThatNameATensorThatIsTakenOutAgainAreForgotten) {
  SmallTraining t;
  take_out_again(t.graph, [&] {
    const Value shown = relu(t.net.logits);
    t.manager.set_section_options({.tensors = {{shown.name(), BorderPolicy::keep}}});
  });
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->completed_cycles(), 1U);
}

TEST(Preparations, ACycleThatWasPlannedByAChoiceThatIsTakenBackIsNotExecuted) {
  struct TakenBack {};
  Counting c;
  c.cycle();
  const std::size_t on_host = c.session->statistics().planned_host_peak_bytes;
  c.graph.add_to_collection(kUpdateOperations, c.count_up());
  const auto plan_and_take_back = [&](const std::function<void()>& choose) {
    const auto change = [&] {
      choose();
      (void)c.manager.plan(*c.session, {c.net.loss}, types_of(c.net.feeds()));
      throw TakenBack();
    };
    EXPECT_THROW(c.graph.all_or_nothing(change), TakenBack);
  };
  plan_and_take_back([&] { c.manager.prepare_training(); });
  c.cycle();
  EXPECT_EQ(c.counted(), 0) << "an update that training_operations() does not name";
  plan_and_take_back([&] { c.manager.set_section_options({.borders = BorderPolicy::host}); });
  c.cycle();
  EXPECT_EQ(c.session->statistics().planned_host_peak_bytes, on_host);
}

/// A small net with updates that minimize() adds beside the manager's, before it is prepared or after it.
struct WithMinimize {
  explicit WithMinimize(bool late) {
    const auto add = [&] { others.targets = minimize(Adam{.learning_rate = 1e-1F}, mean(net.logits * net.logits)); };
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss);
    if (!late) add();
    manager.prepare_training();
    if (late) add();
    session.emplace(graph, SessionOptions{.threads = 1, .check_schedules = true});
    session->initialize();
  }

  Graph graph;
  GraphSectionManager manager{graph};
  SmallNet net{graph, manager};
  RunOptions others;
  std::optional<Session> session;
};

TEST(Preparations, WhatMinimizeAddsIsNoPartOfACycleAndThePlanSaysSo) {
  Counting alone;
  alone.cycle();
  const auto expected = read_variables(*alone.session);
  for (const bool late : {false, true}) {
    WithMinimize both(late);
    const std::size_t own = both.manager.training_operations().size();
    (void)both.manager.run_full_cycle(*both.session, {both.net.loss}, both.net.feeds());
    EXPECT_EQ(both.manager.training_operations().size(), own);
    for (const auto& [name, tensor] : expected) {
      if (name != alone.counter.name()) {
        EXPECT_TRUE(bitwise_equal(tensor, both.session->read(both.graph.find(name).output()))) << name;
      }
    }
    const ProgramReport report = both.manager.plan(*both.session, {both.net.loss}, both.net.types(6));
    EXPECT_THAT(report.notes,
                ::testing::Contains(HasSubstr(text_of("the graph has ", both.others.targets.size(),
                                                      " training operations that add_training_ops has not made"))));
    // They are a session's to run.
    const HostTensor before = both.session->read(both.graph.values(kTrainableVariables)[0]);
    both.session->run(both.net.feeds(), both.others);
    EXPECT_FALSE(bitwise_equal(before, both.session->read(both.graph.values(kTrainableVariables)[0])));
    EXPECT_EQ(both.session->completed_cycles(), 2U);
  }
}

TEST(HalvesOfTwoSessions, AreEachRunToTheirEndByOneManager) {
  SmallTraining t;
  Session other(t.graph, {.threads = 2, .check_schedules = true});
  other.initialize();
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  (void)t.manager.run_forward(other, {t.net.loss}, t.net.feeds());
  t.manager.run_backward(*t.session);
  (void)t.manager.run_backward(other, std::vector<std::vector<Value>>{{t.net.outputs[0]}});
  EXPECT_EQ(first_difference(t.state(), TrainingState{read_variables(other), {}}), "");
  EXPECT_EQ(t.session->completed_cycles(), 1U);
  EXPECT_EQ(other.completed_cycles(), 1U);
}

TEST(HalvesOfTwoSessions, ThatOfAnotherManagerIsRefused) {
  Graph graph;
  std::optional<GraphSectionManager> first(std::in_place, graph);
  const SmallNet net(graph, *first);
  first->add_training_ops(Sgd{}, net.loss);
  first->prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  (void)first->run_forward(session, {net.loss}, net.feeds());
  first.reset();
  GraphSectionManager second(graph);
  const auto known = static_cast<std::ptrdiff_t>(graph.values(kTrainableVariables).size());
  Value loss;
  {
    auto section = second.new_section();
    loss = mean(dense(net.outputs[0], {.features = 1}));
  }
  const std::vector<Value> all = graph.values(kTrainableVariables);
  second.add_training_ops(Sgd{}, loss, {.variables = {all.begin() + known, all.end()}});
  second.prepare_training();
  EXPECT_THAT([&] { second.run_backward(session); },
              ThrowsMessage<ArgumentError>(HasSubstr("run by another section manager")));
  EXPECT_NE(engine(session).pending(), nullptr);
  second.discard_forward(session);
  EXPECT_EQ(engine(session).pending(), nullptr);
}

TEST(HalvesOfChangingGraphs, AHalfOutlivesACallThatFailsAndIsRefusedWhenItsNodesAreGone) {
  SmallTraining t;
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_THROW((void)dense(t.net.images, {.features = -1}), Error);
  take_out_again(t.graph, [&] { (void)relu(t.net.logits); });
  t.manager.run_backward(*t.session);
  EXPECT_EQ(t.session->completed_cycles(), 1U);
  take_out_again(t.graph, [&] {
    const Value shown = mean(t.net.outputs[0]);
    (void)t.manager.run_forward(*t.session, {shown}, t.net.feeds());
  });
  EXPECT_THAT([&] { t.manager.run_backward(*t.session); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("taken out of the graph"), HasSubstr("discard"))));
  EXPECT_THAT(([&] { (void)t.manager.run_backward(*t.session, std::vector<std::vector<Value>>{{t.net.outputs[0]}}); }),
              ThrowsMessage<ArgumentError>(HasSubstr("taken out of the graph")));
  t.manager.discard_forward(*t.session);
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->completed_cycles(), 2U);
}

TEST(HalvesOfLittleMemory, AHalfIsExecutedToItsEndHoweverLittleProgramsMayTake) {
  SmallTraining all, none({.program_memory = 0, .threads = 2});
  for (int step = 0; step < 2; ++step) {
    for (SmallTraining* t : {&all, &none}) {
      (void)t->manager.run_forward(*t->session, {t->net.loss}, t->net.feeds());
      const Program* pending = engine(*t->session).pending();
      // Others are compiled in between.
      for (std::int64_t batch = 1; batch < 4; ++batch)
        (void)t->manager.plan(*t->session, {t->net.loss}, t->net.types(batch));
      EXPECT_EQ(engine(*t->session).pending(), pending);
      (void)t->manager.run_backward(*t->session, std::vector<std::vector<Value>>{{t->net.outputs[0]}});
    }
    EXPECT_EQ(first_difference(all.state(), none.state()), "");
  }
  EXPECT_EQ(all.session->statistics().programs_evicted, 0);
  EXPECT_GT(none.session->statistics().programs_evicted, 4);
}

}  // namespace
}  // namespace sectionflow::testing
