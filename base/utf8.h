#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sectionflow {

/// How many bytes the UTF-8 character at the beginning of `text` has, 1 to 4; 0 where there is none: an empty text, a
/// byte that begins nothing, a character that is cut off, written longer than it need be, a surrogate, or one above
/// U+10FFFF.
std::size_t utf8_length(std::string_view text);
/// Whether all of the text is UTF-8.
bool is_utf8(std::string_view text);
/// The text with a question mark in place of each byte that is no part of a character. For files of formats that take
/// UTF-8 alone.
std::string valid_utf8(std::string_view text);

}  // namespace sectionflow
