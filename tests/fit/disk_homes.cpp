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

/// A slow disk and links that make offloading cost something, and little effort.
FitBudgetOptions quick_fit() {
  return {.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e9, .link_out = 1e8, .link_in = 1e8}, .effort = 100};
}

ProgramReport planned(SessionOptions options, bool by_fit) {
  HomeCase homes(Momentum{}, options);
  if (by_fit) {
    fit_budget(*homes.session, quick_fit());
  } else {
    insert_swaps(*homes.session, {.profile = quick_fit().profile});
  }
  return homes.plan();
}

class FittedDiskHomes : public ::testing::TestWithParam<bool> {};  // or swaps alone
INSTANTIATE_TEST_SUITE_P(Planners, FittedDiskHomes, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fit" : "Swaps"; });

TEST_P(FittedDiskHomes, MoreOfAnyTierIsNeverSlowerNorRefused) {
  const std::size_t least_host = least_host_memory(Momentum{}, much_memory()).host_memory;
  const std::size_t device = HomeCase(Momentum{}, much_memory()).plan().planned_peak_bytes;
  struct Point {
    std::size_t device, host, disk;
    ProgramReport report;
  };
  std::vector<Point> points;
  int on_disk = 0;
  for (const std::size_t d : {device - device / 50, 2 * device}) {
    for (const std::size_t host : {least_host, 3 * least_host / 2, 2 * least_host, 3 * least_host, kMuch}) {
      for (const std::size_t disk : {std::size_t{0}, std::size_t{60'000}, kMuch}) {
        SessionOptions options = much_memory();
        options.device_memory = d;
        options.host_memory = host;
        options.disk = disk;
        points.push_back({d, host, disk, planned(options, GetParam())});
        on_disk += points.back().report.fits && points.back().report.disk_persistent_bytes > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(on_disk, 0);
  for (const Point& less : points) {
    for (const Point& more : points) {
      const bool is_more = less.device <= more.device && less.host <= more.host && less.disk <= more.disk;
      if (!is_more || !less.report.fits) continue;
      EXPECT_TRUE(more.report.fits) << more.device << " " << more.host << " " << more.disk;
      EXPECT_LE(more.report.predicted_seconds, less.report.predicted_seconds * (1 + 1e-12))
          << more.device << " " << more.host << " " << more.disk << " against " << less.device << " " << less.host
          << " " << less.disk;
    }
  }
}

TEST_P(FittedDiskHomes, GiveTheSameBitsInWhatWasPlanned) {
  HomeCase resident(Momentum{}, {.device_memory = kMuch});
  resident.session->initialize();
  SessionOptions options = least_host_memory(Momentum{}, much_memory(true));
  options.host_memory += options.host_memory / 4;
  HomeCase homes(Momentum{}, options);
  if (GetParam()) {
    fit_budget(*homes.session, quick_fit());
  } else {
    insert_swaps(*homes.session, {.profile = quick_fit().profile});
  }
  homes.session->initialize();
  const ProgramReport report = homes.plan();
  EXPECT_GT(report.disk_persistent_bytes, 0U);
  EXPECT_GT(report.predicted_seconds, 0);
  homes.session->set_measuring(true);
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(bitwise_equal(homes.step(step), resident.step(step)));
    EXPECT_EQ(homes.session->statistics().measured_host_peak_bytes, report.host_peak_bytes);
    EXPECT_EQ(homes.session->statistics().measured_disk_peak_bytes, report.disk_peak_bytes);
  }
  EXPECT_EQ(first_difference(resident.state(), homes.state()), "");
}

TEST(ExplainedDiskHomes, SayWhereTheirHomeIs) {
  HomeCase homes(Momentum{}, least_host_memory(Momentum{}, much_memory()));
  (void)homes.plan();
  const Explanation explanation = explain(*homes.session, {.price = false});
  EXPECT_TRUE(std::ranges::any_of(explanation.tensors, [](const ExplainedTensor& tensor) {
    return tensor.fate == Fate::on_disk && tensor.reason.find("home tier is the disk") != std::string::npos;
  }));
}

}  // namespace
}  // namespace sectionflow
