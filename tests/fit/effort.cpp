// How long is searched decides how quick a plan is, and not whether there is one.

#include <gtest/gtest.h>

#include <limits>

#include "examples/models/zoo.h"
#include "tests/fit/fit_case.h"
#include "tests/support/budget_grid.h"

namespace sectionflow::testing {
namespace {

/// A transformer, of which the first walks find no plan for as little memory as a search does.
ProgramReport planned(std::size_t device_memory, std::int64_t effort) {
  const ZooModel model = zoo_model("gpt", {.width = 16, .layers = 1, .heads = 2, .sequence = 16, .vocabulary = 64});
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel built = model.build(graph, manager);
  Session session(graph, checked({}, device_memory));
  fit_budget(session, {.may_swap = false, .effort = effort});
  const Batch batch = model.batch({.batch = 4});
  return session.plan({built.loss}, types_of(built.feeds(batch)), {.targets = manager.training_operations()});
}

TEST(Effort, ThatIsLowRefusesNothingThatTheUsualOneFits) {
  constexpr std::int64_t kLow = 1, kUsual = 0;
  const std::size_t whole = planned(1_GiB, kUsual).planned_peak_bytes;
  // Below what one operation alone needs nothing is searched for.
  const std::size_t floor = planned(1, kUsual).planned_peak_bytes, least = planned(floor, kUsual).planned_peak_bytes;
  ASSERT_LT(least, whole);
  EXPECT_LE(planned(floor, kLow).planned_peak_bytes, least) << "the minimum that is told";
  double before = std::numeric_limits<double>::infinity();
  for (const std::size_t budget : even_steps(least, whole, 8)) {
    SCOPED_TRACE(budget);
    const ProgramReport report = planned(budget, kLow);
    EXPECT_TRUE(report.fits);
    EXPECT_LE(report.predicted_seconds, before);
    before = report.predicted_seconds;
  }
}

}  // namespace
}  // namespace sectionflow::testing
