// More memory in any tier, or in several: never predicted slower, and never refused, whatever the effort is.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/models/zoo.h"
#include "tests/fit/fit_case.h"
#include "tests/support/dice.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

struct Budgets {
  std::size_t device = 0, host = 0, disk = 0;
  bool is_within(const Budgets& other) const {
    return device <= other.device && host <= other.host && disk <= other.disk;
  }
};

/// A network, who carries its copies, and how it is fitted.
struct Subject {
  std::string name{};
  TrainingCase net{};
  SessionOptions session{};
  FitBudgetOptions fit{};

  ProgramReport planned(const Budgets& budgets) const {
    SessionOptions options = session;
    options.threads = 1;
    options.device_memory = budgets.device;
    options.host_memory = budgets.host;
    options.disk = budgets.disk;
    return Fitted(net, options, fit).plan();
  }
};

/// Of one layer and heads of its own, whose first walks find no plan for as little memory as a search does.
TrainingCase transformer() {
  return {"transformer", [](Graph& graph, GraphSectionManager& manager) {
            const ZooModel model =
                zoo_model("gpt", {.width = 16, .layers = 1, .heads = 2, .sequence = 16, .vocabulary = 64});
            const TrainableModel built = model.build(graph, manager);
            const auto batch = std::make_shared<Batch>(model.batch({.batch = 4}));
            return TrainingNet{built.loss, [=](std::int64_t, FeedStore&) { return built.feeds(*batch); }};
          }};
}

Subject random_subject(std::uint64_t seed) {
  Dice dice(seed + 5'000'000);
  constexpr std::int64_t efforts[] = {1, 300, 3'000, 12'000, 40'000};
  constexpr double rates[] = {1e7, 1e8, 1e9};
  Subject subject;
  const std::int64_t kind = dice.between(0, 3);
  if (kind == 0) {
    subject.net = transformer();
  } else {
    TrainingSpec spec = random_spec(seed);
    spec.sections = {};
    spec.sections_differ = false;
    subject.net = training_case(spec);
  }
  const double link = rates[dice.between(0, 2)];
  subject.session.copy_threads = dice.chance(50);
  subject.session.swap_variables = dice.chance(20);
  subject.fit.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e8, .link_out = link, .link_in = link};
  subject.fit.effort = efforts[dice.between(0, 4)];
  subject.name = text_of("seed ", seed, ": ", subject.net.name, ", effort ", subject.fit.effort, ", link ", link,
                         subject.session.copy_threads ? ", threads" : ", team",
                         subject.session.swap_variables ? ", variables on the host" : "");
  return subject;
}

/// From a byte to `most`, each power of two as likely as the next.
std::size_t of_any_size(Dice& dice, std::size_t most) {
  const double exponent = std::log2(static_cast<double>(most)) * static_cast<double>(dice.between(0, 1000)) / 1000;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::exp2(exponent)));
}

/// Plans for `count` budgets of the subject, each against all that it is within.
void expect_monotone(const Subject& subject, std::uint64_t seed, int count) {
  SCOPED_TRACE(subject.name);
  constexpr std::size_t kPlenty = 1_GiB;
  const std::size_t whole = subject.planned({kPlenty, kPlenty, 0}).planned_peak_bytes;
  const std::size_t floor = subject.planned({1, kPlenty, 0}).planned_peak_bytes;
  ASSERT_LE(floor, whole);
  Dice dice(seed);
  struct Point {
    Budgets budgets{};
    bool fits = false;
    double seconds = 0;
  };
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) {
    Budgets budgets;
    // Few amounts of device memory, so that many have the same; most of them small.
    const std::size_t step = static_cast<std::size_t>(dice.between(0, 7) * dice.between(0, 7));
    budgets.device = floor + floor / 128 * (step % 5) + (whole - floor) / 64 * step;
    if (dice.chance(10)) budgets.device = floor + floor / 256 * static_cast<std::size_t>(dice.between(0, 5));
    budgets.host = dice.chance(15) ? kPlenty : of_any_size(dice, 2 * whole);
    if (dice.chance(30)) budgets.disk = dice.chance(50) ? kPlenty : of_any_size(dice, whole);
    const ProgramReport report = subject.planned(budgets);
    points.push_back({budgets, report.fits, report.predicted_seconds});
  }
  for (const Point& less : points) {
    for (const Point& more : points) {
      if (!less.fits || !less.budgets.is_within(more.budgets)) continue;
      const auto text = [](const Budgets& budgets) {
        return text_of(budgets.device, " of device memory, ", budgets.host, " of host memory, ", budgets.disk,
                       " of disk");
      };
      EXPECT_TRUE(more.fits) << text(more.budgets) << ", and it fits " << text(less.budgets);
      if (!more.fits) continue;
      EXPECT_LE(more.seconds, less.seconds) << text(more.budgets) << ", against " << text(less.budgets);
    }
  }
}

void expect_monotone_subjects(std::uint64_t first, std::uint64_t last, int count) {
  for (std::uint64_t seed = first; seed <= last; ++seed) expect_monotone(random_subject(seed), seed, count);
}

TEST(MonotoneFits, UnderFiftyBudgetsOfAllTiersByAnyEffort) {
  expect_monotone_subjects(1, 3, 50);
}

TEST(ManyMonotoneFits, UnderFiftyBudgetsOfAllTiersByAnyEffort) {
  expect_monotone_subjects(101, 200, 50);
}

}  // namespace
}  // namespace sectionflow::testing
