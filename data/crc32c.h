#pragma once

#include <cstddef>
#include <cstdint>

namespace sectionflow {

/// CRC-32C (Castagnoli) of these bytes, or of bytes before, whose sum `crc` is, and these. With the machine's own
/// instruction where it has one. Source: RFC 3720, appendix B.4.
std::uint32_t crc32c(const void* bytes, std::size_t num_bytes, std::uint32_t crc = 0);

/// The same by a table, as on machines without the instruction.
std::uint32_t crc32c_by_table(const void* bytes, std::size_t num_bytes, std::uint32_t crc = 0);

}  // namespace sectionflow
