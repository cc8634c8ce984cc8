#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sectionflow {

/// Bytes as text of 64 characters, four for three bytes, padded with '='. Source: RFC 4648, section 4.
std::string base64_text(std::span<const std::byte> bytes);

/// How many bytes a text of this form stands for; nothing where no text of its length, with its '=', is of this form.
std::optional<std::size_t> base64_bytes(std::string_view text);
/// Reads a text into `bytes`, as many as base64_bytes says. False where it is not what base64_text writes.
bool read_base64(std::string_view text, std::span<std::byte> bytes);

}  // namespace sectionflow
