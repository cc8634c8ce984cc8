// Misuse of sections.

#include <new>
#include <optional>

#include "tests/misuse/misuse_case.h"

namespace sectionflow::testing {
namespace {

struct Empty {
  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {4, 3});
  State state = state_of(graph, manager);

  /// A section with a loss.
  void add_head() {
    auto section = manager.new_section("head");
    loss = mean(dense(x, {.features = 1}));
  }
  void expect_trains() {
    if (manager.training_operations().empty()) manager.add_training_ops(Sgd{}, loss);
    if (!manager.is_prepared()) manager.prepare_training();
    Session session(graph, {.threads = 1});
    session.initialize();
    const HostTensor data = random_images({4, 3}, 1, 0);
    (void)manager.run_full_cycle(session, {loss}, {{x, data}});
    EXPECT_EQ(session.completed_cycles(), 1U);
  }
  Value loss;
};

TEST(MisuseSections, NestedSectionsNameBothLines) {
  Empty t;
  const int opened = __LINE__ + 2;
  {
    auto outer = t.manager.new_section("outer");
    expect_refused<ArgumentError>(
        t.state, [&] { (void)t.manager.new_section("inner"); },
        "SF-E201 ArgumentError: new_section('inner') inside section 'outer'; sections do not nest"
        "\n  where:   " +
            line(__LINE__ - 3) + "\n  earlier: section 0 'outer', " + line(opened) +
            "\n  hint:    end the scope of the first before");
    t.loss = mean(dense(t.x, {.features = 1}));
    EXPECT_EQ(t.loss.node().group(), outer.section().group());
  }
  t.expect_trains();
}

TEST(MisuseSections, ASectionThatWasNotClosedIsNamedWithItsLine) {
  Empty t;
  const int opened = __LINE__ + 1;
  std::optional<SectionScope> moved_away(t.manager.new_section("stem"));
  t.loss = mean(dense(t.x, {.features = 1}));
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.add_training_ops(Sgd{}, t.loss); },
      "SF-E202 ArgumentError: add_training_ops inside section 'stem'"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  earlier: section 0 'stem', " + line(opened) + "\n  hint:    end its scope first");
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.prepare_training(); },
      "SF-E202 ArgumentError: prepare_training: section 'stem' is still open"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  earlier: section 0 'stem', " + line(opened) + "\n  hint:    end its scope first");
  moved_away.reset();
  t.expect_trains();
}

TEST(MisuseSections, ADuplicateNameNamesTheFirstDefinition) {
  Empty t;
  const int first = __LINE__ + 1;
  { auto section = t.manager.new_section("twin"); }
  expect_refused<ArgumentError>(
      t.state, [&] { (void)t.manager.new_section("twin"); },
      "SF-E203 ArgumentError: new_section('twin'): section 0 has that name already"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  earlier: section 0 'twin', " + line(first) +
          "\n  hint:    take another name, or none");
  t.add_head();
  t.expect_trains();
}

TEST(MisuseSections, ASectionAfterPreparationNamesBothLines) {
  Empty t;
  t.add_head();
  t.manager.add_training_ops(Sgd{}, t.loss);
  t.manager.prepare_training();
  const int prepared = __LINE__ - 1;
  expect_refused<ArgumentError>(
      t.state, [&] { (void)t.manager.new_section("late"); },
      "SF-E204 ArgumentError: new_section('late') after prepare_training()"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  earlier: prepare_training(), " + line(prepared) +
          "\n  hint:    make all sections before it");
  t.expect_trains();
}

TEST(MisuseSections, ACycleBeforePreparationNamesTheCallToMake) {
  Empty t;
  t.add_head();
  t.manager.add_training_ops(Sgd{}, t.loss);
  Session session(t.graph, {.threads = 1});
  session.initialize();
  const HostTensor data = random_images({4, 3}, 1, 0);
  const auto golden = [](const char* call, int number) {
    return text_of("SF-E205 ArgumentError: ", call, " before prepare_training()\n  where:   ", line(number),
                   "\n  hint:    call manager.prepare_training() first, once the graph is complete");
  };
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        (void)t.manager.run_full_cycle(session, {t.loss}, {{t.x, data}});
      },
      golden("run_full_cycle", __LINE__ - 2));
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        (void)t.manager.run_forward(session, {t.loss}, {{t.x, data}});
      },
      golden("run_forward", __LINE__ - 2));
  expect_refused<ArgumentError>(
      t.state, [&] { (void)t.manager.run_backward(session); }, golden("run_backward", __LINE__));
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        (void)t.manager.plan(session, {t.loss}, {{t.x, Shape{4, 3}}});
      },
      golden("plan", __LINE__ - 2));
  EXPECT_THROW((void)t.manager.section(0).tensors_to_feed(), ArgumentError);
  t.expect_trains();
}

TEST(MisuseSections, SectionsInACircleNameBothTensorsAndBothSections) {
  Empty t;
  {
    auto section = t.manager.new_section("stem");
    t.loss = relu(t.x);
  }
  {
    auto section = t.manager.new_section("body");
    t.loss = t.loss * 2.0F;
  }
  const int maker = __LINE__ - 2;
  {
    // A reader that is made later, but stamped as the first section's.
    const auto group = t.graph.enter_group(t.manager.section(0).group());
    t.loss = mean(dense(t.loss, {.features = 1}));
  }
  const int reader = __LINE__ - 2;
  t.manager.add_training_ops(Sgd{}, t.loss);
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.prepare_training(); },
      "SF-E206 ArgumentError: section 0 'stem': matmul 'dense/matmul' needs 'mul' of section 1 'body'; sections must "
      "be "
      "in topological order"
      "\n  where:   " +
          line(__LINE__ - 5) + "\n  reader:  section 0 'stem', " + line(reader) + "\n  maker:   section 1 'body', " +
          line(maker) +
          "\n  cycle:   section 1 'body' reads 'relu' of section 0 'stem'"
          "\n  hint:    open the reader's section later");
  // Training the whole graph needs no order of sections.
  Session session(t.graph, {.threads = 1});
  session.initialize();
  const HostTensor data = random_images({4, 3}, 1, 0);
  session.run({{t.x, data}}, {.targets = t.manager.training_operations()});
  EXPECT_EQ(session.completed_cycles(), 1U);
}

TEST(MisuseSections, AnExceptionOfTheUserInASectionMarksIt) {
  Empty t;
  const int opened = __LINE__ + 2;
  try {
    auto section = t.manager.new_section("broken");
    t.loss = mean(dense(t.x, {.features = 1}));
    throw std::runtime_error("the user's own");
  } catch (const std::runtime_error&) {
  }
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.add_training_ops(Sgd{}, t.loss); },
      "SF-E207 ArgumentError: add_training_ops: section 'broken' was left by an exception while "
      "it was built"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  earlier: section 0 'broken', " + line(opened) +
          "\n  hint:    build the graph anew");
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.prepare_training(); },
      "SF-E207 ArgumentError: prepare_training: section 'broken' was left by an exception while "
      "it was built"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  earlier: section 0 'broken', " + line(opened) +
          "\n  hint:    build the graph anew");
  EXPECT_EQ(t.graph.current_group(), kNoGroup);
  { auto section = t.manager.new_section("next"); }  // no crash, and no nesting
}

TEST(MisuseSections, ASecondManagerOfOneGraphIsRefusedAtTheCall) {
  Graph graph;
  const int first = __LINE__ + 1;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  const State state = state_of(graph, manager);
  expect_refused<ArgumentError>(
      state, [&] { GraphSectionManager second(graph); },
      "SF-E200 ArgumentError: a section manager has this graph already; a graph has one at a time, "
      "which trains all of its update_operations"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  earlier: the manager made at " + line(first) +
          "\n  hint:    use the first one, or build the model once more in a graph of its own");
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  EXPECT_EQ(session.completed_cycles(), 1U);
}

TEST(MisuseSections, NothingToTrain) {
  Empty t;
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.prepare_training(); },
      "SF-E208 ArgumentError: prepare_training: there is no section"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    open one with new_section()");
  const Value loss = mean(dense(t.x, {.features = 1, .name = "outside"}));
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.add_training_ops(Sgd{}, loss); },
      "SF-E208 ArgumentError: add_training_ops: there is no section"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    open one with new_section(), or have them placed by place_cuts()");
  Empty other;
  other.add_head();
  expect_refused<ArgumentError>(
      other.state, [&] { other.manager.prepare_training(); },
      "SF-E208 ArgumentError: prepare_training: nothing to train"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    call add_training_ops first");
  other.expect_trains();
}

TEST(MisuseSections, TrainingOperationsAreAddedOnce) {
  Empty t;
  t.add_head();
  t.manager.add_training_ops(Sgd{}, t.loss);
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.add_training_ops(Sgd{}, t.loss); },
      "SF-E209 ArgumentError: add_training_ops was called before; a manager trains one loss"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    train the weighted sum of several losses");
  t.expect_trains();
}

}  // namespace
}  // namespace sectionflow::testing
