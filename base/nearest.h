#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/export.h"

namespace SF_API sectionflow {

/// The candidate that `word` most likely misspells, for hints in errors: the least number of inserted, deleted and
/// replaced bytes and of neighbours that changed places, and no more than about a third of the longer word. The first
/// of equals; nothing when none is near.
std::optional<std::string> nearest_spelling(std::string_view word, std::span<const std::string> candidates);

}  // namespace sectionflow
