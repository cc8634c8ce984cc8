#pragma once

#include <cstddef>
#include <string>

#include "base/export.h"
#include "schedule/report.h"

namespace SF_API sectionflow {

/// Reads how much device memory to give: a size ("512MiB"), or a share ("50%"). A share is one of `whole`'s transient
/// peak, the plan of training the whole graph; its variables, which every strategy needs, come on top. So 100% is just
/// enough for the whole graph, and 50% leaves half of the bytes for activations, gradients and scratch.
/// Throws: ArgumentError for anything else, shares of 0 and below included.
std::size_t memory_share(const std::string& text, const ProgramReport& whole);
/// Whether the text is a share, for which the plan must be known.
bool is_share(const std::string& text);

}  // namespace sectionflow
