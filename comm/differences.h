#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/call.h"

namespace sectionflow {

/// What expect_same compares as a whole: the first line says what the text is of.
std::string comparable_text(std::string_view what, std::string_view text);
/// A number that tells texts apart.
std::uint64_t text_digest(std::string_view text);
/// The first rank whose call of expect_same has another text than rank 0's; -1 if none has.
int first_that_differs(std::span<const Call> calls);
/// Throws CommunicationError (SF-E512): the comparable text of rank `other` is `theirs`, where rank 0's is `first`.
[[noreturn]] void throw_difference(const OpenCall& open, std::string_view first, std::string_view theirs, int other);

}  // namespace sectionflow
