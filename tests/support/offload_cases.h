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
};

/// Every policy with every other at least once, who carries and how fast, budgets down to the smallest.
const std::vector<OffloadCase>& offload_cases();

/// The options of a training whose tensors are offloaded so.
TrainOptions with_offloads(TrainOptions options, const OffloadCase& offload_case);

}  // namespace sectionflow::testing
