#include "data/crc32c.h"

#include <array>
#include <cstring>

namespace sectionflow {
namespace {

// A sum is a polynomial over GF(2) modulo this one, its highest power in the lowest bit.
constexpr std::uint32_t kPolynomial = 0x82F63B78U;
constexpr std::uint32_t kOne = 0x80000000U;  // x^0

/// a * b modulo the polynomial.
constexpr std::uint32_t product_of(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t power = kOne; power != 0; power >>= 1) {
    if ((a & power) != 0) product ^= b;
    b = (b & 1U) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

/// x^(8 num_bytes): what a sum is multiplied by when so many zero bytes follow.
constexpr std::uint32_t power_of(std::size_t num_bytes) {
  std::uint32_t result = kOne;
  std::uint32_t square = kOne >> 8;
  for (std::size_t n = num_bytes; n != 0; n >>= 1) {
    if ((n & 1U) != 0) result = product_of(result, square);
    square = product_of(square, square);
  }
  return result;
}

/// What each value of each of the four bytes of a sum becomes when it is multiplied by `factor`.
using ByteTables = std::array<std::array<std::uint32_t, 256>, 4>;
ByteTables tables_of(std::uint32_t factor) {
  ByteTables tables{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t value = 0; value < 256; ++value) tables[byte][value] = product_of(factor, value << (8 * byte));
  }
  return tables;
}

std::uint32_t multiplied(const ByteTables& tables, std::uint32_t crc) {
  return tables[0][crc & 255U] ^ tables[1][crc >> 8 & 255U] ^ tables[2][crc >> 16 & 255U] ^ tables[3][crc >> 24];
}

std::uint64_t word_at(const unsigned char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if defined(__x86_64__)
/// The instruction takes three cycles and one may begin in each, so that three stretches are summed side by side.
template <std::size_t kStretchBytes>
__attribute__((target("sse4.2"))) std::uint64_t add_stretches(const unsigned char*& bytes, std::size_t& num_bytes,
                                                              std::uint64_t crc) {
  static const ByteTables behind = tables_of(power_of(kStretchBytes));
  while (num_bytes >= 3 * kStretchBytes) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kStretchBytes; i += 8) {
      crc = __builtin_ia32_crc32di(crc, word_at(bytes + i));
      second = __builtin_ia32_crc32di(second, word_at(bytes + kStretchBytes + i));
      third = __builtin_ia32_crc32di(third, word_at(bytes + 2 * kStretchBytes + i));
    }
    crc = multiplied(behind, static_cast<std::uint32_t>(crc)) ^ second;
    crc = multiplied(behind, static_cast<std::uint32_t>(crc)) ^ third;
    bytes += 3 * kStretchBytes;
    num_bytes -= 3 * kStretchBytes;
  }
  return crc;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const unsigned char* bytes, std::size_t num_bytes,
                                                               std::uint32_t sum) {
  std::uint64_t crc = sum;
  crc = add_stretches<4096>(bytes, num_bytes, crc);
  crc = add_stretches<256>(bytes, num_bytes, crc);
  for (; num_bytes >= 8; bytes += 8, num_bytes -= 8) crc = __builtin_ia32_crc32di(crc, word_at(bytes));
  for (; num_bytes > 0; ++bytes, --num_bytes) crc = __builtin_ia32_crc32qi(static_cast<std::uint32_t>(crc), *bytes);
  return static_cast<std::uint32_t>(crc);
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(const void* bytes, std::size_t num_bytes, std::uint32_t crc) {
  static const ByteTables tables = tables_of(power_of(4));
  const auto* from = static_cast<const unsigned char*>(bytes);
  crc = ~crc;
  for (; num_bytes >= 4; from += 4, num_bytes -= 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    crc = multiplied(tables, crc ^ word);
  }
  // A byte fewer than four is the last of four whose others are zero.
  for (; num_bytes > 0; ++from, --num_bytes) crc = crc >> 8 ^ tables[3][(crc ^ *from) & 255U];
  return ~crc;
}

std::uint32_t crc32c(const void* bytes, std::size_t num_bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~by_instruction(static_cast<const unsigned char*>(bytes), num_bytes, ~crc);
#endif
  return crc32c_by_table(bytes, num_bytes, crc);
}

}  // namespace sectionflow
