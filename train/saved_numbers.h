#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sectionflow {

// What callbacks keep: numbers with all their bits, as sixteen hexadecimal digits each.

std::string saved_numbers(const std::vector<double>& numbers);

inline constexpr std::size_t kAnyCount = static_cast<std::size_t>(-1);
/// Reads such a text of `count` numbers. Throws: DataError (SF-E609), which `who` begins, for another text.
std::vector<double> read_numbers(const std::string& text, std::size_t count, const char* who);

/// A count that was saved; 0 for what is none.
std::int64_t count_from(double number);

}  // namespace sectionflow
