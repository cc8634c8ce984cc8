#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace sectionflow {

/// The most bytes of one message.
inline constexpr std::size_t kPieceBytes = 256 * 1024;
/// So many messages from one rank to another are on their way at most.
inline constexpr std::size_t kPiecesOnTheWay = 2;

/// Scratch for what one other rank sends of a chunk of so many bytes.
std::size_t scratch_of_a_rank(std::size_t chunk_bytes);

/// sum[i] = ((start[i] + parts[0][i]) + parts[1][i]) + ...; `start` may be nullptr. `sum` may be start or one of the
/// parts. Denormal floats count as zero, whatever the thread is set to. Opens no parallel region.
void add_in_rank_order(std::span<const float* const> parts, const float* start, float* sum, std::int64_t count);
/// The same of integers, which wrap around.
void add_in_rank_order(std::span<const std::int64_t* const> parts, const std::int64_t* start, std::int64_t* sum,
                       std::int64_t count);

}  // namespace sectionflow
