#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sectionflow {

// What callbacks keep: numbers with all their bits, as sixteen hexadecimal digits each.

std::string saved_numbers(const std::vector<double>& numbers);

inline constexpr std::size_t kAnyCount = static_cast<std::size_t>(-1);
/// Reads such a text of `count` numbers. Throws: DataError (SF-E609), which `who` begins, for another text.
std::vector<double> read_numbers(const std::string& text, std::size_t count, const char* who);

/// What a number is watched for behind the numbers about it: the same text where it is the same number, and its best
/// on the same side.
std::string watched_text(const std::string& monitor, bool higher_is_better);
/// Takes a watched_text from the end of a saved text. Nothing: an earlier version, which saved none.
std::optional<std::string> take_watched(std::string& saved);
/// Says in the log, which `who` begins, that what was kept of another number says nothing of this one.
void warn_of_watched(const char* who, const std::string& then, const std::string& now);

/// A count that was saved; 0 for what is none.
std::int64_t count_from(double number);

}  // namespace sectionflow
