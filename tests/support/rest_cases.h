#pragma once

#include <string>
#include <vector>

#include "tests/support/training_case.h"

namespace sectionflow::testing {

/// A way for tensors to rest: policies, tiers, carriers, and a budget.
struct RestCase {
  std::string name{};
  SectionOptions sections{};
  SessionOptions session{};
  int budget = -1;  ///< as TrainOptions::budget
};

/// Every policy with every other at least once, who carries and how fast, budgets down to the smallest.
const std::vector<RestCase>& rest_cases();

/// The options of a training whose tensors rest so.
TrainOptions with_rests(TrainOptions options, const RestCase& rests);

}  // namespace sectionflow::testing
