#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/export.h"
#include "train/strategy.h"

namespace SF_API sectionflow {

/// Builds a model cut as a text says: "1", "4", "blocks".
using CutModel = std::function<ModelBuilder(const std::string& cut)>;

/// What a strategy may be called, for help texts: "whole", "sections:N", ...
std::vector<std::string> strategy_forms();

/// The strategy of that name. Models that are trained whole are cut by `cut_of_whole`, which changes nothing but the
/// colours of a report.
/// Throws: ArgumentError naming the nearest spelling and all forms; what `model` throws.
Strategy strategy_named(const std::string& name, const CutModel& model, const std::string& cut_of_whole = "1");

/// The cut of the first of these strategies that has one; "1" without.
std::string first_cut(const std::vector<std::string>& names);

}  // namespace sectionflow
