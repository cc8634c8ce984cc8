// Planned by the budget beside variables whose home tier is the disk.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fit/explain.h"
#include "fit/fit_budget.h"
#include "fit/insert_swaps.h"
#include "tests/support/home_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// A slow disk and links that make offloading cost something. By itself with little effort; 0: the usual one.
FitBudgetOptions quick_fit(std::int64_t effort = 1) {
  return {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e9, .link_out = 1e8, .link_in = 1e8}, .effort = effort};
}

ProgramReport planned(SessionOptions options, bool by_fit, std::int64_t effort) {
  HomeCase tried(Momentum{}, options);
  if (by_fit) {
    fit_budget(*tried.session, quick_fit(effort));
  } else {
    insert_swaps(*tried.session, {.profile = quick_fit().profile});
  }
  return tried.plan();
}

class FittedDiskHomes : public ::testing::TestWithParam<bool> {};  // or swaps alone
INSTANTIATE_TEST_SUITE_P(Planners, FittedDiskHomes, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fit" : "Swaps"; });

/// Every point of a grid of budgets against all that have no less of any tier.
void expect_monotone(bool by_fit, const std::vector<double>& hosts, const std::vector<std::size_t>& disks,
                     std::int64_t effort = 1) {
  const auto least_host = static_cast<double>(least_host_memory(Momentum{}, much_memory()).host_memory);
  const std::size_t device = HomeCase(Momentum{}, much_memory()).plan().planned_peak_bytes;
  std::vector<ProgramReport> reports;
  for (const std::size_t each : {device - device / 50, 2 * device}) {
    for (const double host : hosts) {
      for (const std::size_t disk : disks) {
        SessionOptions options = much_memory();
        options.device_memory = each;
        options.host_memory = static_cast<std::size_t>(host * least_host);
        options.disk = disk;
        reports.push_back(planned(options, by_fit, effort));
      }
    }
  }
  EXPECT_TRUE(std::ranges::any_of(
      reports, [](const ProgramReport& report) { return report.fits && report.disk_persistent_bytes > 0; }));
  for (const ProgramReport& less : reports) {
    for (const ProgramReport& more : reports) {
      const bool is_more = less.budget_bytes <= more.budget_bytes && less.host_budget_bytes <= more.host_budget_bytes &&
                           less.disk_budget_bytes <= more.disk_budget_bytes;
      if (!is_more || !less.fits) continue;
      SCOPED_TRACE(more.text() + "against\n" + less.text());
      EXPECT_TRUE(more.fits);
      EXPECT_LE(more.predicted_seconds, less.predicted_seconds * (1 + 1e-12));
    }
  }
}

TEST(SwappedDiskHomes, MoreOfAnyTierIsNeverSlowerNorRefused) {
  expect_monotone(false, {1, 1.5, 2, 100}, {0, kMuch});
}

TEST(ManyFittedDiskHomes, MoreOfAnyTierIsNeverSlowerNorRefused) {
  for (const bool by_fit : {false, true}) expect_monotone(by_fit, {1, 1.2, 1.5, 2, 3, 100}, {0, 60'000, kMuch});
}

/// With the usual effort layouts are planned below what the best so far takes.
TEST(FittedDiskHomesBySearch, MoreHostMemoryIsNeverSlower) {
  expect_monotone(true, {1.8, 2, 2.2, 2.4}, {kMuch}, 0);
}

TEST(ManyFittedDiskHomes, MoreOfAnyTierIsNeverSlowerNorRefusedBySearch) {
  expect_monotone(true, {1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.2, 2.4, 3}, {kMuch}, 0);
}

TEST(FittedDiskHomesBySearch, AreTheSameWheneverTheyArePlanned) {
  for (const double share : {1.2, 1.35, 1.75}) {
    SessionOptions options = least_host_memory(Momentum{}, much_memory());
    options.host_memory = static_cast<std::size_t>(share * static_cast<double>(options.host_memory));
    HomeCase tried(Momentum{}, options);
    fit_budget(*tried.session, quick_fit(0));
    const ProgramReport first = tried.plan();
    EXPECT_GT(first.predicted_seconds, 0) << share;
    for (int again = 0; again < 2; ++again) {
      const ProgramReport report = tried.plan();
      EXPECT_EQ(report.predicted_seconds, first.predicted_seconds) << share;
      EXPECT_EQ(report.disk_persistent_bytes, first.disk_persistent_bytes) << share;
      EXPECT_EQ(report.notes, first.notes) << share;
    }
  }
}

void initialize_planned(HomeCase& tried, bool by_fit) {
  if (by_fit) {
    fit_budget(*tried.session, quick_fit());
  } else {
    insert_swaps(*tried.session, {.profile = quick_fit().profile});
  }
  tried.session->initialize();
}

TEST_P(FittedDiskHomes, GiveTheSameBitsInWhatWasPlanned) {
  HomeCase resident(Momentum{}, {.device_memory = kMuch});
  resident.session->initialize();
  SessionOptions options = least_host_memory(Momentum{}, much_memory(true));
  options.host_memory += options.host_memory / 4;
  HomeCase tried(Momentum{}, options);
  initialize_planned(tried, GetParam());
  const ProgramReport report = tried.plan();
  EXPECT_GT(report.disk_persistent_bytes, 0U);
  EXPECT_GT(report.predicted_seconds, 0);
  tried.session->set_measuring(true);
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(bitwise_equal(tried.step(step), resident.step(step)));
    EXPECT_EQ(tried.session->statistics().measured_host_peak_bytes, report.host_peak_bytes);
    EXPECT_EQ(tried.session->statistics().measured_disk_peak_bytes, report.disk_peak_bytes);
  }
  EXPECT_EQ(first_difference(resident.state(), tried.state()), "");
}

TEST_P(FittedDiskHomes, StayWhereTrainingHasThemForEvaluations) {
  for (const double share : {1.0, 1.5, 2.5}) {
    SessionOptions options = least_host_memory(Momentum{}, much_memory());
    options.host_memory = static_cast<std::size_t>(share * static_cast<double>(options.host_memory));
    HomeCase tried(Momentum{}, options);
    initialize_planned(tried, GetParam());
    tried.step(0);
    const std::size_t trained = tried.bytes_on_disk();
    for (int step = 1; step < 3; ++step) {
      (void)tried.session->run({tried.loss}, tried.feeds(step));
      EXPECT_EQ(tried.bytes_on_disk(), trained) << share;
      tried.step(step);
      EXPECT_EQ(tried.bytes_on_disk(), trained) << share;
    }
  }
}

TEST(ExplainedDiskHomes, SayWhereTheirHomeIs) {
  HomeCase tried(Momentum{}, least_host_memory(Momentum{}, much_memory()));
  (void)tried.plan();
  const Explanation explanation = explain(*tried.session, {.price = false});
  EXPECT_TRUE(std::ranges::any_of(explanation.tensors, [](const ExplainedTensor& tensor) {
    return tensor.fate == Fate::on_disk && tensor.reason.find("home tier is the disk") != std::string::npos;
  }));
}

}  // namespace
}  // namespace sectionflow
