// The cap, where nothing is offloaded: every budget from the smallest to twice that is kept to the byte; a byte less is
// refused.

#include <gtest/gtest.h>

#include <optional>

#include "tests/sections/small_net.h"
#include "tests/support/random_graph.h"

namespace sectionflow::testing {
namespace {

using testing_support::build_random_model;
using testing_support::random_batch;
using testing_support::random_optimizer;
using testing_support::RandomBatch;
using testing_support::RandomModel;

/// A random model, cut before every second layer.
struct CutModel {
  explicit CutModel(std::uint64_t seed, BorderPolicy borders = BorderPolicy::keep) {
    std::optional<SectionScope> section;
    model = build_random_model(graph, {.seed = seed, .min_layers = 4, .at_border = [&](int layer) {
                                         if (layer % 2 != 0) return;
                                         section.reset();
                                         section.emplace(manager.new_section());
                                       }});
    section.reset();
    manager.add_training_ops(random_optimizer(seed), model.loss, {.sections = {.borders = borders}});
    manager.prepare_training();
  }
  Graph graph;
  GraphSectionManager manager{graph};
  RandomModel model;
};

TEST(Caps, FromTheSmallestBudgetToTwiceThatNoneIsExceededAndOneByteLessIsRefused) {
  int budgets = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CutModel probe(seed);
    SCOPED_TRACE(probe.model.text);
    const RandomBatch batch = random_batch(probe.model, 1 + static_cast<std::int64_t>(seed % 5), seed);
    Session planner(probe.graph, {.threads = 1});
    const std::size_t minimum =
        probe.manager.plan(planner, {probe.model.loss}, batch.types(probe.model)).planned_peak_bytes;
    for (const std::size_t percent : {100U, 101U, 110U, 125U, 150U, 175U, 200U}) {
      const std::size_t budget = minimum * percent / 100;
      CutModel t(seed);
      Session session(t.graph, {.device_memory = budget, .threads = 1, .check_schedules = true});
      session.initialize();
      session.set_measuring(true);
      for (int cycle = 0; cycle < 3; ++cycle) {
        (void)t.manager.run_full_cycle(session, {t.model.loss}, batch.feeds(t.model));
        const Statistics& statistics = session.statistics();
        ASSERT_EQ(statistics.measured_peak_bytes, statistics.planned_peak_bytes) << percent << " %";
        ASSERT_LE(statistics.measured_peak_bytes, budget) << percent << " %";
      }
      ++budgets;
    }
    CutModel t(seed);
    Session session(t.graph, {.device_memory = minimum - 1, .threads = 1});
    session.initialize();
    const TrainingState before{read_variables(session), {}};
    EXPECT_THROW((void)t.manager.run_full_cycle(session, {t.model.loss}, batch.feeds(t.model)), BudgetError);
    EXPECT_EQ(first_difference(before, {read_variables(session), {}}), "");
  }
  EXPECT_EQ(budgets, 84);
}

}  // namespace
}  // namespace sectionflow::testing
