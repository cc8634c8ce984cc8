#pragma once

// Everything that users of sectionflow::compare call, beside sectionflow.h.

#include "base/export.h"
#include "compare/compare_strategies.h"
#include "compare/largest_size.h"
#include "compare/memory_timeline.h"
#include "compare/report_html.h"
#include "compare/strategy.h"
#include "compare/strategy_names.h"

/// Trains one model in several ways, side by side, and shows what each took and whether all gave the same bits.
namespace SF_API sectionflow {}
