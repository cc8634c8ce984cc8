// Wrong calls get a typed error that names what came and what was wanted, and nothing has changed.

#include <gtest/gtest.h>

#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

void expect_in(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

TEST(Misuse, SectionsDoNotNest) {
  Graph graph;
  GraphSectionManager manager(graph);
  auto outer = manager.new_section("outer");
  expect_in(error_text<ArgumentError>([&] { (void)manager.new_section("inner"); }), {"outer", "inner", "do not nest"});
  EXPECT_EQ(manager.sections().size(), 1U);
}

TEST(Misuse, DuplicateSectionNameIsRefused) {
  Graph graph;
  GraphSectionManager manager(graph);
  { auto section = manager.new_section("twin"); }
  expect_in(error_text<ArgumentError>([&] { (void)manager.new_section("twin"); }), {"twin", "section 0"});
}

TEST(Misuse, CyclesNeedPreparation) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss);
  Session session(graph);
  session.initialize();
  expect_in(error_text<ArgumentError>([&] { (void)manager.run_full_cycle(session, {net.loss}, net.feeds()); }),
            {"run_full_cycle", "prepare_training()"});
  EXPECT_THROW((void)manager.section(0).tensors_to_feed(), ArgumentError);
}

TEST(Misuse, PreparationNeedsSectionsAndTrainingOperations) {
  Graph graph;
  GraphSectionManager manager(graph);
  expect_in(error_text<ArgumentError>([&] { manager.prepare_training(); }), {"no section", "new_section()"});
  SmallNet net(graph, manager);
  expect_in(error_text<ArgumentError>([&] { manager.prepare_training(); }), {"add_training_ops"});
  {
    Graph other;
    GraphSectionManager open(other);
    auto section = open.new_section("still here");
    expect_in(error_text<ArgumentError>([&] { open.prepare_training(); }), {"still here", "open"});
  }
}

TEST(Misuse, NoSectionAfterPreparation) {
  SmallTraining t;
  expect_in(error_text<ArgumentError>([&] { (void)t.manager.new_section("late"); }), {"late", "prepare_training()"});
}

TEST(Misuse, TrainingOperationsAreAddedOnce) {
  SmallTraining t;
  EXPECT_THROW(t.manager.add_training_ops(Sgd{}, t.net.loss), ArgumentError);
}

TEST(Misuse, EarlierSectionThatReadsFromALaterOneIsRefusedNamingBoth) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4, 3});
  Value a, loss;
  {
    auto first = manager.new_section();
    a = dense(x, {.features = 3});
  }
  {
    auto second = manager.new_section();
    a = relu(a);
  }
  {
    // A reader made later, but stamped as the first section's.
    const auto group = graph.enter_group(manager.section(0).group());
    loss = mean(dense(a, {.features = 1}));
  }
  manager.add_training_ops(Sgd{}, loss);
  expect_in(error_text<ArgumentError>([&] { manager.prepare_training(); }),
            {"section 0", "section 1", "relu", "topological order"});
}

TEST(Misuse, ExceptionInsideASectionMarksIt) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4, 3});
  Value loss;
  try {
    auto section = manager.new_section("broken");
    loss = mean(dense(x, {.features = 1}));
    throw std::runtime_error("user");
  } catch (const std::runtime_error&) {
  }
  expect_in(error_text<ArgumentError>([&] { manager.add_training_ops(Sgd{}, loss); }), {"broken", "exception"});
}

TEST(Misuse, MissingFeedChangesNothingAndTheNextCycleWorks) {
  SmallTraining t;
  const TrainingState before = t.state();
  const Feeds incomplete = {{t.net.images, t.net.x}, {t.net.is_training, true}};
  expect_in(error_text<ArgumentError>([&] { (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, incomplete); }),
            {"'labels'", "i32", "not fed", "'images'"});
  EXPECT_EQ(first_difference(before, t.state()), "");
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->completed_cycles(), 1U);
}

TEST(Misuse, SessionOfAnotherGraphIsRefused) {
  SmallTraining a, b;
  EXPECT_THROW((void)a.manager.run_full_cycle(*b.session, {a.net.loss}, a.net.feeds()), ArgumentError);
  EXPECT_THROW((void)a.manager.run_full_cycle(*a.session, {b.net.loss}, a.net.feeds()), ArgumentError);
}

TEST(Misuse, VariableThatTheLossDoesNotReachIsNamed) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  (void)variable("lonely", fill(graph, {3}, 0));
  expect_in(error_text<ArgumentError>([&] { manager.add_training_ops(Sgd{}, net.loss); }), {"'lonely'", "not reached"});
}

}  // namespace
}  // namespace sectionflow::testing
