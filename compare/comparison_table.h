#pragma once

#include <string>

#include "base/text_table.h"
#include "compare/compare_strategies.h"

namespace sectionflow {

/// The results, a row each, the reference first; what no strategy has anything of has no column.
TextTable comparison_table(const Comparison& comparison);

/// The largest sizes, a row each.
TextTable largest_table(const LargestSizes& sizes);

}  // namespace sectionflow
