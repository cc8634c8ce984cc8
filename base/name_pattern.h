#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sectionflow {

/// Whether a name is one of a pattern's, in which every '*' stands for any text, none and '/' included, and '?' for one
/// letter: "encoder/*", "*/bias". All others stand for themselves. Takes at most the product of both lengths.
bool matches_pattern(std::string_view name, std::string_view pattern);

/// The pattern, or the name, that one which fits none of the names most likely misspells, for hints in errors: the
/// folder of "encodr/*" or the end of "*/kernal" among those of the names, or a whole name. Nothing when none is near.
std::optional<std::string> nearest_pattern(std::string_view pattern, std::span<const std::string> names);

/// The name with what `from` has instead of '*' put in the place of the '*' of `to`: "old/w" by "old/*" and "new/*" is
/// "new/w". Empty where the name is none of `from`. Both have one '*', or neither has one: see check_renaming.
std::optional<std::string> renamed(std::string_view name, std::string_view from, std::string_view to);

/// Throws: ArgumentError beginning with `call` unless `from` and `to` have one '*' each, or none at all, no '?', and
/// are not empty.
void check_renaming(const std::string& call, std::string_view from, std::string_view to);

}  // namespace sectionflow
