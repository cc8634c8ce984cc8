#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// The candidate that `word` most likely misspells, for hints in errors: the least number of inserted, deleted and
/// replaced bytes and of neighbours that changed places, and no more than about a third of the longer word. The first
/// of equals; nothing when none is near.
std::optional<std::string> nearest_spelling(std::string_view word, std::span<const std::string> candidates);

/// What an error says of a name that a file was asked for and does not have. Nobody vouches for the names that it has:
/// they are shortened, and of very many or very long ones no nearest is sought.
struct NamesInFile {
  std::string list;  ///< "'a', 'b' and 3 more"; "none"
  Fact hint;         ///< the nearest, or what else there is to be said
};
NamesInFile names_in_file(std::string_view wanted, std::span<const std::string> names, const std::string& otherwise);

}  // namespace sectionflow
