#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "compare/strategy.h"

namespace SF_API sectionflow {

/// Builds a model cut as a text says: "1", "4", "blocks".
using CutModel = std::function<ModelBuilder(const std::string& cut)>;

/// What a strategy may be called, for help texts: "whole", "sections:N", ...
std::vector<std::string> strategy_forms();

/// What strategies are made of.
struct StrategySource {
  CutModel model{};
  /// Models that are trained whole are cut so too, which changes nothing but the colours of a report.
  std::string cut_of_whole = "1";
  std::optional<Profile> profile{};  ///< what swap, auto and sections+swap plan by; absent: the nominal machine
  OnPlanning on_planning{};          ///< whom auto tells of its progress
  std::function<bool()> stop{};      ///< what ends the search of auto: FitBudgetOptions::stop
  FitPlan plan{};                    ///< what auto plans by, where it has the program
  Replan replan = Replan::never;     ///< when auto plans again
  std::int64_t effort = 0;           ///< changes of a plan that auto tries; 0: what is worth its time
};

/// The strategy of that name.
/// Throws: ArgumentError naming the nearest spelling and all forms; what the model throws.
Strategy strategy_named(const std::string& name, const StrategySource& source);

/// The strategies that fit_budget plans for, in a sentence: "auto, auto:recompute, auto:swap or auto:unsplit", of which
/// `last` is the "or"; empty: by commas alone.
std::string searching_strategies(const std::string& last);
/// Whether a strategy of that name, if there is one, is among them.
bool plans_by_search(const std::string& name);
/// Refuses `option`, which is about plans of fit_budget, where that plans for none of these strategies. Throws:
/// ArgumentError.
void check_plans_by_search(const std::string& option, const std::vector<std::string>& names);

/// The cut of the first of these strategies that has one; "1" without.
std::string first_cut(const std::vector<std::string>& names);

}  // namespace sectionflow
