#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace sectionflow {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 255;

constexpr std::array<std::uint8_t, 256> digits() {
  std::array<std::uint8_t, 256> table{};
  for (std::uint8_t& digit : table) digit = kNone;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return table;
}
constexpr std::array<std::uint8_t, 256> kDigits = digits();

std::size_t padding_of(std::string_view text) {
  if (text.ends_with("==")) return 2;
  return text.ends_with('=') ? 1 : 0;
}

}  // namespace

std::string base64_text(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < count ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? kAlphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::size_t> base64_bytes(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  return text.size() / 4 * 3 - padding_of(text);
}

bool read_base64(std::string_view text, std::span<std::byte> bytes) {
  if (base64_bytes(text) != bytes.size()) return false;
  const std::size_t num_digits = text.size() - padding_of(text);
  std::size_t written = 0;
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < num_digits; ++i) {
    const std::uint8_t digit = kDigits[static_cast<unsigned char>(text[i])];
    if (digit == kNone) return false;
    word = word << 6 | digit;
    // The first of four digits completes no byte, each other one does.
    if (i % 4 != 0) bytes[written++] = static_cast<std::byte>(word >> (6 - 2 * (i % 4)) & 255);
  }
  // The last digit has bits that belong to no byte.
  const std::uint32_t unused = padding_of(text) == 2 ? 15 : padding_of(text) == 1 ? 3 : 0;
  return (word & unused) == 0;
}

}  // namespace sectionflow
