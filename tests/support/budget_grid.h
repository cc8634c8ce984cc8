#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "runtime/session.h"

namespace sectionflow::testing {

using PlanInBudgets = std::function<ProgramReport(std::size_t device, std::size_t host)>;

/// `count` budgets in even steps, both ends included.
inline std::vector<std::size_t> even_steps(std::size_t first, std::size_t last, int count) {
  std::vector<std::size_t> steps;
  for (int i = 0; i < count; ++i) {
    steps.push_back(first + (last - first) / static_cast<std::size_t>(count - 1) * static_cast<std::size_t>(i));
  }
  steps.back() = last;
  return steps;
}

/// Expects that more of either memory is never slower by its prediction and never makes a plan that does not fit. Both
/// ascending. How many plans fit.
inline int expect_monotone(const PlanInBudgets& plan, const std::vector<std::size_t>& devices,
                           const std::vector<std::size_t>& hosts) {
  std::vector<ProgramReport> reports;  // of the row before, then of this one
  int fitting = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < hosts.size(); ++j) {
      reports.push_back(plan(devices[i], hosts[j]));
      const ProgramReport& more = reports.back();
      fitting += more.fits ? 1 : 0;
      const auto compare = [&](const ProgramReport& less, const char* what) {
        if (!less.fits) return;
        EXPECT_TRUE(more.fits) << "device " << devices[i] << ", host " << hosts[j] << ", less " << what << " fits";
        EXPECT_LE(more.predicted_seconds, less.predicted_seconds)
            << "device " << devices[i] << ", host " << hosts[j] << ", less " << what << " is faster";
      };
      if (i > 0) compare(reports[reports.size() - 1 - hosts.size()], "device memory");
      if (j > 0) compare(reports[reports.size() - 2], "host memory");
    }
  }
  return fitting;
}

}  // namespace sectionflow::testing
