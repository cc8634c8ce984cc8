#pragma once

#include <string>
#include <vector>

#include "tests/support/training_case.h"

namespace sectionflow::testing {

/// A way to offload tensors: policies, tiers, carriers, and a budget.
struct OffloadCase {
  std::string name{};
  SectionOptions sections{};
  SessionOptions session{};
  int budget = -1;  ///< as TrainOptions::budget

  /// Whether a plan is searched for, which takes far longer than training by it.
  bool searches() const;
};

/// Every policy with every other at least once, who carries and how fast, budgets down to the smallest.
const std::vector<OffloadCase>& offload_cases();

/// Those for a net of this name: all that do not search, and of the others every sixth, beginning with one that the
/// name draws, so that many nets try all of them. Where the environment's SECTIONFLOW_TEST_OFFLOADS is `all`: all.
std::vector<OffloadCase> offload_cases_for(const std::string& net);

/// The options of a training whose tensors are offloaded so.
TrainOptions with_offloads(TrainOptions options, const OffloadCase& offload_case);

}  // namespace sectionflow::testing
