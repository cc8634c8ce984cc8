// What the planner makes of automatic interiors: it computes again what it may, and nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/engine.h"
#include "tests/sections/small_net.h"

namespace sectionflow::testing {
namespace {

const SectionOptions kAutomatic{.interior = InteriorPolicy::automatic};

/// A small training of sections of which some have options of their own.
struct MixedTraining {
  MixedTraining(const std::map<int, SectionOptions>& own, SectionOptions others, SessionOptions options = {})
      : net(graph, manager, own) {
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss, {.sections = std::move(others)});
    manager.prepare_training();
    options.threads = 1;
    options.check_schedules = true;
    session = std::make_unique<Session>(graph, options);
  }
  ProgramReport plan() { return manager.plan(*session, {net.loss}, net.types(6)); }
  void begin() { session->initialize(); }
  void step() { (void)manager.run_full_cycle(*session, {net.loss}, net.feeds()); }
  /// How often the cycle executes the node of a value.
  int executions(Value value) {
    Trace trace;
    session->set_trace(&trace);
    step();
    session->set_trace(nullptr);
    return static_cast<int>(std::count_if(trace.events().begin(), trace.events().end(), [&](const Trace::Event& event) {
      return event.kind == StepKind::compute && event.node == value.node().id();
    }));
  }
  TrainingState state() { return {read_variables(*session), {}}; }

  Graph graph;
  GraphSectionManager manager{graph};
  SmallNet net;
  std::unique_ptr<Session> session;
};

/// A device memory `percent` of the way from the least that the options take to what they take with all memory.
std::size_t between(const std::map<int, SectionOptions>& own, const SectionOptions& others, std::size_t percent) {
  const std::size_t most = MixedTraining(own, others).plan().planned_peak_bytes;
  const std::size_t least = MixedTraining(own, others, {.device_memory = 1}).plan().planned_peak_bytes;
  return least + (most - least) * percent / 100;
}

TEST(InteriorPlans, SectionsThatKeepAreNotComputedAgainAndSectionsThatRecomputeAreOnce) {
  const std::map<int, SectionOptions> own = {{0, {.interior = InteriorPolicy::keep}}, {1, {}}};
  MixedTraining plain({}, {.borders = BorderPolicy::keep});
  plain.begin();
  for (int i = 0; i < 2; ++i) plain.step();
  for (const std::size_t percent : {0U, 40U, 80U}) {
    SCOPED_TRACE(percent);
    MixedTraining t(own, kAutomatic, {.device_memory = between(own, kAutomatic, percent)});
    EXPECT_TRUE(t.plan().fits);
    t.begin();
    EXPECT_EQ(t.executions(t.net.convolved[0]), 1);
    EXPECT_EQ(t.executions(t.net.convolved[1]), 2);
    EXPECT_EQ(first_difference(plain.state(), t.state()), "");
  }
}

TEST(InteriorPlans, ATensorWithAPolicyOfItsOwnIsNotComputedAgain) {
  const MixedTraining probe({}, kAutomatic);
  SectionOptions named = kAutomatic;
  named.tensors = {{probe.net.convolved[0].name(), BorderPolicy::keep}};
  for (const std::size_t percent : {0U, 50U}) {
    MixedTraining t({}, named, {.device_memory = between({}, named, percent)});
    EXPECT_TRUE(t.plan().fits);
    t.begin();
    EXPECT_EQ(t.executions(t.net.convolved[0]), 1) << percent;
  }
}

TEST(InteriorPlans, WhatIsOffloadedInAnyCaseIsUnderEveryBudget) {
  const SectionOptions forced{.borders = BorderPolicy::host, .interior = InteriorPolicy::automatic};
  MixedTraining plain({}, {.borders = BorderPolicy::keep});
  plain.begin();
  plain.step();
  const std::size_t borders = MixedTraining({}, forced).plan().bytes_out;
  EXPECT_GT(borders, 0U);
  for (const std::size_t percent : {0U, 30U, 60U, 100U}) {
    SCOPED_TRACE(percent);
    MixedTraining t({}, forced, {.device_memory = between({}, forced, percent)});
    const ProgramReport report = t.plan();
    EXPECT_TRUE(report.fits);
    EXPECT_GE(report.bytes_out, borders);
    EXPECT_EQ(report.recomputed_operations > 0 || report.bytes_out > borders, percent < 100);
    t.begin();
    t.session->set_measuring(true);
    t.step();
    EXPECT_EQ(t.session->statistics().measured_peak_bytes, report.planned_peak_bytes);
    EXPECT_EQ(first_difference(plain.state(), t.state()), "");
  }
}

TEST(InteriorPlans, AreNoSlowerThanAllAgainAndTakeEveryBudgetThatThisTakes) {
  const SectionOptions again{};
  for (const std::size_t percent : {0U, 20U, 40U, 60U, 80U, 100U}) {
    SCOPED_TRACE(percent);
    const std::size_t budget = between({}, again, percent);
    const ProgramReport all = MixedTraining({}, again, {.device_memory = budget}).plan();
    const ProgramReport planned = MixedTraining({}, kAutomatic, {.device_memory = budget}).plan();
    EXPECT_TRUE(all.fits);
    EXPECT_TRUE(planned.fits);
    EXPECT_LE(planned.predicted_seconds, all.predicted_seconds);
  }
}

TEST(InteriorPlans, TheSameBudgetGivesTheSamePlan) {
  const std::size_t budget = between({}, kAutomatic, 35);
  const ProgramReport first = MixedTraining({}, kAutomatic, {.device_memory = budget}).plan();
  const ProgramReport second = MixedTraining({}, kAutomatic, {.device_memory = budget}).plan();
  EXPECT_EQ(first.text(), second.text());
}

TEST(InteriorPlans, NotesSayWhatIsComputedAgainByWhosePlan) {
  const std::size_t all_again = MixedTraining({}, {.borders = BorderPolicy::keep}).plan().planned_peak_bytes;
  const std::size_t budget = (all_again + MixedTraining({}, kAutomatic).plan().planned_peak_bytes) / 2;
  MixedTraining t({}, kAutomatic, {.device_memory = budget, .host_memory = 1});
  const ProgramReport report = t.plan();
  ASSERT_TRUE(report.fits);
  ASSERT_GT(report.recomputed_operations, 0);
  EXPECT_THAT(report.notes, ::testing::Contains(::testing::HasSubstr("sections: ")));
}

}  // namespace
}  // namespace sectionflow::testing
