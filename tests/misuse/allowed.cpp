// Rows of the misuse table that are allowed: no error, the same bits as the whole graph, and the plan says so.

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "graph/ops/layout.h"
#include "graph/ops/random.h"
#include "runtime/engine.h"
#include "tests/misuse/misuse_case.h"

namespace sectionflow::testing {
namespace {

/// Dense layers in three sections, with room for what a test adds.
struct ThreeSections {
  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {8, 6});
  HostTensor data = random_images({8, 6}, 4, 0);
  std::optional<Session> session;

  void prepare(Value trained) {
    loss = trained;
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
    manager.prepare_training();
    session.emplace(graph, SessionOptions{.threads = 2, .check_schedules = true});
    session->initialize();
  }
  std::vector<std::string> notes(std::vector<Value> fetches = {}) {
    return manager.plan(*session, fetches, {{x, Shape{8, 6}}}).notes;
  }
  /// Three cycles over sections give the bytes of three steps over the whole graph.
  void expect_exact() {
    Session whole(graph, {.threads = 2});
    whole.initialize();
    for (int step = 0; step < 3; ++step) {
      const auto [a] = manager.run_full_cycle(*session, {loss}, {{x, data}});
      const auto [b] = whole.run({loss}, {{x, data}}, {.targets = manager.training_operations()});
      EXPECT_TRUE(bitwise_equal(a, b)) << step;
    }
    EXPECT_EQ(first_difference(TrainingState{read_variables(*session), {}}, TrainingState{read_variables(whole), {}}),
              "");
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (graph.node(id).op().recompute != Recompute::once) continue;
      EXPECT_EQ(session->executions(graph.node(id)), whole.executions(graph.node(id))) << graph.node(id).label();
    }
  }
  Value loss;
};

TEST(Allowed, ATensorThatFarSectionsReadIsKeptOnceAndThePlanListsItWithItsBytes) {
  ThreeSections t;
  Value skip, y, loss;
  {
    auto section = t.manager.new_section();
    skip = relu(dense(t.x, {.features = 5}));
  }
  {
    auto section = t.manager.new_section();
    y = relu(dense(skip, {.features = 5}));
  }
  {
    auto section = t.manager.new_section();
    loss = mean(y * skip);
  }
  t.prepare(loss);
  EXPECT_EQ(t.notes(),
            std::vector<std::string>{"'relu' of section 0, 160 B (160 bytes), is kept once for sections 1, 2"});
  // Once: one buffer of that value reaches into the backward half.
  const Program* program = nullptr;
  (void)t.manager.run_forward(*t.session, {t.loss}, {{t.x, t.data}});
  program = engine(*t.session).pending();
  ASSERT_NE(program, nullptr);
  const auto& buffers = program->schedule.buffers;
  EXPECT_EQ(std::count_if(buffers.begin(), buffers.end(),
                          [&](const Buffer& buffer) {
                            return buffer.value == skip && buffer.life.first < program->schedule.half &&
                                   buffer.life.last >= program->schedule.half;
                          }),
            1);
  t.manager.discard_forward(*t.session);
  t.expect_exact();
}

TEST(Allowed, ATensorThatIsKeptUnderAnotherNameIsListedToo) {
  ThreeSections t;
  Value skip, y, loss;
  {
    auto section = t.manager.new_section();
    skip = reshape(relu(dense(t.x, {.features = 5})), {40});
  }
  {
    auto section = t.manager.new_section();
    y = relu(dense(reshape(skip, {8, 5}), {.features = 5}));
  }
  {
    auto section = t.manager.new_section();
    loss = mean(reshape(y, {40}) * skip);
  }
  t.prepare(loss);
  const std::vector<std::string> notes = t.notes();
  EXPECT_EQ(std::count_if(notes.begin(), notes.end(),
                          [](const std::string& note) {
                            return note.starts_with("'relu' of section 0, 160 B (160 bytes), is kept once for section");
                          }),
            1);
  t.expect_exact();
}

TEST(Allowed, AVariableOfSeveralSectionsHasItsGradientsSummedOnceAndIsListed) {
  ThreeSections t;
  Value w, y, loss;
  {
    auto section = t.manager.new_section();
    w = variable("shared", fill(t.graph, {6}, 0.5));
    y = relu(t.x * w);
  }
  {
    auto section = t.manager.new_section();
    y = relu(y * w);
  }
  {
    auto section = t.manager.new_section();
    loss = mean(y * w);
  }
  t.prepare(loss);
  EXPECT_EQ(t.notes({t.loss}),
            std::vector<std::string>{"variable 'shared' is shared by sections 0, 1, 2: its gradients are summed "
                                     "once; updated once, in the backward run of section 0"});
  t.expect_exact();
  int sums = 0;
  for (NodeId id = 0; id < t.graph.num_nodes(); ++id) sums += t.graph.node(id).op().name == "add_n";
  EXPECT_EQ(sums, 2) << "of three contributions";
}

TEST(Allowed, ARandomOperationOutsideOfAllSectionsIsDrawnOncePerCycle) {
  ThreeSections t;
  const Value noise = random_normal(t.graph, {8, 6});
  Value y, loss;
  {
    auto section = t.manager.new_section();
    y = relu(dense(t.x + noise, {.features = 6}));
  }
  {
    auto section = t.manager.new_section();
    loss = mean(y * noise);
  }
  t.prepare(loss);
  EXPECT_EQ(t.notes(),
            std::vector<std::string>{"random 'random_normal' stands outside of all sections: drawn once per cycle"});
  t.expect_exact();
  EXPECT_EQ(t.session->executions(noise.node()), 3) << "three cycles";
}

TEST(Allowed, ALossOutsideOfAllSections) {
  ThreeSections t;
  Value y;
  {
    auto section = t.manager.new_section();
    y = dense(t.x, {.features = 2});
  }
  LogLines log;
  t.prepare(mean(y));
  const std::string note = "the loss 'reduce_mean' stands outside of all sections; usually the last one computes it";
  EXPECT_EQ(log.lines, std::vector<std::string>{"warning: prepare_training: " + note});
  EXPECT_EQ(t.notes(), std::vector<std::string>{note});
  t.expect_exact();
}

TEST(Allowed, ASumOfLossesOutsideOfAllSectionsIsWorthNoWord) {
  ThreeSections t;
  Value y = t.x;
  std::vector<Value> losses;
  for (int k = 0; k < 3; ++k) {
    auto section = t.manager.new_section();
    y = dense(y, {.features = 6});
    losses.push_back(reduce_sum(square(y)));
  }
  LogLines log;
  // What a batch counts is of its feed alone.
  t.prepare(add_n(losses) / reduce_sum(abs(t.x)));
  EXPECT_TRUE(log.lines.empty()) << log.lines.front();
  EXPECT_TRUE(t.notes().empty()) << t.notes().front();
  t.expect_exact();
}

TEST(Allowed, ASumOfLossesAndOfSquaredVariablesOutsideOfAllSectionsIsTold) {
  ThreeSections t;
  Value loss;
  {
    auto section = t.manager.new_section();
    loss = mean(dense(t.x, {.features = 2, .name = "dense"}));
  }
  LogLines log;
  t.prepare(loss + reduce_sum(square(t.graph.find("dense/kernel").output())));
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_TRUE(log.lines[0].ends_with("' stands outside of all sections; usually the last one computes it"));
}

TEST(Allowed, ALossBeforeTheLastSectionNamesTheSectionsWithoutAGradient) {
  ThreeSections t;
  Value y, loss;
  {
    auto section = t.manager.new_section("trained");
    y = dense(t.x, {.features = 2});
    loss = mean(y);
  }
  const int opened = __LINE__ - 4;
  {
    auto section = t.manager.new_section("later");
    y = relu(y);
  }
  {
    auto section = t.manager.new_section();
    y = y * 2.0F;
  }
  LogLines log;
  t.prepare(loss);
  const std::string note = text_of("the loss 'reduce_mean' is in section 0 'trained', allowed.cpp:", opened,
                                   "; later sections get no gradient: section 1 'later', section 2");
  EXPECT_EQ(log.lines, std::vector<std::string>{"warning: prepare_training: " + note});
  EXPECT_EQ(t.notes(), std::vector<std::string>{note});
  t.expect_exact();
}

TEST(Allowed, AnEmptySectionIsWarnedOfAndDroppedFromThePlan) {
  ThreeSections t;
  Value y, loss;
  {
    auto section = t.manager.new_section();
    y = dense(t.x, {.features = 2});
  }
  const int opened = __LINE__ + 1;
  { auto section = t.manager.new_section("nothing"); }
  {
    auto section = t.manager.new_section();
    loss = mean(y);
  }
  LogLines log;
  t.prepare(loss);
  const std::string note = text_of("section 1 'nothing', allowed.cpp:", opened, " is empty: dropped from the plan");
  ASSERT_FALSE(log.lines.empty());
  EXPECT_EQ(log.lines[0], "warning: prepare_training: " + note);
  const auto notes = t.notes();
  EXPECT_NE(std::find(notes.begin(), notes.end(), note), notes.end());
  t.expect_exact();
  EXPECT_EQ(t.manager.runs(1).forward, 0);
  EXPECT_EQ(t.manager.runs(1).backward, 0);
  EXPECT_EQ(t.manager.runs(2).backward, 3);
}

TEST(Allowed, AFetchOutsideOfAllSectionsTellsThePassThatEvaluatesIt) {
  ThreeSections t;
  Value y, loss;
  {
    auto section = t.manager.new_section();
    y = dense(t.x, {.features = 2});
  }
  {
    auto section = t.manager.new_section();
    loss = mean(y);
  }
  const Value of_feed = relu(t.x), of_section = relu(y);
  t.prepare(loss);
  EXPECT_EQ(t.notes({of_feed, of_section}),
            (std::vector<std::string>{
                "fetch 'relu' stands outside of all sections: evaluated in the forward pass",
                "fetch 'relu_1' stands outside of all sections: evaluated in the backward run of section 0"}));
  const auto [a, b] = t.manager.run_full_cycle(*t.session, {of_feed, of_section}, {{t.x, t.data}});
  Session whole(t.graph, {.threads = 2});
  whole.initialize();
  const auto [c, d] = whole.run({of_feed, of_section}, {{t.x, t.data}});
  EXPECT_TRUE(bitwise_equal(a, c));
  EXPECT_TRUE(bitwise_equal(b, d));
}

TEST(Allowed, AFetchOfWhatThePlanHasFreedExtendsThePlanAndItsPeakIsCheckedAgainstTheCap) {
  SmallTraining probe;
  const FeedTypes types = probe.net.types(6);
  const std::vector<Value> plain = {probe.net.loss};
  std::vector<Value> interior = plain;
  for (const Value& value : probe.net.convolved) interior.push_back(value);
  const std::size_t without = probe.manager.plan(*probe.session, plain, types).planned_peak_bytes;
  const std::size_t with = probe.manager.plan(*probe.session, interior, types).planned_peak_bytes;
  ASSERT_GE(with, without);
  for (const std::size_t budget : {with, with - 1}) {
    SmallTraining t({.device_memory = budget, .threads = 2}, {.borders = BorderPolicy::keep});
    std::vector<Value> fetches = {t.net.loss};
    for (const Value& value : t.net.convolved) fetches.push_back(value);
    if (budget == with) {
      const auto fetched = t.manager.run_full_cycle(*t.session, fetches, t.net.feeds());
      SmallTraining whole;
      const auto wanted = whole.session->run(
          std::vector<Value>{whole.net.loss, whole.net.convolved[0], whole.net.convolved[1], whole.net.convolved[2]},
          whole.net.feeds());
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(bitwise_equal(fetched[i], wanted[i])) << i;
      continue;
    }
    const std::uint64_t before = state_of(t)();
    const std::string text =
        whole_error_text<BudgetError>([&] { (void)t.manager.run_full_cycle(*t.session, fetches, t.net.feeds()); });
    EXPECT_NE(text.find(text_of("device_memory of ", with, " bytes")), std::string::npos) << text;
    EXPECT_EQ(state_of(t)(), before);
    if (without < with) expect_trains(t);
  }
}

}  // namespace
}  // namespace sectionflow::testing
