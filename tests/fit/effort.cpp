// How long is searched decides how quick a plan is, and not whether there is one.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "examples/models/zoo.h"
#include "tests/fit/fit_case.h"
#include "tests/support/budget_grid.h"

namespace sectionflow::testing {
namespace {

/// A transformer, of which the first walks find no plan for as little memory as a search does.
ProgramReport planned(const SessionOptions& options, const FitBudgetOptions& fit) {
  const ZooModel model = zoo_model("gpt", {.width = 16, .layers = 1, .heads = 2, .sequence = 16, .vocabulary = 64});
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel built = model.build(graph, manager);
  Session session(graph, options);
  fit_budget(session, fit);
  const Batch batch = model.batch({.batch = 4});
  return session.plan({built.loss}, types_of(built.feeds(batch)), {.targets = manager.training_operations()});
}

ProgramReport planned(std::size_t device_memory, std::int64_t effort) {
  return planned(checked({}, device_memory), {.may_swap = false, .effort = effort});
}

bool is_searched_once_more(const ProgramReport& report) {
  return std::ranges::any_of(
      report.notes, [](const std::string& note) { return note.find("searched once more") != std::string::npos; });
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

TEST(Effort, ThatIsLowIsAllThereIsWhereOffloadingFits) {
  constexpr std::int64_t kLow = 1;
  const std::size_t floor = planned(1, kLow).planned_peak_bytes, least = planned(floor, kLow).planned_peak_bytes;
  EXPECT_TRUE(is_searched_once_more(planned(least, kLow))) << "nothing is offloaded";
  SessionOptions options = checked({}, least);
  const ProgramReport offloaded = planned(options, {.effort = kLow});
  EXPECT_TRUE(offloaded.fits);
  EXPECT_FALSE(is_searched_once_more(offloaded));
  // From no host memory, where the usual effort has to help, to what offloading takes.
  bool has_helped = false;
  double before = std::numeric_limits<double>::infinity();
  for (const std::size_t host : {std::size_t{1}, least / 8, 2 * least}) {
    SCOPED_TRACE(host);
    options.host_memory = host;
    const ProgramReport report = planned(options, {.effort = kLow});
    EXPECT_TRUE(report.fits);
    EXPECT_LE(report.predicted_seconds, before);
    before = report.predicted_seconds;
    has_helped = has_helped || is_searched_once_more(report);
  }
  EXPECT_TRUE(has_helped);
}

}  // namespace
}  // namespace sectionflow::testing
