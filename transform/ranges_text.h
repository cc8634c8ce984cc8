#pragma once

#include <string>
#include <string_view>

#include "transform/ranges.h"

namespace sectionflow {

/// Ranges as they stand in files: {"ranges": [{"tensor": "relu", "minimum": 0.0, "maximum": 5.5}, ...]}, in the order
/// of the names. The same ranges always have the same text.
std::string ranges_text(const ValueRanges& ranges);

/// Reads them back. The text may come from anybody. Throws: DataError (SF-E402) with the fact "at", the place in the
/// text; what they are ranges of is not looked at.
ValueRanges ranges_of_text(std::string_view text);

}  // namespace sectionflow
